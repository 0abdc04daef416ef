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

	visited visited
	parents []uint32 // of a state that was found, the one from which, and how
	by      []choice
	levels  []uint8 // its deviations

	level     uint8
	waiting   frontier // states from which it has not gone on, in the order of their distances from the initial one
	deviating frontier // with one deviation more
	current   uint32   // from which it goes on
	from, to  state
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
	}
	s.report.Completed = -1
	initial, steps, f := s.begin()
	s.initial, s.before = initial, slices.Clone(steps)
	if f != nil {
		s.fail(f, nil, nil, nil)
		return s.report, nil
	}
	s.run()
	s.measure()
	return s.report, nil
}

// run explores level by level of deviations.
func (s *search) run() {
	s.find(s.initial, 0, 0, false)
	for {
		for s.waiting.count > 0 {
			if s.report.Failure != nil || s.ctx.Err() != nil {
				return
			}
			number, words := s.waiting.take()
			s.from.decode(words, s.scope.Members, s.scoped())
			if s.levels[number] == s.level {
				s.expand(number)
			}
		}
		s.report.Completed = int(s.level)
		if s.deviating.count == 0 {
			s.report.Complete = true
			return
		}
		if s.options.Deviations >= 0 && int(s.level) >= s.options.Deviations {
			s.report.Complete = true
			return
		}
		s.level++
		s.waiting, s.deviating = s.deviating, frontier{}
	}
}

// expand takes all choices of the state from.
func (s *search) expand(number uint32) {
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
			s.fail(&Failure{Class: Broken, Why: d.fault.Error()}, s.path(number), []choice{o.choice}, nil)
			return
		case d.idle && (o.kind() == timeout || o.kind() == takeover):
			continue // it has used up a fault, and nothing else
		case d.ended:
			if f := s.check(s.ctx, &s.to); f != nil {
				s.fail(f, s.path(number), []choice{o.choice}, nil)
				return
			}
		}
		s.find(&s.to, number, o.choice, o.deviates && s.ordered)
	}
	if !goesOn {
		s.report.Ends++
		if f := s.settle(s.ctx, &s.from); f != nil {
			s.fail(f, s.path(number), nil, s.steps)
		}
	}
}

// find notes a state that was reached from another one.
func (s *search) find(found *state, parent uint32, by choice, deviates bool) {
	s.words = found.encode(s.words[:0])
	n, isNew := s.visited.add(hash(s.words))
	level := s.level
	if deviates {
		level++
	}
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
