package simulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// What goes wrong once costs no more than the settings of members promise.
func TestDeviationsCostNoMoreThanIsPromised(t *testing.T) {
	t.Parallel()
	runs := 24
	if testing.Short() || raceEnabled {
		runs = 8
	}
	for name, d := range map[string]Deviations{ // order is irrelevant: each is a test of its own
		"abd":      {Start: Member(abd.Factory), Options: schedule.Options{RMWs: schedule.FewRMWs}},
		"epaxos":   {Start: Member(epaxos.Factory), Options: schedule.Options{RMWs: schedule.ManyRMWs}},
		"gryff":    {Start: Member(gryff.Factory), Options: schedule.Options{RMWs: schedule.ManyRMWs}},
		"gus":      {Start: Member(gus.Factory), Options: schedule.Options{RMWs: schedule.FewRMWs}},
		"raft":     {Start: Member(raft.Factory), Options: schedule.Options{RMWs: schedule.ManyRMWs}},
		"rmwpaxos": {Start: Member(rmwpaxos.Factory), Options: schedule.Options{RMWs: schedule.ManyRMWs}},
		"curp":     {Options: schedule.Options{RMWs: schedule.ManyRMWs, Partitioned: curp.Definition.Partitioned}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d.Seed, d.Members, d.Runs, d.Options.Faults = 1, 5, runs, faults.Kinds()
			if d.Options.Partitioned != nil {
				d.Options.Faults, d.Runs = faults.CURPKinds(), runs/2
			}
			r := d.Run(t.Context())
			if r.Failure != nil {
				t.Fatalf("%s: %v\n%s", r.By, r.Failure, Explain(r.Failure))
			}
			for _, one := range r.Deviated {
				t.Logf("%+v", one)
			}
		})
	}
}

// A protocol that is slow to try again, or never ends, is late after one lost message, and right all the same.
func TestLateIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wrong toyMistakes
		want  string // empty: nothing is found
	}{
		{toyMistakes{}, ""},
		{toyMistakes{retryLate: true}, "longer than in the plain run"},
		{toyMistakes{keepAsking: true}, "messages more"},
	} {
		d := Deviations{Start: startToy(c.wrong), Options: toyOptions(), Members: 3, Seed: 1, Runs: 200}
		d.Options.Faults = []faults.Kind{faults.Loss, faults.Duplicate, faults.Reorder, faults.Torn}
		r := d.Run(t.Context())
		switch f := r.Failure; {
		case c.want == "" && f != nil:
			t.Errorf("%s: %v", r.By, f)
		case c.want != "" && (f == nil || f.Class != check.Late || !strings.Contains(f.Reason, c.want)):
			t.Errorf("%+v: %v, not %q", c.wrong, f, c.want)
		}
		if c.wrong.retryLate && r.Failure != nil && Run(r.Failure.Schedule, startToy(c.wrong), nil).Failure != nil {
			t.Error("without the plain run, too, something is wrong")
		}
	}
}

// A known mistake that costs time alone is found, and is nothing to a search of schedules: it ends in time.
func TestLateMutantIsFound(t *testing.T) {
	t.Parallel()
	options := schedule.Options{Faults: []faults.Kind{faults.Loss}, RMWs: schedule.ManyRMWs}
	mutants.Build(t).Run(t, "lost commands", "raft/ask-again-late", func(t *testing.T) {
		r := Deviations{Start: Member(raft.Factory), Options: options, Members: 3, Seed: 1, Runs: 60}.Run(t.Context())
		if r.Failure == nil || r.Failure.Class != check.Late {
			t.Errorf("%s: %v", r.By, r.Failure)
		}
		if f := find(drawn(options), Member(raft.Factory), 0, 20, nil); f != nil {
			t.Errorf("a schedule shows it, too: %v", f)
		}
	})
}

// Of a page that is lost and asked for again late no client may hear; but a member is behind the others for longer.
func TestMutantIsBehindForLonger(t *testing.T) {
	t.Parallel()
	furthest := func() (most time.Duration) {
		options := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Loss}, RMWs: schedule.ManyRMWs}
		r := Deviations{Start: Member(raft.Factory), Options: options, Members: 5, Seed: 1, Runs: 110}.Run(t.Context())
		if r.Failure != nil {
			t.Errorf("%s: %v", r.By, r.Failure)
		}
		for _, d := range r.Deviated {
			if d.Plain == "a member was away" && d.Kind == lost {
				most = d.Furthest
			}
		}
		return most
	}
	const right = 200 * time.Millisecond // of the 116 after which a page is asked for again
	mutants.Build(t).Run(t, "mutant", "raft/pull-late", func(t *testing.T) {
		if most := furthest(); most < 2*right {
			t.Errorf("a member is behind for %v longer at most", most)
		}
	})
	t.Run("right", func(t *testing.T) {
		if most := furthest(); most == 0 || most > right {
			t.Errorf("a member is behind for %v longer at most", most)
		}
	})
}

// The same deviations cost the same each time.
func TestDeviationsReplay(t *testing.T) {
	t.Parallel()
	d := Deviations{Start: Member(abd.Factory), Options: schedule.Options{Faults: faults.Kinds()}, Members: 3, Seed: 1, Runs: 22}
	if one, other := d.Run(t.Context()), d.Run(t.Context()); !slices.Equal(one.Deviated, other.Deviated) || one.Runs < 100 {
		t.Errorf("%+v, and then %+v", one, other)
	}
}
