package caspaxos_test

import (
	"os"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

func TestMain(m *testing.M) { os.Exit(mutants.Main(m)) }

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", caspaxos.Factory) }

// TestForgottenChange shows what the table of a state is for, step by step.
func TestForgottenChange(t *testing.T) {
	mutants.Build(t).Run(t, "it", "caspaxos/forget-changes", func(t *testing.T) {
		script.Run(t, "testdata/mistakes/forget-changes.txt", caspaxos.Factory)
	})
}

// What is copied from another disk was not accepted by this one; what was promised there is promised here, and what is
// newer here stays.
func TestAdopt(t *testing.T) {
	round := func(n uint64) *peerv1.RMWPaxosRound { return &peerv1.RMWPaxosRound{N: n, Proposer: 1 << 48} }
	other := func(n uint64) *peerv1.RMWPaxosRound { return &peerv1.RMWPaxosRound{N: n, Proposer: 2 << 48} }
	c := protocol.Config{
		Self: 1, Boot: 1, View: view.View{Cluster: "test", Epoch: 4, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}},
	}
	j := protocol.NewJournal(protocoltest.Disk{})
	p := caspaxos.Factory(c, j, quorum.FirstDisks(c.View))
	for i, step := range []struct{ theirs, want *peerv1.RMWPaxosRecord }{
		{&peerv1.RMWPaxosRecord{Ack: round(3), Voted: round(2), VotedIn: 4, Timestamp: 1},
			&peerv1.RMWPaxosRecord{AckAbove: 1, Voted: round(2), Timestamp: 1}},
		{&peerv1.RMWPaxosRecord{AckAbove: 4, Voted: round(1), VotedIn: 4, Timestamp: 9},
			&peerv1.RMWPaxosRecord{AckAbove: 3, Voted: round(2), Timestamp: 1}},
		{&peerv1.RMWPaxosRecord{Voted: round(4), VotedIn: 3, Timestamp: 2},
			&peerv1.RMWPaxosRecord{AckAbove: 1, Voted: round(4), Timestamp: 2}},
		{&peerv1.RMWPaxosRecord{Ack: other(6), Voted: round(1), Timestamp: 3},
			&peerv1.RMWPaxosRecord{Ack: other(6), Voted: round(4), Timestamp: 2}},
	} {
		raw, err := step.theirs.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Adopt([]byte("pk"), raw); err != nil {
			t.Fatal(err)
		}
		want, err := step.want.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := j.Get([]byte("pk")); !slices.Equal(got, want) {
			r := &peerv1.RMWPaxosRecord{}
			t.Errorf("step %d: the record is %v, %v; want %v", i+1, r, r.UnmarshalVT(got), step.want)
		}
	}
}

// seeds is how many schedules each search below tries.
func seeds(t *testing.T) int {
	if testing.Short() {
		return 20
	}
	return 300
}

// without are the kinds of faults but some.
func without(some ...faults.Kind) []faults.Kind {
	return slices.DeleteFunc(faults.Kinds(), func(k faults.Kind) bool { return slices.Contains(some, k) })
}

// search must find nothing, and take every path.
func search(t *testing.T, paths []string, o schedule.Options) {
	t.Helper()
	o.RMWs = schedule.ManyRMWs
	r := simulator.Search{
		Start: simulator.Member(caspaxos.Factory), Options: o, First: 1, Seeds: seeds(t) * max(1, len(o.Members)),
		Until: paths,
	}.Run(t.Context())
	for _, f := range r.Failures {
		t.Errorf("%v\n%s", f, simulator.Explain(simulator.Shrink(t.Context(), f)))
	}
	t.Logf("members %v: %d schedules, %d operations, %d faults that hit work in flight", o.Members, r.Schedules,
		r.Operations, r.Hits)
	if missing := r.Missing(paths); missing != nil && !testing.Short() {
		t.Errorf("paths never taken: %v", missing)
	}
}

func TestSurvives(t *testing.T) {
	t.Parallel()
	same := without(faults.Change)
	search(t, caspaxos.Paths(), schedule.Options{Faults: same, Members: []int{3, 5, 7}})
}

func TestSurvivesChanges(t *testing.T) {
	t.Parallel()
	search(t, caspaxos.ChangePaths(), schedule.Options{Faults: faults.Kinds()})
}

func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	whole := faults.Without(without(faults.Change, faults.OldCopy, faults.Rot), faults.Variations()...)
	all := schedule.Options{Faults: whole, Members: []int{3, 5}}
	crashes := schedule.Options{
		Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss}, Members: []int{3},
	}
	crash := schedule.Options{Faults: []faults.Kind{faults.Crash}, Members: []int{3}}
	wipes := schedule.Options{
		Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Loss, faults.Crash}, Members: []int{3, 5},
	}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, Members: []int{3, 5}}
	found := mutants.Build(t)
	for _, c := range []struct {
		mutant  string
		options schedule.Options
	}{
		{"base/ack-before-persist", crashes},
		{"caspaxos/complete-before-persist", crash},
		{"caspaxos/ignore-accepted", all},
		{"caspaxos/forget-changes", all},
		{"caspaxos/forget-sessions", all},
		{"caspaxos/resume-as-new", changes},
		{"caspaxos/adopt-blindly", changes},
		{"caspaxos/keep-agreed", all},
		{"member/vote-at-once", wipes},
		{"quorum/count-one-side", changes},
	} {
		found.Run(t, c.mutant, c.mutant, func(t *testing.T) { mustFind(t, c.options) })
	}
}

// mustFind searches for a violation.
func mustFind(t *testing.T, options schedule.Options) {
	t.Helper()
	options.RMWs = schedule.ManyRMWs
	start := simulator.Member(caspaxos.Factory)
	for seed := uint64(1); seed <= 2000; seed++ {
		f := simulator.Run(schedule.Draw(seed, options), start, nil).Failure
		if f != nil && f.Class == check.Violation {
			t.Logf("seed %d: %.200v", seed, f)
			return
		}
	}
	t.Error("not found in 2000 seeds")
}
