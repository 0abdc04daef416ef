package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// lostLeaders is directed.LostLeaders with many rmws.
func lostLeaders(seed uint64) schedule.Schedule {
	return directed.LostLeaders(seed, schedule.Options{RMWs: 500})
}

func oldWitnesses(kind faults.Kind) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule { return directed.OldWitnesses(seed, kind) }
}

func oldCopies(kind faults.Kind) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule { return directed.OldCopies(seed, kind) }
}

// soaked is how a soak runs a protocol, and what its schedules are like.
func soaked(t *testing.T, variant definition.Variant) (Start, schedule.Options) {
	t.Helper()
	entry, variant, err := catalog.FindVariant(variant.Name)
	if err != nil {
		t.Fatal(err)
	}
	start, options := Member(entry.Factory), schedule.Options{RMWs: schedule.ManyRMWs}
	switch variant.Name {
	case "abd", "gus":
		options.RMWs = schedule.FewRMWs
	case "epaxos-small":
		start, options.Members = tolerating(variant.FaultTolerance, entry.Factory), []int{5}
		options.Tolerance, options.Losses = variant.FaultTolerance, variant.FaultTolerance
	case "gus-relaxed":
		start, options.RMWs, options.Members = relaxed, schedule.FewRMWs, []int{7, 9}
	case "gus-fragments":
		start, options = fragmented(), fragmentedChanges()
	case "gryffrsc":
		options.Regular = true
	case "gryffrsc-small":
		start, options = tolerating(variant.FaultTolerance, entry.Factory), toldSessions(variant.FaultTolerance, nil, 5)
	case "rmwpaxosatleastonce":
		start, options.Idempotent = Member(rmwpaxos.AtLeastOnce), true
	case "curp":
		start, options = nil, curpOptions()
		options.Stale = schedule.SomeStale
	}
	return start, options
}

// Each kind of directed schedules passes with each of its protocols, as a soak draws it. Those of masters are few here,
// since they take longer, and some have tests of their own.
func TestDirectedSchedulesSurvive(t *testing.T) {
	t.Parallel()
	for _, v := range catalog.Variants() {
		start, options := soaked(t, v)
		options.Faults = []faults.Kind{faults.Directed, faults.Limits, faults.InFlight}
		seeds := max(1, seedsFor(t)/120)
		if options.Partitioned != nil {
			seeds = max(1, seedsFor(t)/400)
		}
		for _, k := range directed.Of(v.Name, options.Partitioned != nil, options.Members) {
			options.Directed = directed.Draws([]directed.Kind{k})
			draw := drawn(options)
			t.Run(v.Name+", "+k.Name, func(t *testing.T) { mustNotFind(t, draw, start, seeds) })
		}
	}
}
