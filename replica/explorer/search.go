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
	levels  []uint8 // its deviations

	level     uint8
	waiting   frontier // states from which it has not gone on, in the order of their distances from the initial one
	deviating frontier // with one deviation more
	current   uint32   // from which it goes on
	from, to  state
	last      []choice // steps of a failure after those to current
	settled   []choice // and how things settled then
	words     []uint32
	all       []option
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
	w := newWorld(&scope, options.Ordered)
	s := &search{
		settler: &settler{judge: &judge{world: w, verdicts: map[string]*Failure{}}}, ctx: ctx, options: options,
		examined: leastExamined,
	}
	s.report.Completed = -1
	initial, steps, f := s.begin()
	s.initial, s.before = initial, slices.Clone(steps)
	if f != nil {
		s.fail(f, nil, nil, nil)
		return s.report, nil
	}
	for !s.run() {
		s.forget()
	}
	s.measure()
	return s.report, nil
}

// forget has nothing have been explored. What inputs make of local states stays known.
func (s *search) forget() {
	s.visited, s.parents, s.by, s.levels = visited{}, nil, nil, nil
	s.level, s.waiting, s.deviating, s.current = 0, frontier{}, frontier{}, 0
	for n := range s.states {
		s.states[n].dropped, s.states[n].undone = [spendings]bitSet{}, nil
	}
	s.report = Report{Completed: -1}
	s.settler.visited = visited{}
}

// run explores level by level. It is false if messages were dropped that are not spent: all is to be done again.
func (s *search) run() bool {
	s.find(s.initial, 0, 0, false)
	for {
		for s.waiting.count > 0 {
			if s.ctx.Err() != nil {
				return true
			}
			number, words := s.waiting.take()
			s.from.decode(words, s.processes(), s.scoped())
			if s.levels[number] != s.level {
				continue
			}
			f := s.expand(number)
			// What else goes wrong is a run, whatever was left out.
			doubtful := f != nil && (f.Class == Stuck || f.Class == Unbounded)
			if doubtful || f == nil && len(s.states) > s.examined {
				differs := s.reduced()
				s.examined = 2 * len(s.states)
				if differs {
					return false
				}
			}
			if f != nil {
				s.fail(f, s.path(number), s.last, s.settled)
				return true
			}
		}
		if s.deviating.count == 0 || s.ordered && s.options.Deviations >= 0 && int(s.level) >= s.options.Deviations {
			s.report.Completed, s.report.Complete = int(s.level), true
			return !s.reduced()
		}
		s.report.Completed = int(s.level)
		s.level++
		s.waiting, s.deviating = s.deviating, frontier{}
	}
}

// reduced examines what was left out, and reports whether something of it makes a difference: it is not left out then.
func (s *search) reduced() bool {
	lingers := s.lingers()
	return s.unspent() || lingers
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
		switch d := s.world.do(&s.to, o.choice); {
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
		s.find(&s.to, number, o.choice, o.deviates)
	}
	if !goesOn {
		s.report.Ends++
		if f := s.settle(s.ctx, &s.from); f != nil {
			s.last, s.settled = nil, s.steps
			return f
		}
	}
	return nil
}

// find notes a state that was reached from another one, unless it was reached with no more faults of any kind before.
func (s *search) find(found *state, parent uint32, by choice, deviates bool) {
	level := s.level
	if deviates {
		level++
	}
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
	case s.levels[n] <= level:
		return
	default: // with fewer deviations than before
		s.parents[n], s.by[n], s.levels[n] = parent, by, level
	}
	if deviates {
		s.deviating.add(n, s.words)
	} else {
		s.waiting.add(n, s.words)
	}
}

// path is the steps from the initial state to another one.
func (s *search) path(number uint32) (steps []choice) {
	for ; number != 0; number = s.parents[number] {
		steps = append(steps, s.by[number])
	}
	slices.Reverse(steps)
	return steps
}

// fail ends the exploration with a failure, which some steps lead to, and draws it.
func (s *search) fail(f *Failure, steps, more, settled []choice) {
	steps = append(steps, more...)
	failure := *f
	failure.Steps = len(steps) + len(settled)
	if s.visited.found == nil { // it did not come to what was to be explored
		failure.Steps = len(s.before)
	}
	failure.Diagram = s.draw(steps, settled)
	s.report.Failure = &failure
}

func (s *search) measure() {
	p := &s.report.Progress
	p.States, p.Waiting = len(s.visited.found), s.waiting.count+s.deviating.count
	p.Depth, p.Deviations = len(s.path(s.current)), int(s.level)
	p.Locals, p.Histories = len(s.states), len(s.verdicts)
}
