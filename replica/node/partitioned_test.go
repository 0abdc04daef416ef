package node

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

func TestPartitionsServe(t *testing.T) {
	p := newPartitioned(t, 3)
	number := 0
	for _, key := range append(p.keys(0, 2), append(p.keys(1, 2), p.keys(2, 2)...)...) {
		for _, id := range p.order {
			number++
			value := fmt.Sprint("value-", number)
			p.write(id, key, value)
			for _, reader := range p.order {
				p.expect(reader, key, value)
			}
			r := p.must(id,
				register.Operation{
					Kind: register.RMW, Key: key,
					Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("+")}},
				})
			if string(r.Value) == value {
				t.Errorf("an append left %q", r.Value)
			}
			p.expect(p.order[number%3], key, value+"+")
		}
	}
	fast := uint64(0)
	for i, part := range p.view.Partitions {
		for _, id := range p.order {
			got := p.members[id].status(t)
			told := got.Partitions[i]
			want := adminv1.PartRole_PART_LEARNER
			switch id {
			case part.Master:
				want = adminv1.PartRole_MASTER
			case part.Backups[0]:
				want = adminv1.PartRole_BACKUP
			}
			if told.Role != want || told.Term != 1 || told.Lost || told.Serving != (want == adminv1.PartRole_MASTER) ||
				told.Recovered != told.Serving {
				t.Errorf("member %d of partition %d: %v", id, i, told)
			}
			if told.Copying || told.WholeTerm != 1 || told.NotedTerm != 1 {
				t.Errorf("member %d has all of partition %d: %v", id, i, told)
			}
			fast += told.Fast
			if got.Role != adminv1.Role_VOTER || !got.Quorum || got.VotingShards != 3 || len(got.Witnesses) != 3 ||
				!got.Witnesses[2].Reachable ||
				got.Witnesses[2].Site != "site-5" || got.Witnesses[2].RttMicroseconds == 0 {
				t.Errorf("member %d: %v", id, got)
			}
		}
	}
	if fast == 0 {
		t.Error("no update took one round trip")
	}
	p.describesMetrics(1)
	part := p.view.Partitions[0]
	await(t, "the member that is no backup has what the backup has", func() bool {
		learner := slices.DeleteFunc(slices.Clone(p.order), part.Former().Has)
		got := p.members[part.Master].status(t).Partitions[0].CaughtUp
		return len(learner) == 1 && slices.Equal(got, []uint32{uint32(learner[0])})
	})
	key, tries := p.keys(0, 1)[0], 0
	await(t, "a read at a backup asks nobody elsewhere", func() bool {
		// A record that came after the others were dropped stays until updates of its key meet it, after some rounds of
		// gc.
		if tries++; tries%20 == 0 {
			p.write(part.Master, key, fmt.Sprint("again-", tries))
		}
		r := p.must(part.Backups[0], register.Operation{Kind: register.Read, Key: key})
		return r.RoundTrips == 0 && r.Fast
	})
	if r := p.must(part.Master, register.Operation{Kind: register.Read, Key: p.keys(0, 1)[0]}); r.RoundTrips != 0 {
		t.Errorf("a read at the master: %+v", r)
	}
}

// describesMetrics looks for the metrics of a member in the documentation.
func (p *partitioned) describesMetrics(id view.MemberID) {
	p.t.Helper()
	_, metrics := p.members[id].probe("/metrics")
	documentation, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, found := range []string{
		"georegister_partition_role", "georegister_partition_serving", "georegister_partition_lost",
		"georegister_partition_term",
		"georegister_partition_unsynced", "georegister_partition_updates_total", "georegister_witness_reachable",
		"georegister_witness_rtt_seconds", "georegister_witness_messages_sent_total",
		"georegister_witness_messages_dropped_total",
	} {
		if !strings.Contains(metrics, "\n"+found+"{") {
			p.t.Errorf("metrics lack %s", found)
		}
		if !strings.Contains(string(documentation), "`"+found+"{") {
			p.t.Errorf("docs/operations.md does not tell about %s", found)
		}
	}
}

