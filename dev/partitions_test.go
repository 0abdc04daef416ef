package dev

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness"
)

const curpThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}]}"

// curpScene is a cluster with masters, whose members and witnesses say what a test has them say: all hear all but the
// dead.
type curpScene struct {
	*scene
	dead []view.MemberID
}

func newCURPScene(t *testing.T) *curpScene { return newCURPSceneOf(t, curpThree) }

func newCURPSceneOf(t *testing.T, spec string) *curpScene {
	s := &curpScene{scene: &scene{t: t, record: newRecord(manifest(t, spec)), reports: map[view.MemberID]report{}}}
	for _, m := range s.record.Members {
		s.wait(m.ID)
		s.name(m)
	}
	return s
}

// name has a witness name its disk.
func (s *curpScene) name(m memberRecord) {
	r := s.reports[m.ID]
	r.witness = &membership.WitnessReport{Witness: m.Witness, Disk: fmt.Sprint("disk-", m.Witness)}
	s.reports[m.ID] = r
}

// say has all members that live say that they hold the view, serve what they are master of, and whom they hear.
func (s *curpScene) say(recovered bool) {
	var all, alive []view.MemberID
	for _, m := range s.record.Members {
		all = append(all, m.ID)
		if !slices.Contains(s.dead, m.ID) {
			alive = append(alive, m.ID, m.Witness)
		}
	}
	s.hold(true, all...)
	for _, id := range all {
		r := s.reports[id]
		r.told = &membership.MemberReport{Member: id, Disk: r.disk, Digest: s.record.View.Digest(), Epoch: s.record.View.Epoch, Hears: alive}
		for _, p := range s.record.View.Partitions {
			part := membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}
			if !recovered && len(p.Formers) > 0 { // it is not that far yet
				part.WholeTerm = p.Formers[len(p.Formers)-1].Term
				part.NotedTerm = part.WholeTerm
			}
			if recovered && p.Master == id {
				part.Recovered, part.CaughtUp = true, learners(s.record.View, p, alive)
			}
			r.told.Partitions = append(r.told.Partitions, part)
		}
		s.reports[id] = r
		if slices.Contains(s.dead, id) {
			s.reports[id] = report{}
		}
	}
}

// learners are the members of a view, of those who live, that follow the master of a partition and are no backups.
func learners(v view.View, p view.Partition, alive []view.MemberID) (all []view.MemberID) {
	for _, m := range v.Members {
		if !p.Former().Has(m.ID) && slices.Contains(alive, m.ID) {
			all = append(all, m.ID)
		}
	}
	return all
}

// partition is one of the recorded view, in few words.
func (s *curpScene) partition(i int) string {
	p := s.record.View.Partitions[i]
	names := func(ids []view.MemberID) string { return "[" + s.record.labels(ids) + "]" }
	text := fmt.Sprint(p.Term, " ", s.record.label(p.Master), " ", names(p.Backups), " ", names(p.Witnesses))
	for _, f := range p.Formers {
		text += fmt.Sprint(" after ", f.Term)
	}
	return text
}

func TestMembersAndWitnessesOfARecord(t *testing.T) {
	r := newRecord(manifest(t, curpThree))
	var got []string
	r.newcomer("d")
	d := &directory{path: "data", record: r}
	for _, m := range r.Members {
		got = append(got, fmt.Sprint(r.label(m.ID), " ", m.ID, " ", r.label(m.Witness), " ", m.Witness, " in ", d.witnessDisk(m)))
	}
	want := []string{
		"a 1 a/witness 2 in data/members/a/witness/disk", "b 3 b/witness 4 in data/members/b/witness/disk",
		"c 5 c/witness 6 in data/members/c/witness/disk", "d 7 d/witness 8 in data/members/d.7/witness/disk",
	}
	if !slices.Equal(got, want) || r.Issued != 8 || r.Shards != 3 || r.Faults != 1 {
		t.Errorf("%q of %+v", got, r)
	}
	if other := newRecord(manifest(t, threeSites)); other.Members[1].Witness != 0 || other.partitioned() {
		t.Errorf("protocol Gryff has witnesses: %+v", other)
	}
}

