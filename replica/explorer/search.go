package explorer

import (
	"context"
	"fmt"
	"slices"
)

// Options say how a scope is explored.
type Options struct {
	// Ordered has the plain order of things be taken first, in which messages arrive in the order in which they were
	// sent and batches become durable at once, then all orders with one deviation from it, and so on. A deviation is a
	// message that comes later, at any time; a batch that becomes durable later, at any time; or a fault or a timeout.
	// Invocations may come at any time, and so may the start of a member. It is for scopes of which nobody can take
	// every order.
	Ordered bool
	// Deviations is the most that are taken; negative: there is no bound.
	Deviations int
	// Progress is told now and then how far it is; nil: no one asks.
	Progress func(Progress)
}

// leastExamined is after how many local states it is examined first whether messages that were dropped are spent.
const leastExamined = 200

// tellEach is after how many states Progress is told.
const tellEach = 4096

// search is an exploration.
type search struct {
	*settler
	ctx     context.Context
	options Options
	report  Report
	initial *state
	before  []choice // the steps to it
	// examined is after how many local states it is examined next what was left out. It doubles, over all runs, so that
	// what is explored again is no more than what is explored in the end.
	examined int

	visited visited
	parents []uint32 // of a state that was found, the one from which, and how
	by      []choice
	passes  []uint16 // in which the exploration came to it in this way (late.go)
	levels  []uint8  // its deviations
	ends    bitSet   // states in which nothing was left to happen

	level    uint8
	waiting  []frontier // by deviations: states from which it has not gone on, in the order in which they were found
	late     late
	current  uint32 // from which it goes on
	from, to state
	last     []choice // steps of a failure after those to current
	settled  []choice // and how things settled then
	words    []uint32
	all      []option
}

// frontier is a list of states: the number and the words of each.
type frontier struct {
	words []uint32
	next  int
	count int
}

func (f *frontier) add(number uint32, words []uint32) {
	if f.next > len(f.words)/2 && f.next > 1<<20 { // what was taken is forgotten
		f.words = append(f.words[:0], f.words[f.next:]...)
		f.next = 0
	}
	f.words = append(append(f.words, number, uint32(len(words))), words...)
	f.count++
}

func (f *frontier) take() (number uint32, words []uint32) {
	number, size := f.words[f.next], int(f.words[f.next+1])
	words = f.words[f.next+2 : f.next+2+size]
	f.next += 2 + size
	f.count--
	return number, words
}

// Explore takes a scope through all that can happen in it. The error says what makes the scope none; that the context
// has ended is no error, but the report is not complete then.
func Explore(ctx context.Context, scope Scope, options Options) (Report, error) {
	if err := scope.Check(); err != nil {
		return Report{}, fmt.Errorf("the scope: %w", err)
	}
	s := newSearch(ctx, &scope, options)
	initial, steps, f := s.begin()
	s.initial, s.before = initial, slices.Clone(steps)
	if f != nil {
		s.fail(f, nil, nil, nil)
		return s.report, nil
	}
	if !s.ordered { // else nothing is left out
		s.scout()
	}
	s.explore()
	return s.report, nil
}

func newSearch(ctx context.Context, scope *Scope, options Options) *search {
	w := newWorld(scope, options.Ordered)
	return &search{
		settler: &settler{judge: &judge{world: w, verdicts: map[string]*Failure{}}}, ctx: ctx, options: options,
		examined: leastExamined, report: Report{Completed: -1},
	}
}

// explore runs until nothing was left out that makes a difference.
func (s *search) explore() {
	for !s.run() {
		s.forget()
	}
	s.measure()
}

// forget has nothing have been explored. What inputs make of local states stays known.
func (s *search) forget() {
	s.visited, s.parents, s.by, s.passes, s.levels, s.ends = visited{}, nil, nil, nil, nil, nil
	s.level, s.waiting, s.current = 0, nil, 0
	s.late = late{}
	s.restart()
	for n := range s.states {
		s.states[n].dropped, s.states[n].undone = [spendings]bitSet{}, nil
	}
	s.report = Report{Completed: -1}
	s.settler.visited = visited{}
}

// run explores level by level. It is false if so much was left out that all is to be done again.
func (s *search) run() bool {
	s.find(s.initial, 0, 0, 0)
	for {
		for s.waiting[s.level].count > 0 {
			if s.ctx.Err() != nil {
				return true
			}
			number, words := s.waiting[s.level].take()
			s.from.decode(words, s.processes(), s.scoped())
			if s.levels[number] != s.level {
				continue
			}
			f := s.expand(number)
			// What else goes wrong is a run, whatever was left out.
			doubtful := f != nil && (f.Class == Stuck || f.Class == Unbounded)
			if doubtful || f == nil && len(s.states) > s.examined {
				if s.examine() == startOver {
					return false
				}
			}
			if doubtful && !s.ordered {
				f = s.settleWhole(number)
			}
			if f != nil {
				s.fail(f, s.path(number), s.last, s.settled)
				return true
			}
		}
		if s.next() {
			continue
		}
		switch s.examine() {
		case startOver:
			return false
		case complete:
			s.report.Complete = true
			return true
		}
	}
}

