package simulator

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// A search that learns keeps, for each thing that happened in few schedules, the one in which it came earliest: an event
// at a member, or a pair of events, one after the other at a member or at both ends of a message (package coverage). Most
// schedules are one of those, perturbed near that moment. Which one is taken is decided by how rare the thing is, and how
// often it was taken already, as in AFLFast (Böhme, Pham and Roychoudhury, Coverage-based Greybox Fuzzing as Markov Chain,
// CCS 2016); that what comes early is kept is of Go-Explore (Ecoffet and others, First return, then explore, Nature 2021),
// and that pairs of events tell runs of distributed systems apart of Mallory (Meng, Pîrlea, Roychoudhury and Sergey,
// Greybox Fuzzing of Distributed Systems, CCS 2023).
const (
	// batch is how many schedules are made from what was learnt before, so that they may run beside each other: the same on
	// any machine.
	batch = 32
	// fresh is how many of 1000 schedules are those of their seeds.
	fresh = 500
	// nearGiven is how many of 1000 of the others are near those that were given, if any were.
	nearGiven = 700
	// maxCells bounds of how many events, and of how many pairs, a schedule is kept, of some 30 KiB; many are kept of one.
	maxCells = 1024
	// maxFeatures bounds what is told apart; what is new beyond that is not noticed.
	maxFeatures = 1 << 20
	// nearCheck bounds the check of a schedule that was perturbed, in real time. What is not decided by then is left out:
	// several changes may make a history that takes hours, and gigabytes.
	nearCheck = 5 * time.Second
	// candidates are how many are compared when one is chosen.
	candidates = 8
)

// Learnt is what a search that learns has so far.
type Learnt struct {
	Kept   int // events and pairs of which a schedule is kept
	Events int // that were told apart
	Pairs  int // of them
}

// cell is something that happened, and the schedule that is kept of it.
type cell struct {
	feature  coverage.Feature
	schedule schedule.Schedule
	moment   schedule.Moment
	messages uint64
	taken    int // how often it was perturbed
}

// learner is the state of a search that learns.
type learner struct {
	Search
	draw   kernel.Stream
	given  []*cell                    // those of Corpus, without features
	seen   map[coverage.Feature]int   // in how many schedules; never ranged over
	kept   map[coverage.Feature]*cell // never ranged over
	corpus [2][]*cell                 // of events, and of pairs
	learnt Learnt
}

func newLearner(s Search) *learner {
	return &learner{
		Search: s, draw: kernel.NewStream(s.First, kernel.ForLearning, 0), seen: map[coverage.Feature]int{},
		kept: map[coverage.Feature]*cell{},
	}
}

// learn runs the search in batches.
func (s Search) learn(ctx context.Context) Report {
	s.Lose = 0
	l := newLearner(s)
	report := Report{Paths: map[string]uint64{}}
	for first := 0; first < s.Seeds && len(report.Failures) < max(s.StopAt, 1); first += batch {
		var all []schedule.Schedule
		for i := first; i < min(first+batch, s.Seeds); i++ {
			all = append(all, l.next(i))
		}
		tries := l.run(ctx, all)
		if ctx.Err() != nil {
			break
		}
		for i, t := range tries {
			if f := t.outcome.Failure; f != nil && f.Class == check.Undecided && all[i].Check == nearCheck {
				t.outcome.Failure = nil
				report.Undecided++
			}
			report.add(t.outcome, t.paths)
			if s.Traced {
				report.Traces = append(report.Traces, t.trace)
			}
			if f := t.outcome.Failure; f != nil {
				f.Number = first + i + 1
				if len(report.Failures) >= max(s.StopAt, 1) {
					break
				}
				continue
			}
			if n := first + i; n < len(l.Corpus) {
				l.given = append(l.given, &cell{schedule: all[i], messages: t.outcome.sent})
			}
			l.learnFrom(all[i], t.outcome)
		}
		report.Learnt = l.learnt
		if s.Progress != nil {
			s.Progress(report.Schedules+report.Skipped, l.learnt)
		}
	}
	return report
}