func TestFoundingWithPartitions(t *testing.T) {
	s := newCURPScene(t)
	r := s.reports[3]
	r.witness = nil
	s.reports[3] = r
	s.waits("b/witness to name its empty disk")
	s.name(s.record.Members[1])
	s.views(1, false, 1, 3, 5)
	v := s.record.View
	if len(v.Witnesses) != 3 || v.Witnesses[1] != (view.Witness{ID: 4, Site: "b", Address: "127.0.0.1:0", Disk: "disk-4", Beside: 3}) {
		t.Errorf("the witnesses are %+v", v.Witnesses)
	}
	for i, want := range []string{"1 a [b] [b/witness]", "1 b [c] [c/witness]", "1 c [a] [a/witness]"} {
		if got := s.partition(i); got != want {
			t.Errorf("partition %d: %s, want %s", i, got, want)
		}
	}
	s.waits("a quorum of the members to connect")
	s.say(true)
	if next := s.step(); next.view.Epoch != 0 || next.waits != "" {
		t.Errorf("nothing is to do, and the step is %+v", next)
	}
}

func TestAMasterThatIsNotHeardIsReplaced(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	// That this process does not hear it decides nothing, nor does one member.
	silent := s.reports[1]
	s.reports[1] = report{running: true, silent: true}
	s.waits("")
	s.reports[3].told.Hears = []view.MemberID{4, 5, 6}
	s.waits("too few members say whether they hear its master a")
	s.reports[1] = silent
	s.dead = []view.MemberID{1}
	s.say(true)
	next := s.step()
	if next.view.Epoch != 2 || len(next.because) != 2 || next.because[0] != "partition 0: its master a is not heard by a quorum of members; member b takes its place" {
		t.Fatalf("%+v", next)
	}
	if got := s.partition(0); got != "2 b [c] [c/witness] after 1" {
		t.Errorf("partition 0: %s", got)
	}
	s.say(false)
	s.waits("partition 0: member b recovers it")
	s.say(true)
	if next = s.step(); next.view.Epoch != 3 || !strings.Contains(strings.Join(next.because, "\n"), "its master b has recovered term 2") {
		t.Errorf("%+v", next)
	}
}

// With fewer members than that takes, no partition goes on with fewer backups than it had: it waits, and people read
// for what.
func TestAMasterHasItsBackupsOrWaits(t *testing.T) {
	s := newCURPSceneOf(t, "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]}")
	s.views(1, false, 1, 3, 5, 7, 9)
	s.dead = []view.MemberID{1, 7}
	s.say(true)
	for i := range s.record.View.Partitions {
		s.reports[9].told.Partitions[i].Lost = true
	}
	s.waits("partition 0: its master a is not heard by a quorum of members; member b takes its place once it can have 2 backups: " +
		"of the members that it hears, c can be")
	s.say(true)
	if next := s.step(); next.view.Epoch != 2 || s.partition(0) != "2 b [c, e] [c/witness, e/witness] after 1" {
		t.Errorf("%s: %+v", s.partition(0), next)
	}
}

