package simulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// find returns the first failure that counts among so many seeds after one, or nil. Where the first seed that shows a
// mistake is a late one, those long before it are left out: they were searched once. If some classes only count, checks
// end soon: to search a wrong history to its end can take hours, and another seed shows as much.
func find(draw func(seed uint64) schedule.Schedule, start Start, after uint64, seeds int, counts func(*Failure) bool) *Failure {
	for seed := after + 1; seed <= after+uint64(seeds); seed++ {
		s := draw(seed)
		if counts != nil {
			s.Check = 5 * time.Second
		}
		if f := Run(s, start, nil).Failure; f != nil && (counts == nil || counts(f)) {
			return f
		}
	}
	return nil
}

// mustFind is find for a mistake that was put back, which has to be found.
func mustFind(t *testing.T, draw func(seed uint64) schedule.Schedule, start Start, after uint64, seeds int, counts func(check.Class) bool) {
	t.Helper()
	var all func(*Failure) bool
	if counts != nil {
		all = byClass(counts)
	}
	mustFail(t, draw, start, after, seeds, all)
}

// mustFail is mustFind where the class alone does not say what counts.
func mustFail(t *testing.T, draw func(seed uint64) schedule.Schedule, start Start, after uint64, seeds int, counts func(*Failure) bool) *Failure {
	t.Helper()
	if raceEnabled {
		t.Skip("the search takes minutes under the race detector, and is single-threaded")
	}
	f := find(draw, start, after, seeds, counts)
	if f == nil {
		t.Fatalf("not found in %d seeds after %d", seeds, after)
	}
	t.Logf("%.200v", f)
	return f
}

// hunt is a mutant, by its name and, after a space, what tells two hunts apart, and where it is looked for.
type hunt struct {
	mutant  string
	options schedule.Options
	after   uint64
	seeds   int
}

// mustFindEach is mustFail for each of some mutants of a protocol, in a process of its own.
func mustFindEach(t *testing.T, start Start, counts func(*Failure) bool, hunts []hunt) {
	t.Helper()
	program := mutants.Build(t)
	for _, h := range hunts {
		mutant, _, _ := strings.Cut(h.mutant, " ")
		program.Run(t, h.mutant, mutant, func(t *testing.T) {
			mustFail(t, drawn(h.options), start, h.after, h.seeds, counts)
		})
	}
}

// byClass is what counts of a failure if its class alone says so.
func byClass(counts func(check.Class) bool) func(*Failure) bool {
	return func(f *Failure) bool { return counts(f.Class) }
}

// endless counts what does not come to its end.
func endless(c check.Class) bool { return c == check.Stuck || c == check.Unbounded }

// mustNotFind is find for what is right, in schedules that are made for a mistake.
func mustNotFind(t *testing.T, draw func(seed uint64) schedule.Schedule, start Start, seeds int) {
	t.Helper()
	if f := find(draw, start, 0, seeds, nil); f != nil {
		t.Errorf("%v\n%s", f, Explain(f))
	}
}

// mustPass is mustNotFind for the very schedule of one seed: one that has a mistake found must not be
// wrong by itself.
func mustPass(t *testing.T, draw func(seed uint64) schedule.Schedule, start Start, seed uint64) {
	t.Helper()
	if f := Run(draw(seed), start, nil).Failure; f != nil {
		t.Errorf("without the mistake: %v\n%s", f, Explain(f))
	}
}

// takesAll runs schedules that must be right and take every path together: as many as are enough for that, and a half
// of what it tries at the least. It returns how often each path was taken.
func takesAll(t *testing.T, draw func(seed uint64) schedule.Schedule, paths []string) map[string]int {
	t.Helper()
	took := map[string]int{}
	missing := func(path string) bool { return took[path] == 0 }
	for seed := range uint64(seedsFor(t) / 8) {
		if seed >= uint64(seedsFor(t)/16) && !slices.ContainsFunc(paths, missing) {
			break
		}
		if f := Run(draw(seed+1), nil, func(path string) { took[path]++ }).Failure; f != nil {
			t.Errorf("%v\n%s", f, Explain(f))
		}
	}
	for _, path := range paths {
		if missing(path) && seedsFor(t) == searchSeeds {
			t.Errorf("no schedule led to %s", path)
		}
	}
	return took
}

// drawn is Draw with options.
func drawn(options schedule.Options) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule { return schedule.Draw(seed, options) }
}

// harm counts what is more than that members don't go on, which was not the mistake's harm.
func harm(class check.Class) bool {
	return !slices.Contains([]check.Class{check.Stuck, check.Unbounded, check.Undecided, check.Believed, check.Breach}, class)
}

// found counts a class; an empty one stands for what clients notice.
func found(class check.Class) func(check.Class) bool {
	if class == "" {
		return func(c check.Class) bool { return c == check.Violation || c == check.Miscount }
	}
	return func(c check.Class) bool { return c == class }
}

// A search ends at the quarter of its schedules that shows nothing new, unless a path is missing that it is to take.
func TestASearchEndsWhereNothingIsNew(t *testing.T) {
	t.Parallel()
	s := Search{
		Start: Member(abd.Factory), First: 1, Seeds: 40,
		Options: schedule.Options{
			Members: []int{3}, Operations: 10, Faults: []faults.Kind{faults.Loss}, RMWs: schedule.FewRMWs,
		},
	}
	tried := func(until []string) int {
		s.Until = until
		r := s.Run(t.Context())
		return r.Schedules + r.Skipped
	}
	if n := tried(nil); n != s.Seeds {
		t.Errorf("%d of %d schedules are tried", n, s.Seeds)
	}
	if n := tried([]string{"never"}); n != s.Seeds {
		t.Errorf("%d of %d schedules are tried for a path that none takes", n, s.Seeds)
	}
	if n := tried([]string{}); n >= s.Seeds || n%(s.Seeds/4) != 0 || n < s.Seeds/2 {
		t.Errorf("%d of %d schedules are tried, which take few paths", n, s.Seeds)
	}
}