// next is the schedule of a number: one of those that were given, that of its seed, or one near another one.
func (l *learner) next(i int) schedule.Schedule {
	if i < len(l.Corpus) {
		return l.Corpus[i]
	}
	sort, given := l.corpus[l.draw.Below(len(l.corpus))], l.draw.Chance(nearGiven)
	switch {
	case l.draw.Chance(fresh) || len(sort) == 0:
		return schedule.Draw(l.First+uint64(i), l.Options)
	case given && len(l.given) > 0:
		c := l.given[l.draw.Below(len(l.given))]
		return l.near(c, l.somewhere(c))
	}
	c := sort[l.draw.Below(len(sort))]
	for range candidates - 1 {
		if other := sort[l.draw.Below(len(sort))]; l.cost(other) < l.cost(c) {
			c = other
		}
	}
	c.taken++
	return l.near(c, c.moment)
}

// near is the schedule of a cell, perturbed near a moment.
func (l *learner) near(c *cell, m schedule.Moment) schedule.Schedule {
	s := c.schedule.Perturb(l.draw, m, c.messages, l.Options)
	s.Check = nearCheck
	return s
}

// somewhere draws a moment of a schedule: at an operation, or at a fault.
func (l *learner) somewhere(c *cell) schedule.Moment {
	m := schedule.Moment{At: c.schedule.Settle / 2, Message: uint64(l.draw.Below(int(c.messages) + 1)), Member: coverage.Nowhere}
	n := l.draw.Below(c.schedule.Size() + 1)
	for _, plan := range c.schedule.Clients {
		if n < len(plan.Operations) {
			return schedule.Moment{At: plan.Operations[n].At, Message: m.Message, Member: plan.Home}
		}
		n -= len(plan.Operations)
	}
	if n < len(c.schedule.Faults) {
		m.At, m.Member = c.schedule.Faults[n].At, c.schedule.Faults[n].Node
	}
	return m
}

// cost is what speaks against a cell: how many schedules had it, and how often it was taken.
func (l *learner) cost(c *cell) int { return l.seen[c.feature] + c.taken }

// learnFrom counts what a schedule had, and keeps it for what is new or came earlier.
func (l *learner) learnFrom(s schedule.Schedule, o Outcome) {
	for _, f := range o.covered.Features {
		if l.seen[f] == 0 && len(l.seen) >= maxFeatures {
			continue
		}
		if l.seen[f]++; l.seen[f] == 1 && f.IsPair() {
			l.learnt.Pairs++
		} else if l.seen[f] == 1 {
			l.learnt.Events++
		}
		m := o.covered.Moments[f]
		if m.At >= s.Settle {
			continue
		}
		if c := l.kept[f]; c == nil {
			l.keep(&cell{feature: f, schedule: s, moment: m, messages: o.sent})
		} else if m.At < c.moment.At*3/4 {
			c.schedule, c.moment, c.messages = s, m, o.sent
		}
	}
	l.learnt.Kept = len(l.kept)
}

// keep keeps a cell, if there are enough of its sort in the place of one that more speaks against.
func (l *learner) keep(c *cell) {
	sort := &l.corpus[0]
	if c.feature.IsPair() {
		sort = &l.corpus[1]
	}
	if len(*sort) < maxCells {
		*sort = append(*sort, c)
		l.kept[c.feature] = c
		return
	}
	worst := l.draw.Below(maxCells)
	for range candidates - 1 {
		if other := l.draw.Below(maxCells); l.cost((*sort)[other]) > l.cost((*sort)[worst]) {
			worst = other
		}
	}
	if old := (*sort)[worst]; l.cost(old) > l.cost(c) {
		delete(l.kept, old.feature)
		(*sort)[worst] = c
		l.kept[c.feature] = c
	}
}

// tried is what came of one schedule.
type tried struct {
	outcome Outcome
	paths   map[string]uint64
	trace   uint64
}

// run runs schedules beside each other.
func (l *learner) run(ctx context.Context, all []schedule.Schedule) []tried {
	tries := make([]tried, len(all))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				paths := map[string]uint64{}
				o, trace, _ := l.try(ctx, all[i], func(path string) { paths[path]++ })
				tries[i] = tried{o, paths, trace}
			}
		})
	}
	group.Wait()
	return tries
}
