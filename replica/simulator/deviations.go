package simulator

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/network"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Deviations is a search of what one fault more does to plain runs: each of its runs is a plain one with one
// deviation, of one message, one fsync, or one member from a moment on. It is judged as schedules are, and by how much
// longer than in the plain run things take (promise).
type Deviations struct {
	Start   Start
	Options schedule.Options // Faults says which kinds of faults there are in plain runs, and which deviations
	Members int              // of a plain run
	// Runs is how many deviations there are of each plain run, at most: those of all kinds, evenly over its time. 0: all.
	Runs int
	// Progress, which may be nil, is told now and then how many runs are done. It is called by one goroutine at a time.
	Progress func(done, all int)
}

// Deviated is what came of the deviations of one kind from a plain run. Durations are of virtual time.
type Deviated struct {
	Plain, Kind string
	Runs        int
	Slower      time.Duration // by how much longer operations took, in all runs together
	Slowest     time.Duration // and one operation, at most
	Unready     time.Duration // for how much longer a change, a failover or a member was not done, in all together
	Longest     time.Duration // and in one run, at most
	Messages    int           // how many more there were, in all runs together; fewer in one count against more in another
	Most        int           // and in one run, at most
	Quiet       int           // how many more there were in the end of one run, at most
}

// DeviationReport is what a search for deviations found.
type DeviationReport struct {
	Runs     int
	Deviated []Deviated // by plain run, and kind
	Failure  *Failure   // the first, by plain run and deviation; nil: all was as it must be
	By       string     // which deviation from which plain run it was
}

// deviation is one fault that a plain run does not have.
type deviation struct {
	kind  string
	text  string // which it is, for people
	cut   int    // the site that reaches nobody from then on, or -1
	apply func(*schedule.Schedule)
}

// The kinds of deviations.
const (
	lost     = "a message is lost"
	late     = "a message is late"
	veryLate = "a message is very late"
	twice    = "a message comes twice"
	volatile = "a process crashes before an fsync"
	durable  = "a process crashes after an fsync"
	power    = "all processes crash at an fsync"
	crashes  = "a process crashes"
	away     = "a process is away"
	wiped    = "a disk is lost"
	silent   = "a member is silent"
)

// awayRetries is for how long a process is away, or a message is very late, in times of Retry.
const awayRetries = 8