// What was acknowledged and that no backup has is recovered from a witness when the master is gone.
func TestAMasterIsLost(t *testing.T) {
	p := newPartitioned(t, 3)
	part := p.view.Partitions[0]
	master, backup := part.Master, part.Backups[0]
	client := p.order[2]
	if client == master || client == backup {
		t.Fatalf("partition 0 is %+v", part)
	}
	keys := p.keys(0, 20)
	p.write(client, keys[19], "synced")
	p.expect(backup, keys[19], "synced")
	p.cut(master, backup, true)
	for _, key := range keys[:10] {
		if r := p.write(client, key, "of "+key); !r.Fast || r.RoundTrips != 1 {
			t.Errorf("a write that nothing conflicts with: %+v", r)
		}
	}
	p.kill(master)
	p.settle()
	if now := p.view.Partitions[0]; now.Master != backup {
		t.Errorf("partition 0 is %+v, and its backup was %d", now, backup)
	}
	for _, id := range []view.MemberID{backup, client} {
		for _, key := range keys[:10] {
			p.expect(id, key, "of "+key)
		}
		p.expect(id, keys[19], "synced")
		p.write(id, keys[11], fmt.Sprint("new ", id))
	}
	p.expect(backup, keys[11], fmt.Sprint("new ", client))
	// It comes back on its disk, is told the view, and takes part again.
	p.members[master] = run(t, p.members[master].config)
	await(t, "the member that came back has what is its part", func() bool {
		p.manage()
		return p.served() && p.view.Partitions[0].Master == master && len(p.view.Partitions[0].Backups) == 1
	})
	for _, key := range keys[:10] {
		p.expect(master, key, "of "+key)
	}
}

// While a witness is away, updates wait for the backups.
func TestAWitnessIsAway(t *testing.T) {
	p := newPartitioned(t, 3)
	part := p.view.Partitions[0]
	client := p.order[2]
	keys := p.keys(0, 4)
	if r := p.write(client, keys[0], "1"); !r.Fast {
		t.Errorf("with all witnesses: %+v", r)
	}
	away := part.Witnesses[0]
	p.witnesses[away].end()
	if r := p.write(client, keys[1], "2"); r.Fast {
		t.Errorf("without the witness: %+v", r)
	}
	for _, id := range p.order {
		p.expect(id, keys[1], "2")
	}
	p.witnesses[away] = p.witness(p.witnesses[away].config)
	await(t, "one round trip again", func() bool {
		return p.write(client, keys[2], fmt.Sprint(time.Now().UnixNano())).Fast
	})
	p.cut(client, away, true)
	await(t, "the witness is not reached", func() bool {
		for _, w := range p.members[client].status(t).Witnesses {
			if w.Member == uint32(away) {
				return !w.Reachable
			}
		}
		return false
	})
	if r := p.write(client, keys[3], "3"); r.Fast {
		t.Errorf("without the link to the witness: %+v", r)
	}
}

// Members that restart on their disks go on in the same term.
func TestPartitionedMembersRestart(t *testing.T) {
	p := newPartitioned(t, 3)
	keys := p.keys(0, 3)
	p.write(1, keys[0], "before")
	before := p.view.Digest()
	for _, id := range p.order {
		p.members[id] = p.members[id].again(t)
		await(t, "it serves", func() bool { return p.served() })
		p.expect(id, keys[0], "before")
		p.write(id, keys[1], fmt.Sprint("of ", id))
		p.expect(1, keys[1], fmt.Sprint("of ", id))
	}
	for _, id := range p.order { // all at once
		p.members[id].stop()
	}
	for _, id := range p.order {
		<-p.members[id].ended
		p.members[id] = run(t, p.members[id].config)
	}
	await(t, "all serve", p.served)
	p.expect(3, keys[0], "before")
	p.expect(5, keys[1], "of 5")
	for _, id := range p.order {
		if got := p.members[id].status(t); got.Digest != before || got.Boot != 3 || got.Partitions[0].Term != 1 {
			t.Errorf("member %d: %v", id, got)
		}
	}
}

// Masters are lost and come back under load, and no client of another member sees anything fail.
func TestMastersComeAndGoUnderLoad(t *testing.T) {
	p := newPartitioned(t, 3)
	l := newLoad(t, "CURP")
	l.at(p.members[3], 2)
	l.at(p.members[5], 2)
	l.progress(200)
	p.kill(1)
	p.settle()
	l.progress(200)
	p.members[1] = run(t, p.members[1].config)
	await(t, "it is a master again", func() bool {
		p.manage()
		return p.served() && p.view.Partitions[0].Master == 1
	})
	l.progress(200)
	l.judge()
	if got := p.members[3].status(t).Partitions[0]; got.Fast == 0 {
		t.Errorf("over all views: %v", got)
	}
}

