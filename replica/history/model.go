package history

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/georegister/georegister/replica/register"
)

// state is a register on a path of the search. States are never changed.
type state struct {
	value register.Value
	hash  uint64 // of the value, as values may be long and are compared often
	fresh bool   // the value is an unknown effect that nothing depends on yet
	// What follows depends on the set of steps taken alone, which the search compares itself.
	known int   // how many known steps were taken
	used  []int // how many unknown steps of each class were taken
}

// model is one register and the steps that are asked about.
type model struct {
	ctx      context.Context // when it ends, no step can be taken any more, and so the search ends
	registry *register.Registry
	steps    int // how many steps there are
	total    int // how many of them are known
	classes  int
	seed     maphash.Seed
	held     int // bytes of the states that the search has found, about
	most     int // of them; then no step can be taken any more; 0: there is no bound
}

// stateBytes is about what the search holds for a state, beside a bit for each step and the bytes of its value.
const stateBytes = 256

// bytes is about what the search holds for a state that was found in another one.
func (m *model) bytes(s *state) int { return stateBytes + m.steps/8 + len(s.value) }

// full reports whether the search was ended because it holds too much.
func (m *model) full() bool { return m.most > 0 && m.held > m.most }

func newModel(ctx context.Context, registry *register.Registry, steps []*step) *model {
	m := &model{ctx: ctx, registry: registry, steps: len(steps), seed: maphash.MakeSeed()}
	for _, s := range steps {
		if s.known {
			m.total++
		} else {
			m.classes = max(m.classes, s.class+1)
		}
	}
	return m
}

// outcome applies a step to a value, and reports whether the step fits: of a known one, whether its answer agrees, and
// of an unknown one, whether the value changes.
func outcome(registry *register.Registry, value register.Value, s *step) (register.Value, bool) {
	next, agrees := s.Request.Value, true
	switch s.Request.Kind {
	case register.Read:
		return value, value.Equal(s.Result.Value)
	case register.RMW:
		out, err := registry.Apply(value, s.Request.Call)
		if next = out.Next; !out.Changed {
			next = value
		}
		refused := s.Result.Status == register.Failed
		agrees = err == nil && refused == (out.Refused != "") && (refused || out.Reply.Equal(s.Result.Value))
	}
	if !s.known {
		return next, !next.Equal(value)
	}
	return next, agrees
}

// take is the state after a step, or nil if the step can't come next. Only those orders are taken in which
// every unknown effect is depended on directly, as prepare explains; all other unknown steps come when no
// known one is left.
func (m *model) take(s *state, next *step) *state {
	if m.ctx.Err() != nil || m.full() {
		return nil
	}
	if !next.known && s.known == m.total {
		return s
	}
	if !next.known && s.used[next.class] != next.rank || s.fresh && next.Request.Kind == register.Write {
		return nil
	}
	value, fits := outcome(m.registry, s.value, next)
	if !fits {
		return nil
	}
	after := &state{value: value, hash: m.rehash(s, value), fresh: !next.known, known: s.known, used: s.used}
	if next.known {
		after.known++
	} else {
		after.used = slices.Clone(s.used)
		after.used[next.class]++
	}
	return after
}

// rehash is the hash of the next value, which most steps leave as it was.
func (m *model) rehash(s *state, next register.Value) uint64 {
	if len(next) == len(s.value) && next.Present() == s.value.Present() && (len(next) == 0 || &next[0] == &s.value[0]) {
		return s.hash
	}
	return m.hash(next)
}

func (m *model) hash(value register.Value) uint64 {
	if !value.Present() {
		return 0
	}
	return maphash.Bytes(m.seed, value)
}

// porcupine is the model as the library takes it. Inputs are *step, outputs nothing.
func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &state{used: make([]int, m.classes)} },
		Step: func(current, input, _ any) (bool, any) {
			next := m.take(current.(*state), input.(*step))
			if next != nil {
				m.held += m.bytes(next)
			}
			return next != nil, next
		},
		Equal: func(a, b any) bool {
			s, t := a.(*state), b.(*state)
			same := s == t || s.hash == t.hash && s.fresh == t.fresh && s.value.Equal(t.value)
			if same { // the search keeps the one that it has
				m.held -= m.bytes(s)
			}
			return same
		},
		Hash:              func(s any) uint64 { return s.(*state).hash },
		DescribeOperation: func(input, _ any) string { return describe(input.(*step).Operation) },
		DescribeState:     func(s any) string { return DescribeValue(s.(*state).value) },
	}
}

// describe is an operation for people, such as add.v1("x", "1") -> "2".
func describe(o Operation) string {
	key := DescribeValue(register.Value(o.Request.Key))
	var call, reply string
	switch o.Request.Kind {
	case register.Read:
		call, reply = fmt.Sprintf("read(%s)", key), DescribeValue(o.Result.Value)
	case register.Write:
		call, reply = fmt.Sprintf("write(%s, %s)", key, DescribeValue(o.Request.Value)), "ok"
	default:
		call, reply = fmt.Sprintf("%s(%s", o.Request.Call.Function, key), DescribeValue(o.Result.Value)
		for _, arg := range o.Request.Call.Args {
			call += ", " + DescribeValue(register.Value(arg))
		}
		call += ")"
	}
	if o.Result.Status == register.OK {
		return call + " -> " + reply
	}
	if !o.Known() {
		return call + " -> unknown"
	}
	return fmt.Sprintf("%s -> %s: %s", call, o.Result.Status, o.Result.Message)
}

// DescribeValue shortens a value for people, but keeps both ends, by which values differ.
func DescribeValue(v register.Value) string {
	const end = 24
	switch {
	case !v.Present():
		return "absent"
	case len(v) > 3*end:
		return fmt.Sprintf("%q...%q (%d bytes)", v[:end], v[len(v)-end:], len(v))
	}
	return fmt.Sprintf("%q", []byte(v))
}
