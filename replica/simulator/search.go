package simulator

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/members"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// MinHits is how many faults must hit work in flight for a schedule to count.
const MinHits = 3

// Search tries the schedules of many seeds against a protocol.
type Search struct {
	Start   Start
	Options schedule.Options
	First   uint64 // the first seed
	Seeds   int    // how many, one after the other
	// Lose has disks be lost for good, in schedules of their own, at so many answers of each schedule: what a manifest
	// promises of that is tried instead of the schedules as they are.
	Lose int
	// Traced has the report tell the schedules apart by what happened in them; it counts without Lose only.
	Traced bool
	// Weighed has the report tell what each schedule cost; it counts without Lose and Learn only.
	Weighed bool
	// StopAt ends the search after so many failures; 0 means 1.
	StopAt int
	// Until, unless it is nil, ends the search once these paths were taken, and a quarter of Seeds took no path for the
	// first time: more schedules would tell little that is new. It counts without Learn only.
	Until []string
	// Learn has most schedules not be those of their seeds, but be near earlier ones in which something new happened. Then
	// Lose counts for nothing.
	Learn bool
	// Corpus is the first schedules of Learn, near which many others are: those that are known to be interesting, the
	// shorter the better.
	Corpus []schedule.Schedule
	// Progress, which may be nil, is told now and then how many schedules are done, and with Learn what was learnt. It is
	// called by one goroutine at a time.
	Progress func(done int, learnt Learnt)
}

// Report is what a search found.
type Report struct {
	Schedules  int // that hit enough work in flight to count
	Skipped    int // that did not; they were checked all the same
	Operations int
	Hits       int // faults that hit work in flight
	Events     uint64
	Losses     int               // of sets of disks
	Paths      map[string]uint64 // how often the protocol took each path
	Failures   []*Failure        // by seed
	// Traces are digests of what happened, as a diagram of it shows (Explain), by seed; nil unless Search.Traced. The same
	// schedule has the same one with every version of the code that behaves in the same way.
	Traces []uint64
	Costs  []Cost // by seed; nil unless Search.Weighed. Of schedules that were not run the seed is 0
	Learnt Learnt // with Search.Learn
	// Undecided is how many schedules near others were not judged, with Search.Learn: it would have taken too long. They are
	// the only ones that depend on the machine.
	Undecided int
}

// Run tries the seeds. It ends early when the context is done.
func (s Search) Run(ctx context.Context) Report {
	if s.Learn {
		return s.learn(ctx)
	}
	report := Report{Paths: map[string]uint64{}}
	if s.Traced {
		report.Traces = make([]uint64, s.Seeds)
	}
	if s.Weighed {
		report.Costs = make([]Cost, s.Seeds)
	}
	part := s.Seeds
	if s.Until != nil {
		part = (s.Seeds + 3) / 4
	}
	for from := 0; from < s.Seeds && len(report.Failures) < max(s.StopAt, 1) && ctx.Err() == nil; from += part {
		known := len(report.Paths)
		s.runPart(ctx, from, min(from+part, s.Seeds), &report)
		if from > 0 && len(report.Paths) == known && report.Missing(s.Until) == nil {
			break
		}
	}
	slices.SortFunc(report.Failures, func(a, b *Failure) int {
		return cmp.Compare(a.Schedule.Seed, b.Schedule.Seed)
	})
	return report
}

// runPart tries some of the seeds, from one to another, by their positions.
func (s Search) runPart(ctx context.Context, from, to int, report *Report) {
	var (
		next  atomic.Int64
		stop  atomic.Bool
		mu    sync.Mutex
		group sync.WaitGroup
	)
	next.Store(int64(from))
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for !stop.Load() && ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(to) {
					return
				}
				paths := map[string]uint64{}
				o, trace, losses := s.try(ctx, schedule.Draw(s.First+uint64(i), s.Options), func(path string) { paths[path]++ })
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				report.add(o, paths)
				report.Losses += losses
				if s.Traced {
					report.Traces[i] = trace
				}
				if s.Weighed {
					report.Costs[i] = o.cost
				}
				if len(report.Failures) >= max(s.StopAt, 1) {
					stop.Store(true)
				}
				if s.Progress != nil {
					s.Progress(report.Schedules+report.Skipped, Learnt{})
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// reasons are what people are told of operations that did not succeed: wording, and not what happened.
var reasons = regexp.MustCompile(`(?m)( = [a-z]+) \(.*\)$`)

// try runs a schedule, or those of its losses up to the first that fails. A panic of the code that is searched says in
// which one it was.
func (s Search) try(ctx context.Context, schedule schedule.Schedule, count func(string)) (o Outcome, trace uint64, losses int) {
	defer func() {
		if reason := recover(); reason != nil {
			panic(fmt.Sprintf("seed %d: %v", schedule.Seed, reason))
		}
	}()
	if s.Lose == 0 {
		o, text := play(ctx, schedule, s.Start, watch{count: count, traced: s.Traced, observed: s.Learn, weighed: s.Weighed})
		return o, register.Hash(reasons.ReplaceAll([]byte(text), []byte("$1"))), 0
	}
	for _, lossy := range promised(ctx, schedule, s.Start, s.Lose) {
		losses++
		one, _ := play(ctx, lossy, s.Start, watch{count: count})
		o.Operations += one.Operations
		o.Events += one.Events
		o.Hits = max(o.Hits, one.Hits)
		if o.Failure = one.Failure; o.Failure != nil || ctx.Err() != nil {
			break
		}
	}
	return o, 0, losses
}

func (r *Report) add(o Outcome, paths map[string]uint64) {
	if o.Hits >= MinHits {
		r.Schedules++
	} else {
		r.Skipped++
	}
	r.Operations += o.Operations
	r.Hits += o.Hits
	r.Events += o.Events
	// order is irrelevant: sums
	for path, n := range paths {
		r.Paths[path] += n
	}
	if o.Failure != nil {
		r.Failures = append(r.Failures, o.Failure)
	}
}

// ChangeCount is how many changes of members of a kind there were.
type ChangeCount struct {
	Kind      string
	All       uint64
	Meanwhile uint64 // of those, before the faults were over
}

// Changes tells how many changes of members of each kind there were; an abandoned one counts as that.
func (r Report) Changes() (counts []ChangeCount) {
	for _, kind := range append(members.ChangeKinds(), "abandoned") {
		path := "change." + kind
		counts = append(counts, ChangeCount{kind, r.Paths[path], r.Paths[path+".meanwhile"]})
	}
	return counts
}

// Missing lists the paths, of those declared, that were never taken.
func (r Report) Missing(declared []string) []string {
	var missing []string
	for _, path := range declared {
		if r.Paths[path] == 0 {
			missing = append(missing, path)
		}
	}
	return missing
}