// A newcomer takes the place of a member, by hand-overs, under load.
func TestPartitionedMembersChangeUnderLoad(t *testing.T) {
	p := newPartitioned(t, 3)
	l := newLoad(t, "CURP")
	l.at(p.members[3], 2)
	l.at(p.members[5], 2)
	l.atLeaving(p.members[1], 1)
	l.progress(200)
	newcomer := membership.PairedIDs(p.view.LastIssued(), 1)[0]
	founder, beside := p.waits(newcomer, 3)
	p.order, p.named = append(p.order, newcomer), []view.Witness{beside}
	joint, err := membership.Change(p.view, []membership.Founder{founder}, []view.MemberID{1})
	if err != nil {
		t.Fatal(err)
	}
	p.view = joint
	p.tell()
	await(t, "the change is finished", func() bool {
		p.manage()
		return !p.view.Joint() && p.served()
	})
	l.progress(200)
	l.judge()
	if got := p.members[1].status(t); got.Role != adminv1.Role_REMOVED {
		t.Errorf("who left: %v", got)
	}
	if got := fmt.Sprint(members(p.view), witnesses(p.view)); got != "[3 5 7] [4 6 8]" {
		t.Errorf("the view has %s", got)
	}
	got := p.members[newcomer].status(t)
	has := func(p *adminv1.Part) bool {
		return p.Role == adminv1.PartRole_MASTER || p.Role == adminv1.PartRole_BACKUP
	}
	if got.Role != adminv1.Role_VOTER || !slices.ContainsFunc(got.Partitions, has) {
		t.Errorf("the newcomer: %v", got)
	}
	if code, text := p.members[newcomer].probe("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, text)
	}
}

// A member whose disk is lost is not ready, and says why.
func TestALostPartIsTold(t *testing.T) {
	p := newPartitioned(t, 3)
	p.write(1, "k", "v")
	p.kill(3)
	c := p.members[3].config
	c.Directory = filepath.Join(t.TempDir(), "another")
	p.members[3] = run(t, c)
	await(t, "it is told the view by its peers", func() bool {
		return p.members[3].status(t).Epoch == 1 || p.members[3].configure(t, p.view) == nil
	})
	code, text := p.members[3].probe("/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "and has to be replaced: its disk is empty") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	got := p.members[3].status(t)
	if got.Role != adminv1.Role_LEARNER || got.VotingShards == 3 || !got.Partitions[1].Lost ||
		got.Partitions[1].Waits == "" {
		t.Errorf("status: %v", got)
	}
}

func TestViewsWithoutTheirPartitionsAreRefused(t *testing.T) {
	c := waiting(t, 1, storage.Sync)
	c.Protocol, c.Shards, c.Distances = "CURP", 3, nil
	r := run(t, c)
	v, err := membership.Found("c", []membership.Founder{r.founder(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.configure(t, v); err == nil ||
		!strings.Contains(err.Error(), "the view of epoch 1 has 0, and 3 shards need one each") {
		t.Errorf("no partitions: %v", err)
	}
	v.Witnesses = []view.Witness{{ID: 2, Site: "site-1", Disk: "d", Beside: 1}}
	if err := r.configure(t, v); err == nil || !strings.Contains(err.Error(), "witness 2 has no address") {
		t.Errorf("a witness that can't be reached: %v", err)
	}
	v.Witnesses = nil
	v.Partitions = []view.Partition{{Term: 1, Master: 1}}
	other := run(t, waiting(t, 1, storage.Sync)) // Gryff
	if err := other.configure(t, v); err == nil || !strings.Contains(err.Error(), "protocol Gryff has none") {
		t.Errorf("a protocol without masters: %v", err)
	}
}

// Partitions are split under load, twice, one of them again; the disks have what is where it was.
func TestPartitionsAreSplitUnderLoad(t *testing.T) {
	p := newPartitioned(t, 3)
	keys := map[string]string{}
	for i := range 90 {
		key := fmt.Sprint("kept-", i)
		keys[key] = "of " + key
		p.write(1, key, keys[key])
	}
	l := newLoad(t, "CURP")
	l.at(p.members[1], 1)
	l.at(p.members[3], 2)
	l.progress(200)
	for _, partitions := range []int{4, 7} { // the last of these is split off partition 0 or 3 again
		p.placement.Partitions = partitions
		await(t, "the partitions are split", func() bool {
			p.manage()
			return len(p.view.Partitions) == partitions && p.served()
		})
		l.progress(200)
	}
	l.judge()
	check := func() {
		for key, want := range keys {
			for _, id := range p.order {
				p.expect(id, key, want)
			}
		}
	}
	check()
	p.kill(p.view.Partitions[6].Master)
	p.settle()
	for key := range keys { // not p.order: one is away
		p.expect(p.view.Partitions[0].Master, key, keys[key])
	}
	for _, id := range p.order {
		if r := p.members[id]; r.up() {
			r.stop()
		}
		<-p.members[id].ended
		p.members[id] = run(t, p.members[id].config)
	}
	await(t, "all serve", func() bool {
		p.manage()
		return p.served()
	})
	check()
	for _, id := range p.order {
		got := p.members[id].status(t)
		if got.Shards != 7 || got.VotingShards != 7 || len(got.Partitions) != 7 ||
			got.Partitions[6].Term < p.view.Partitions[6].Split {
			t.Errorf("member %d: %v", id, got)
		}
	}
}