// next goes on to the level with the fewest deviations of which states are left, and reports whether there is one.
func (s *search) next() bool {
	most := len(s.waiting) - 1
	if s.ordered && s.options.Deviations >= 0 {
		most = min(most, s.options.Deviations)
	}
	for level := range most + 1 {
		if s.waiting[level].count > 0 {
			s.level, s.report.Completed = uint8(level), level-1
			return true
		}
	}
	s.report.Completed = most
	return false
}

// expand takes all choices of the state from. What it returns is a failure, after the steps last, settled or both; nil:
// there is none.
func (s *search) expand(number uint32) *Failure {
	s.current = number
	if s.options.Progress != nil && number%tellEach == 0 {
		s.measure()
		s.options.Progress(s.report.Progress)
	}
	var goesOn bool
	s.all, goesOn = s.world.options(&s.from, s.all[:0])
	for _, o := range s.all {
		s.to.copyFrom(&s.from)
		s.hastened, s.dropped = s.hastened[:0], s.dropped[:0]
		d := s.world.do(&s.to, o.choice)
		if !s.ordered {
			s.late.note(s.world, number)
		}
		switch {
		case d.fault != nil:
			s.last, s.settled = []choice{o.choice}, nil
			return &Failure{Class: Broken, Why: d.fault.Error()}
		case d.idle && (o.kind() == timeout || o.kind() == takeover):
			continue // it has used up a fault, and nothing else
		case d.ended:
			if f := s.check(s.ctx, &s.to); f != nil {
				s.last, s.settled = []choice{o.choice}, nil
				return f
			}
		}
		s.find(&s.to, number, o.choice, deviated(s.level, o.deviates))
	}
	if !goesOn {
		if !s.ends.has(number) {
			s.ends.set(number)
			s.report.Ends++
		}
		if f := s.settle(s.ctx, &s.from); f != nil {
			s.last, s.settled = nil, s.steps
			return f
		}
	}
	return nil
}

// deviated is a level, or the one after it.
func deviated(level uint8, deviates bool) uint8 {
	if deviates {
		return level + 1
	}
	return level
}

// find notes a state of a level that was reached from another one, unless it was reached with no more faults of any
// kind before.
func (s *search) find(found *state, parent uint32, by choice, level uint8) {
	used := found.used
	found.used = 0
	s.words = found.encode(s.words[:0])
	found.used = used
	h := hash(s.words)
	for fewer := range used.below() {
		if fewer == used {
			break
		}
		if n, was := s.visited.find(h.with(fewer)); was && s.levels[n] <= level {
			return
		}
	}
	n, isNew := s.visited.add(h.with(used))
	s.words[usedAt(s.processes(), s.scoped())] = uint32(used)
	switch {
	case isNew:
		s.parents, s.by, s.levels = append(s.parents, parent), append(s.by, by), append(s.levels, level)
		s.passes = append(s.passes, s.locals.pass)
	case s.levels[n] <= level:
		return
	default: // with fewer deviations than before
		s.parents[n], s.by[n], s.levels[n], s.passes[n] = parent, by, level, s.locals.pass
	}
	for int(level) >= len(s.waiting) {
		s.waiting = append(s.waiting, frontier{})
	}
	s.waiting[level].add(n, s.words)
}

// path are the states on the way from the initial one, without it, to that of a number.
func (s *search) path(number uint32) (states []uint32) {
	for ; number != 0; number = s.parents[number] {
		states = append(states, number)
	}
	slices.Reverse(states)
	return states
}

// fail ends the exploration with a failure, which some more steps after a path lead to, and draws it.
func (s *search) fail(f *Failure, path []uint32, more, settled []choice) {
	failure := *f
	failure.Steps = len(path) + len(more) + len(settled)
	if s.visited.found == nil { // it did not come to what was to be explored
		failure.Steps = len(s.before)
	}
	failure.Diagram = s.draw(path, more, settled)
	s.report.Failure = &failure
}

func (s *search) measure() {
	p := &s.report.Progress
	p.States, p.Waiting = len(s.visited.found), 0
	for level := range s.waiting {
		p.Waiting += s.waiting[level].count
	}
	p.Depth, p.Deviations = len(s.path(s.current)), int(s.level)
	p.Locals, p.Histories = len(s.states), len(s.verdicts)
}