func TestWhatAMemberTells(t *testing.T) {
	got := fmt.Sprintf("%+v", *told(5, &adminv1.StatusResponse{
		Disk: "d", Digest: "x", View: &adminv1.View{Epoch: 4},
		Peers:      []*adminv1.Peer{{Member: 1, Reachable: true}, {Member: 3, Connected: true}},
		Witnesses:  []*adminv1.Peer{{Member: 2, Reachable: true}, {Member: 4}},
		Partitions: []*adminv1.Part{{Term: 7, Lost: true, Recovered: true, Restarted: true, CaughtUp: []uint32{3}, Copying: true, WholeTerm: 6, NotedTerm: 5, Length: 9}},
	}))
	if want := "{Member:5 Disk:d Digest:x Epoch:4 Hears:[1 2] Partitions:[{Term:7 Lost:true Recovered:true Restarted:true CaughtUp:[3] Copying:true WholeTerm:6 NotedTerm:5 Length:9}]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// curpFounded is a cluster of three with partitions and without processes; its members say that they hold the view.
func curpFounded(t *testing.T) (*Cluster, *curpScene) {
	t.Helper()
	s := newCURPScene(t)
	c := &Cluster{options: Options{Manifest: manifest(t, curpThree)}, cut: map[link]bool{}, woken: make(chan struct{}, 1)}
	c.directory = &directory{path: t.TempDir(), record: s.record}
	if err := assign(c.directory.record.Members, 0, false); err != nil {
		t.Fatal(err)
	}
	s.record = c.directory.record
	s.views(1, false, 1, 3, 5)
	c.directory.record = s.record
	for _, m := range s.record.Members {
		c.members = append(c.members, &member{record: m, witness: newSidecar(s.record.Cluster, m)})
	}
	return c, s
}

func TestWitnessesAreCutWithTheirMember(t *testing.T) {
	c, _ := curpFounded(t)
	var told []string
	for _, m := range c.members {
		m.admin, m.process = linked{told: &told}, &process{ended: make(chan struct{})}
	}
	if err := c.Partition("a", "c"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1-5 true", "1-6 true", "5-1 true", "5-2 true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if got := fmt.Sprint(c.config(c.members[0]).Blocked); got != "[5 6]" {
		t.Errorf("blocked from the start: %s", got)
	}
}

func TestWhatCURPRefuses(t *testing.T) {
	c, _ := curpFounded(t)
	for want, err := range map[string]error{
		"lost with that of its member; use `wipe a`": c.Wipe("a/witness"),
		`no site "x"`: c.Kill("x/witness"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := founded(t, threeSites).Kill("a/witness"); err == nil || !strings.Contains(err.Error(), "protocol Gryff has no witnesses") {
		t.Errorf("%v", err)
	}
}

// runWitness runs the witness beside a member in this process, until the test ends.
func runWitness(t *testing.T, c *Cluster, m *member) {
	t.Helper()
	config := c.witnessConfig(m.witness)
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- witness.Run(ctx, config, witness.Options{Listening: func(net.Addr) { close(listening) }})
	}()
	select {
	case <-listening:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	m.witness.process = &process{ended: make(chan struct{})}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Lives begin when their view is recorded, and end when no partition needs them.
func TestLivesFollowTheView(t *testing.T) {
	c, s := curpFounded(t)
	for _, m := range c.members {
		runWitness(t, c, m)
	}
	ask := func() {
		for id, said := range c.askWitnesses(t.Context()) { // order is irrelevant: a map into a map
			r := s.reports[id]
			r.witness = said
			s.reports[id] = r
		}
	}
	awaitLives := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			ask()
			var got []string
			for _, m := range c.members {
				for _, l := range s.reports[m.record.ID].witness.Lives {
					got = append(got, fmt.Sprintf("%s %d/%d", m.name(), l.Partition, l.Term))
				}
			}
			if strings.Join(got, ", ") == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("lives are %q, want %q", got, want)
			}
			c.live(t.Context(), s.reports)
		}
	}
	defer c.background.Wait()
	ask()
	for i, m := range c.members { // the disks that they have
		c.directory.record.View.Witnesses[i].Disk = s.reports[m.record.ID].witness.Disk
	}
	s.record = c.directory.record
	awaitLives("a 2/1, b 0/1, c 1/1")
	// Member a goes, and others take its place; when they have recovered, the earlier lives are over.
	s.dead = []view.MemberID{1}
	for s.say(true); s.step().view.Epoch > 0; s.say(true) {
		ask()
		c.directory.record = s.record
	}
	awaitLives("b 2/2, c 0/2, c 1/1")
}

func TestPartitionTable(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	v := s.record.View
	v.Partitions = slices.Clone(v.Partitions)
	v.Partitions[2].Formers = []view.Former{{Term: 1}}
	v.Partitions[2].Term = 2
	rates, now := NewRates(), time.Now()
	rows := func(fast, slow uint64, after time.Duration, most int) []string {
		observations := []Observation{
			{ID: 1, Label: "a", PID: 7, Status: &adminv1.StatusResponse{Partitions: []*adminv1.Part{
				{Term: 1, Role: adminv1.PartRole_MASTER, Serving: true, Unsynced: 4, Fast: fast, Slow: slow}, {Term: 1}, {Term: 2, Role: adminv1.PartRole_BACKUP},
			}}},
			{ID: 3, Label: "b", PID: 8, State: Down},
			{ID: 5, Label: "c", PID: 9, Status: &adminv1.StatusResponse{Partitions: []*adminv1.Part{
				{Term: 1, Fast: 10}, {Term: 1, Role: adminv1.PartRole_BACKUP}, {Term: 2, Role: adminv1.PartRole_MASTER, Waits: "witness a does not answer"},
			}}},
		}
		var all []string
		for _, line := range rates.Partitions(v, s.record.label, observations, most, now.Add(after)) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	rows(5, 5, 0, 0)
	want := []string{
		"PARTITION STATE MASTER BACKUPS WITNESSES TERM UNSYNCED FAST PATH",
		"0 serving a b b 1 4 75%", "1 unknown b c c 1 - -", "2 recovers c a a 2 0 -",
		"partition 2: c: witness a does not answer",
	}
	if got := rows(8, 6, time.Second, 0); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := rows(8, 6, 2*time.Second, 2); len(got) != 4 || got[3] != "1 more partitions; `status` shows them" {
		t.Errorf("%q", got)
	}
	if got := rates.Partitions(view.View{}, nil, nil, 0, now); got != nil {
		t.Errorf("without partitions: %q", got)
	}
}

func TestAWitnessShowsInTheTable(t *testing.T) {
	o := observed(7, 1, 1)
	o.Witness = &WitnessObservation{Label: "a/witness", State: Running, PID: 42}
	lines := NewRates().Table([]Observation{o}, time.Now())
	if !strings.HasSuffix(lines[0], "WITNESS") || !strings.HasSuffix(lines[1], "42") {
		t.Errorf("%q", lines)
	}
	o.Witness = &WitnessObservation{Label: "a/witness", State: Crashed, Reason: "disk full"}
	lines = NewRates().Table([]Observation{o}, time.Now())
	if !strings.HasSuffix(lines[1], "crashed") || lines[2] != "a/witness crashed: disk full" {
		t.Errorf("%q", lines)
	}
}

func TestAWitnessHasItsOwnPort(t *testing.T) {
	r := newRecord(manifest(t, curpThree))
	if err := assign(r.Members, 0, false); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Members {
		if m.Ports.Witness == 0 || m.Ports.Witness == m.Ports.Peer {
			t.Errorf("%+v", m)
		}
	}
	taken, err := net.Listen("tcp", loopback(r.Members[1].Ports.Witness))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var picker portPicker
	if err := picker.assign(r.Members, 0, true); err == nil || !strings.Contains(err.Error(), "where the others look for b") {
		t.Errorf("%v", err)
	}
	d := &directory{path: "x", record: r}
	if got := d.witness(r.Members[0]); got != filepath.Join("x", "members", "a", "witness") {
		t.Error(got)
	}
}

// A member that lost its disk is replaced: its parts go to others, the newcomer's witness comes, and then it leaves.
func TestALostDiskIsReplaced(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	wiped := s.reports[3]
	wiped.disk = "another"
	s.reports[3] = wiped
	id := s.record.newcomer("b")
	s.record.Change = &change{Join: []view.MemberID{id}, Leave: []view.MemberID{3}}
	s.wait(id)
	newcomer := *s.record.find(id)
	var told []string
	for range 40 {
		next := s.step()
		told = append(told, next.because...)
		if next.over {
			break
		}
		s.say(true)
		if v := s.record.View; v.Joint() && v.Index(id) >= 0 {
			s.name(newcomer)
		}
		s.reports[3].told.Disk = "another"
	}
	v := s.record.View
	if fmt.Sprint(members(v)) != "[1 5 7]" || v.Joint() || len(v.Witnesses) != 3 || !strings.Contains(strings.Join(told, "\n"), "witness b-2/witness comes") {
		t.Fatalf("the view is %+v after %q", v, told)
	}
	if got := s.partition(1); !strings.Contains(got, " b-2 [a] [a/witness]") { // its home
		t.Errorf("partition 1: %s", got)
	}
}

// A newcomer that crashes in the middle is sent away again.
func TestAPartitionedChangeIsGivenUp(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	id := s.record.newcomer("b")
	s.record.Change = &change{Join: []view.MemberID{id}, Leave: []view.MemberID{3}}
	s.wait(id)
	s.views(2, true, 1, 3, 5, 7)
	s.dead = []view.MemberID{id}
	s.say(true)
	s.reports[id] = report{crashed: "disk full"}
	if next := s.step(); next.abandoned != "b-2 crashed: disk full" || s.record.View.Epoch != 2 {
		t.Fatalf("%+v", next)
	}
	s.reports[id] = report{crashed: "disk full"}
	s.views(3, false, 1, 3, 5)
	s.say(true)
	s.reports[id] = report{crashed: "disk full"}
	s.over()
}

func TestANewcomerNeedsItsWitness(t *testing.T) {
	r := newRecord(manifest(t, curpThree))
	id := r.newcomer("b")
	r.Change = &change{Join: []view.MemberID{id}}
	o := Observation{ID: id, State: Waiting, Witness: &WitnessObservation{State: Crashed, Reason: "disk full"}}
	if why := r.failed(map[view.MemberID]report{id: o.report(false)}); why != "b-2 crashed: disk full" {
		t.Errorf("%q", why)
	}
}
