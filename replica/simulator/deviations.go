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
	Seed    uint64           // of plain runs, and of which deviations are taken
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
	Behind      time.Duration // for how much longer a member had a part of others' state only, in all together
	Furthest    time.Duration // and in one run, at most
	Messages    int           // how many more there were, in all runs together; fewer in one count against more in another
	Most        int           // and in one run, at most
	Quiet       int           // how many more there were in the end of one run, at most
}

// DeviationReport is what a search for deviations found.
type DeviationReport struct {
	Runs     int
	Costs    []Cost     // of the plain runs, as they are
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
	plains := schedule.Plains(d.Seed, d.Members, d.Options)
	plain := make([]Outcome, len(plains))
	for i, p := range plains {
		plain[i], _ = play(ctx, p.Schedule, d.Start, watch{timed: true, weighed: true})
		report.Runs++
		if ctx.Err() != nil {
			return report
		}
		if f := plain[i].Failure; f != nil {
			report.Failure, report.By = f, "the plain run: "+p.Name
			return report
		}
		plain[i].cost.Plain = p.Name
		report.Costs = append(report.Costs, plain[i].cost)
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
	each := func(kind string, purpose uint64, count int, class func(int) string, make func(i int) deviation) {
		if slices.Contains(d.Options.Faults, ways[kind].fault) {
			for _, i := range d.some(s.Seed, purpose, count, ways[kind].share, class) {
				all = append(all, make(i))
			}
		}
	}
	messages := func(kind string, what schedule.Strike) {
		each(kind, 1, last, func(i int) string { return sent[i].Kind }, func(i int) deviation {
			what.Message = uint64(i) + 1
			return strike(kind, what)
		})
	}
	messages(lost, schedule.Strike{Lost: true})
	messages(late, schedule.Strike{Late: s.Environment.Network.Largest(), Overtaken: true})
	messages(veryLate, schedule.Strike{Late: awayRetries * retry, Overtaken: true})
	messages(twice, schedule.Strike{Late: 2 * retry, Twice: true})
	syncs := func(kind string, what schedule.Stop) {
		each(kind, 2, int(plain.syncs), func(int) string { return "" }, func(i int) deviation {
			what.Sync, what.For = uint64(i)+1, retry/2
			return stop(kind, what)
		})
	}
	syncs(volatile, schedule.Stop{})
	syncs(durable, schedule.Stop{Durable: true})
	syncs(power, schedule.Stop{All: true})
	moments := slices.CompactFunc(slices.Clone(sent), func(a, b network.Noted) bool { return a.At == b.At })
	members := func(kind string, what faults.Fault) {
		each(kind, 3, len(moments)*n, func(i int) string { return moments[i/n].Kind }, func(i int) deviation {
			what.At, what.Node = moments[i/n].At+1, i%n
			if what.Kind == faults.Partition {
				what.Side = 1 << (i % n)
				if s.Environment.Partitioned != nil {
					what.Side |= what.Side << n // the witness beside it, or at its site
				}
			}
			return fault(kind, what)
		})
	}
	members(crashes, faults.Fault{Kind: faults.Crash, For: retry / 2})
	members(away, faults.Fault{Kind: faults.Crash, For: awayRetries * retry})
	members(wiped, faults.Fault{Kind: faults.Wipe, For: retry / 2})
	members(silent, faults.Fault{Kind: faults.Partition, Everywhere: true, For: s.Settle})
	return all
}

// way is of which kind of faults the deviations of a kind are, and what their share of Deviations.Runs is, in parts of
// shares.
type way struct {
	fault faults.Kind
	share int
}

var ways = map[string]way{
	lost: {faults.Loss, 8}, late: {faults.Reorder, 2}, veryLate: {faults.Reorder, 2}, twice: {faults.Duplicate, 1},
	volatile: {faults.Torn, 2}, durable: {faults.Torn, 1}, power: {faults.Torn, 1},
	crashes: {faults.Crash, 2}, away: {faults.Crash, 1}, wiped: {faults.Wipe, 1}, silent: {faults.Partition, 3},
}

const shares = 24

// some are the numbers below count that are taken of a kind with a share of Runs: of each class first one, then another
// one. They are drawn so that those that are there in two runs are taken in both: what the deviations of a mutant cost
// can be compared with what they cost without.
func (d Deviations) some(seed, purpose uint64, count, share int, class func(int) string) []int {
	all := make([]int, count)
	ranks, nth := make([]uint64, count), make([]int, count)
	for i := range all {
		all[i], ranks[i] = i, kernel.NewStream(seed, kernel.ForDeviations, purpose<<32|uint64(i)).Uint64()
	}
	most := (d.Runs*share + shares - 1) / shares
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
	x.Furthest = max(0, is.behind-plain.behind)
	x.Behind = x.Furthest
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
	x.Behind += o.Behind
	x.Furthest = max(x.Furthest, o.Furthest)
	x.Messages += o.Messages
	x.Most, x.Quiet = max(x.Most, o.Most), max(x.Quiet, o.Quiet)
}
