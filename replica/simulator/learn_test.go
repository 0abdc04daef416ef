package simulator

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// learning is a short search that learns, of ABD with all faults.
func learning(seeds int) Search {
	return Search{
		Start: Member(abd.Factory), Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seeds,
		Traced: true, Learn: true,
	}
}

// The same seed gives the same schedules, however many run at once; the code that is right stays right near them; and
// there are more of what was told apart with each part of the search.
func TestLearningIsDeterministicAndGrows(t *testing.T) {
	seeds := 6 * batch
	if testing.Short() {
		seeds = 4 * batch
	}
	last := Learnt{}
	s := learning(seeds)
	s.Progress = func(done int, l Learnt) {
		if l.Pairs <= last.Pairs || l.Events < last.Events || l.Kept < last.Kept {
			t.Errorf("%d schedules: %+v after %+v", done, l, last)
		}
		last = l
	}
	first := s.Run(context.Background())
	for _, f := range first.Failures {
		t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
	}
	s.Progress = nil
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3 - min(2, runtime.GOMAXPROCS(0))))
	if second := s.Run(context.Background()); !slices.Equal(first.Traces, second.Traces) || second.Learnt != first.Learnt {
		t.Errorf("the same seed learns otherwise: %+v, %+v", first.Learnt, second.Learnt)
	}
	s.First++
	if third := s.Run(context.Background()); slices.Equal(first.Traces, third.Traces) {
		t.Error("another seed gives the same schedules")
	}
}

// Whatever happens, no more than so many schedules are kept.
func TestWhatIsLearntIsBounded(t *testing.T) {
	l := newLearner(learning(1))
	for i := range uint64(5) {
		seen := coverage.New(func() (time.Duration, uint64) { return 1, 1 })
		for j := range uint64(maxCells) {
			seen.Note(0, coverage.Event(1+i*maxCells+j)<<20)
		}
		l.learnFrom(schedule.Schedule{Settle: time.Second}, Outcome{covered: seen})
	}
	if l.learnt.Events != 5*maxCells {
		t.Errorf("%d events were told apart, not %d", l.learnt.Events, 5*maxCells)
	}
	if len(l.corpus[0]) != maxCells || len(l.corpus[1]) != maxCells || len(l.kept) != 2*maxCells {
		t.Errorf("schedules are kept of %d events and %d pairs, by %d names", len(l.corpus[0]), len(l.corpus[1]), len(l.kept))
	}
}

// textOf is a schedule as it is written to a file.
func textOf(t *testing.T, s schedule.Schedule) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A schedule that is perturbed leaves the one that it is made of as it was, keeps to the kinds of faults that there may
// be, and stays in order.
func TestPerturbedSchedules(t *testing.T) {
	draw := kernel.NewStream(1, kernel.ForLearning, 1)
	options := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Partition, faults.Change}, RMWs: schedule.ManyRMWs}
	different := 0
	for seed := range uint64(50) {
		s := schedule.Draw(seed, options)
		text := textOf(t, s)
		for range 10 {
			m := schedule.Moment{At: draw.Between(0, s.Settle), Message: 10, Member: draw.Below(5) - 1}
			before := textOf(t, s)
			next := s.Perturb(draw, m, 100, options)
			if textOf(t, s) != before {
				t.Fatalf("seed %d: what was perturbed has changed", seed)
			}
			for _, f := range next.Faults {
				if !slices.Contains(options.Faults, f.Kind) && (f.Kind != faults.Wipe && f.Kind != faults.Torn && f.Kind != faults.Pause) {
					t.Fatalf("seed %d: a fault of the kind %s came", seed, f.Kind)
				}
			}
			for _, c := range next.Clients {
				if !slices.IsSortedFunc(c.Operations, func(a, b schedule.Planned) int { return int(a.At - b.At) }) {
					t.Fatalf("seed %d: operations are out of order: %v", seed, c.Operations)
				}
			}
			for _, strike := range next.Strikes {
				if strike.Lost || strike.Overtaken {
					t.Fatalf("seed %d: %v, without faults of links", seed, strike)
				}
			}
			s = next
		}
		if textOf(t, s) != text {
			different++
		}
	}
	if different != 50 {
		t.Errorf("%d of 50 schedules are others after ten perturbations", different)
	}
}
