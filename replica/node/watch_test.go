package node

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

func TestChangesAreLoggedOnce(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	n := &node{log: zap.New(core)}
	of := &memberState{view: view.View{Members: []view.Member{{ID: 1, Site: "ca"}, {ID: 2, Site: "va"}}}}
	status := func(voter, quorum, reachable bool, refused string) runtime.Status {
		return runtime.Status{
			Quorum: quorum, Shards: []runtime.ShardStatus{{Voter: true}, {Voter: voter}},
			Peers: []transport.Peer{{ID: 2, Reachable: reachable, Refused: refused}},
		}
	}
	changing := func(settled, fetched bool) runtime.Status {
		s := status(true, true, true, "")
		s.Change = protocol.Change{Joint: true, Transfers: true, Settled: settled, Fetched: fetched}
		return s
	}
	var seen condition
	for _, step := range []struct {
		what   string
		status runtime.Status
		want   []string
	}{
		{"newcomer", status(false, false, false, ""), []string{
			"warn Member does not vote yet: its disk was empty, and it fetches the others' state first",
			"warn No quorum: clients are not served"}},
		{"nothing new", status(false, false, false, ""), nil},
		{"peer up", status(false, false, true, ""), []string{"info Peer reached"}},
		{"joined", status(true, true, true, ""),
			[]string{"info Member votes", "info Quorum reached: clients are served"}},
		{"still", status(true, true, true, ""), nil},
		{"cut off", status(true, false, false, ""),
			[]string{"warn Peer lost", "warn No quorum: clients are not served"}},
		{"refused", status(true, false, false, "other shards"), []string{"error Peer refuses this member"}},
		{"still refused", status(true, false, false, "other shards"), nil},
		{"healed", status(true, true, true, ""),
			[]string{"info Peer reached", "info Quorum reached: clients are served"}},
		{"settled", changing(true, false), nil},
		{"fetched", changing(true, true), []string{"info Member has done its part of the change of members"}},
		{"still done", changing(true, true), nil},
	} {
		seen = n.changed(of, seen, step.status)
		var got []string
		for _, entry := range logged.TakeAll() {
			got = append(got, entry.Level.String()+" "+entry.Message)
			if site, of := entry.ContextMap()["site"]; of && site != "va" {
				t.Errorf("%s: the peer's site is %v", step.what, site)
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: logged %q, want %q", step.what, got, step.want)
		}
	}
}

// What a member's parts become is logged, also over changes of the view.
func TestPartsAreLoggedWhenTheyChange(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	n := &node{log: zap.New(core)}
	of := &memberState{view: view.View{Witnesses: []view.Witness{{ID: 2, Site: "ca"}}}}
	var seen condition
	for _, step := range []struct {
		what  string
		parts []protocol.PartitionStatus
		want  []string
	}{
		{"the first view",
			[]protocol.PartitionStatus{{Role: protocol.Master, Why: "leases"}, {Partition: 1, Role: protocol.Backup},
				{Partition: 2, Role: protocol.Learner}}, []string{
				"info Witness reached", "info Member is the master of a partition, and does not serve yet",
				"info Member's part in a partition is another one"}},
		{"it serves",
			[]protocol.PartitionStatus{
				{Role: protocol.Master, Serving: true}, {Partition: 1, Role: protocol.Backup},
				{Partition: 2, Role: protocol.Learner},
			},
			[]string{"info Member is the master of a partition, and serves"}},
		{"nothing new",
			[]protocol.PartitionStatus{{Role: protocol.Master, Serving: true, Term: 7, Last: 9},
				{Partition: 1, Role: protocol.Backup}, {Partition: 2, Role: protocol.Learner}}, nil},
		{"replaced",
			[]protocol.PartitionStatus{{Role: protocol.Learner},
				{Partition: 1, Role: protocol.Backup, Lost: true, Why: "empty"},
				{Partition: 2, Role: protocol.Learner}}, []string{
				"info Member's part in a partition is another one",
				"error Member's disk can't fill its part in a partition: it has to be replaced"}},
	} {
		seen = n.changed(of, seen, runtime.Status{
			Quorum: true, Shards: []runtime.ShardStatus{{Voter: true}}, Partitions: step.parts,
			Witnesses: []transport.Peer{{ID: 2, Reachable: true}},
		})
		var got []string
		for _, entry := range logged.TakeAll() {
			if entry.Message != "Quorum reached: clients are served" {
				got = append(got, entry.Level.String()+" "+entry.Message)
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: logged %q, want %q", step.what, got, step.want)
		}
		seen = condition{known: true, quorum: true, witnesses: seen.witnesses, parts: seen.parts} // of another view
	}
}