// Run tries the deviations. It ends early when the context is done.
func (d Deviations) Run(ctx context.Context) (report DeviationReport) {
	type job struct {
		plain     int
		deviation deviation
		done      bool
		came      Deviated
		failure   *Failure
	}
	var jobs []*job
	plains := schedule.Plains(d.Members, d.Options)
	plain := make([]Outcome, len(plains))
	for i, p := range plains {
		plain[i], _ = play(ctx, p.Schedule, d.Start, watch{timed: true})
		report.Runs++
		if ctx.Err() != nil {
			return report
		}
		if f := plain[i].Failure; f != nil {
			report.Failure, report.By = f, "the plain run: "+p.Name
			return report
		}
		for _, one := range d.deviations(p.Schedule, plain[i].course) {
			jobs = append(jobs, &job{plain: i, deviation: one})
		}
	}
	var next atomic.Int64
	var failed atomic.Bool
	var mu sync.Mutex
	var group sync.WaitGroup
	done := 0
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil && !failed.Load(); i = int(next.Add(1)) - 1 {
				j := jobs[i]
				s := plains[j.plain].Schedule
				j.deviation.apply(&s)
				before := plain[j.plain].course
				o := d.try(ctx, s, j.deviation.text)
				if ctx.Err() != nil {
					return
				}
				if j.failure = o.Failure; j.failure == nil {
					j.came = cameOf(j.deviation, before, o.course)
					j.failure = tooLate(s, j.deviation, before, o.course, d.Start)
				}
				if j.done = true; j.failure != nil {
					failed.Store(true)
				}
				mu.Lock()
				if done++; d.Progress != nil {
					d.Progress(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, j := range jobs {
		if !j.done {
			continue
		}
		report.Runs++
		name := plains[j.plain].Name
		if j.failure != nil {
			if report.Failure == nil {
				report.Failure, report.By = j.failure, fmt.Sprintf("%s: %s", name, j.deviation.text)
			}
			continue
		}
		at := slices.IndexFunc(report.Deviated, func(x Deviated) bool {
			return x.Plain == name && x.Kind == j.deviation.kind
		})
		if at < 0 {
			at = len(report.Deviated)
			report.Deviated = append(report.Deviated, Deviated{Plain: name, Kind: j.deviation.kind})
		}
		report.Deviated[at].add(j.came)
	}
	return report
}

// try runs a schedule. A panic of the code that is searched says with which deviation it was.
func (d Deviations) try(ctx context.Context, s schedule.Schedule, text string) Outcome {
	defer func() {
		if reason := recover(); reason != nil {
			panic(fmt.Sprintf("%s: %v", text, reason))
		}
	}()
	o, _ := play(ctx, s, d.Start, watch{timed: true})
	return o
}

// deviations are those of a plain run that are tried.
func (d Deviations) deviations(s schedule.Schedule, plain *course) (all []deviation) {
	retry, n := s.Environment.Retry, len(s.Environment.Network.Sites)
	strike := func(kind string, strike schedule.Strike) deviation {
		return deviation{kind, strike.String(), -1, func(s *schedule.Schedule) {
			s.Strikes = append(slices.Clone(s.Strikes), strike)
		}}
	}
	stop := func(kind string, stop schedule.Stop) deviation {
		return deviation{kind, stop.String(), -1, func(s *schedule.Schedule) {
			s.Stops = append(slices.Clone(s.Stops), stop)
		}}
	}
	fault := func(kind string, f faults.Fault) deviation {
		one := deviation{kind, f.String(), -1, func(s *schedule.Schedule) {
			s.Faults = append(slices.Clone(s.Faults), f)
		}}
		if kind == silent {
			one.cut = f.Node
		}
		return one
	}
	calm := s.Settle - 30*retry // what comes later can not end before faults are over
	last, _ := slices.BinarySearchFunc(plain.sent, calm, func(m network.Noted, at time.Duration) int {
		return cmp.Compare(m.At, at)
	})
	sent := plain.sent[:last]
	for _, i := range d.some(s.Seed, 1, last, func(i int) string { return sent[i].Kind }) {
		m := uint64(i) + 1
		all = append(all,
			strike(lost, schedule.Strike{Message: m, Lost: true}),
			strike(late, schedule.Strike{Message: m, Late: s.Environment.Network.Largest(), Overtaken: true}),
			strike(veryLate, schedule.Strike{Message: m, Late: awayRetries * retry, Overtaken: true}),
			strike(twice, schedule.Strike{Message: m, Late: 2 * retry, Twice: true}),
		)
	}
	for _, i := range d.some(s.Seed, 2, int(plain.syncs), func(int) string { return "" }) {
		sync := uint64(i) + 1
		all = append(all,
			stop(volatile, schedule.Stop{Sync: sync, For: retry / 2}),
			stop(durable, schedule.Stop{Sync: sync, For: retry / 2, Durable: true}),
			stop(power, schedule.Stop{Sync: sync, For: retry / 2, All: true}),
		)
	}
	sent = slices.CompactFunc(slices.Clone(sent), func(a, b network.Noted) bool { return a.At == b.At })
	for _, i := range d.some(s.Seed, 3, len(sent)*n, func(i int) string { return sent[i/n].Kind }) {
		f := faults.Fault{Kind: faults.Crash, At: sent[i/n].At + 1, Node: i % n, For: retry / 2}
		all = append(all, fault(crashes, f))
		f.For = awayRetries * retry
		all = append(all, fault(away, f))
		f.Kind, f.For = faults.Wipe, retry/2
		all = append(all, fault(wiped, f))
		side := uint64(1) << (i % n)
		if s.Environment.Partitioned != nil {
			side |= side << n // the witness beside it, or at its site
		}
		f = faults.Fault{Kind: faults.Partition, Everywhere: true, At: f.At, For: s.Settle, Node: i % n, Side: side}
		all = append(all, fault(silent, f))
	}
	return slices.DeleteFunc(all, func(one deviation) bool {
		return !slices.Contains(d.Options.Faults, needs[one.kind])
	})
}

// needs are the kinds of faults that deviations are of.
var needs = map[string]faults.Kind{
	lost: faults.Loss, late: faults.Reorder, veryLate: faults.Reorder, twice: faults.Duplicate,
	volatile: faults.Torn, durable: faults.Torn, power: faults.Torn,
	crashes: faults.Crash, away: faults.Crash, wiped: faults.Wipe, silent: faults.Partition,
}

// some are the numbers below count that are taken, so many that those of all kinds are at most Runs: of each class first
// one, then another one. They are drawn so that those that are there in two runs are taken in both: what the deviations
// of a mutant cost can be compared with what they cost without.
func (d Deviations) some(seed, purpose uint64, count int, class func(int) string) []int {
	all := make([]int, count)
	ranks, nth := make([]uint64, count), make([]int, count)
	for i := range all {
		all[i], ranks[i] = i, kernel.NewStream(seed, kernel.ForDeviations, purpose<<32|uint64(i)).Uint64()
	}
	most := (d.Runs + len(needs) - 1) / len(needs)
	if d.Runs == 0 || count <= most {
		return all
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	taken := map[string]int{}
	for _, i := range all {
		nth[i] = taken[class(i)]
		taken[class(i)]++
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(nth[a], nth[b]), cmp.Compare(ranks[a], ranks[b]))
	})
	slices.Sort(all[:most])
	return all[:most]
}

// cameOf is what came of one.
func cameOf(one deviation, plain, is *course) Deviated {
	x := Deviated{Runs: 1, Longest: max(0, is.unready-plain.unready), Messages: len(is.sent) - len(plain.sent)}
	x.Slower, x.Slowest, _ = is.slower(plain, one.cut)
	x.Unready, x.Most, x.Quiet = x.Longest, x.Messages, int(is.tail)-int(plain.tail)
	return x
}

// add adds what came of another one.
func (x *Deviated) add(o Deviated) {
	x.Runs += o.Runs
	x.Slower += o.Slower
	x.Slowest = max(x.Slowest, o.Slowest)
	x.Unready += o.Unready
	x.Longest = max(x.Longest, o.Longest)
	x.Messages += o.Messages
	x.Most, x.Quiet = max(x.Most, o.Most), max(x.Quiet, o.Quiet)
}
