package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// rscSearch looks for an order of all operations by values alone.
type rscSearch struct {
	ctx      context.Context
	registry *register.Registry
	frontier *precedence.Frontier
	asked    []*rscOp
	ops      []rscSearchOp
	keys     []rscSearchKey
	numbers  map[string]int32 // of values
	values   []register.Value // by number; 0 is absent
	left     int              // known operations that are not taken
	mark     [2]uint64        // stands for what was taken and the values that it left
	seen     map[[2]uint64]bool
	states   int
	max      int
	held     int // moves of states whose search goes on
	most     int // of them
}

// maxHeld bounds the moves that a search holds: a GiB. Only histories with very many operations at one time come to it.
const maxHeld = 1 << 26

type rscSearchOp struct {
	key   int
	kind  effectKind
	value int32 // Read: what it found; leavesValue: what it leaves
}

// rscSearchKey is a key as it is after what was taken.
type rscSearchKey struct {
	value int32
	since invocation // of that value
	timed bool       // a read of the key had returned before an operation was invoked that may leave what it found
	// What is not taken:
	rmws    int
	free    int           // operations that may leave anything
	readers map[int32]int // reads of a value
	writers map[int32]int // operations that leave a value
}

// search reports whether it has found an order, and else whether there is none: done is false if it gave up, or the
// context ended. What is known of the past is 128 bits of a hash for each state, so that the chance of a wrong answer
// is negligible.
func (c *rscChecker) search(ops []*rscOp, maxStates int) (found, done bool) {
	s := rscSearch{
		ctx: c.ctx, registry: c.registry, frontier: precedence.NewFrontier(newRSCGraph(ops, c.RSCOptions)), asked: ops,
		ops:     make([]rscSearchOp, len(ops)),
		numbers: map[string]int32{"": 0}, values: []register.Value{nil}, seen: map[[2]uint64]bool{}, max: maxStates,
		most: cmp.Or(c.most, maxHeld),
	}
	keys := keysOf(ops)
	s.keys = make([]rscSearchKey, len(keys))
	for k, key := range keys {
		s.keys[k] = rscSearchKey{
			since: initially, timed: timed(ops, key), readers: map[int32]int{}, writers: map[int32]int{},
		}
		for _, i := range key {
			o, mine := ops[i], &s.ops[i]
			mine.key = k
			value, kind := leaves(o)
			if mine.kind = kind; o.Request.Kind == register.Read {
				value = o.Result.Value
			}
			mine.value = s.number(value)
			s.count(i, 1)
		}
	}
	found = s.search()
	return found, found || s.states <= s.max && c.ctx.Err() == nil
}

// timed reports whether a read of a key had returned before an operation was invoked that may leave what it found.
func timed(ops []*rscOp, key []int32) bool {
	last, anything := map[string]time.Duration{}, time.Duration(math.MinInt64) // by value, when it was left last
	for _, i := range key {
		switch value, kind := leaves(ops[i]); kind {
		case leavesAnything:
			anything = max(anything, ops[i].Invoked)
		case leavesValue:
			last[ValueKey(value)] = max(last[ValueKey(value)], ops[i].Invoked)
		}
	}
	return slices.ContainsFunc(key, func(i int32) bool {
		o := ops[i]
		return !o.writes() && o.Returned < max(anything, last[ValueKey(o.Result.Value)])
	})
}

// count notes that an operation is left (1) or not any more (-1).
func (s *rscSearch) count(i int32, change int) {
	o, mine := s.asked[i], &s.ops[i]
	key := &s.keys[mine.key]
	if o.known {
		s.left += change
	}
	switch {
	case o.Request.Kind == register.Read:
		key.readers[mine.value] += change
	case mine.kind == leavesValue:
		key.writers[mine.value] += change
	case mine.kind == leavesAnything:
		key.free += change
	}
	if o.Request.Kind == register.RMW {
		key.rmws += change
	}
}

func (s *rscSearch) number(v register.Value) int32 {
	name := ValueKey(v)
	n, ok := s.numbers[name]
	if !ok {
		n = int32(len(s.values))
		s.numbers[name] = n
		s.values = append(s.values, v)
	}
	return n
}

// move is an operation that can come next, and what its key holds after it.
type move struct {
	op    int32
	value int32
	rank  int64 // moves of lower ones are tried first
}

// set notes in the mark that an operation is taken, or not any more, and gives its key a value.
func (s *rscSearch) set(op, value int32, since invocation) {
	number := s.ops[op].key
	key := &s.keys[number]
	s.flip(uint64(op) << 33)
	s.flip(uint64(number)<<33 | uint64(key.value)<<1 | 1)
	s.flip(uint64(number)<<33 | uint64(value)<<1 | 1)
	if key.timed && since != key.since {
		s.flip(Scramble(uint64(key.since)) ^ uint64(number))
		s.flip(Scramble(uint64(since)) ^ uint64(number))
	}
	key.value, key.since = value, since
}

// flip changes one fact in the mark.
func (s *rscSearch) flip(fact uint64) {
	s.mark[0] ^= Scramble(fact)
	s.mark[1] ^= Scramble(fact ^ 0x6a09e667f3bcc909)
}

// Scramble is a permutation of 64 bits that leaves no pattern (the finalizer of splitmix64).
func Scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// undo is an operation that was taken, and what there was before.
type undo struct {
	move
	since invocation
	taken precedence.Taken
}

// apply puts an operation next.
func (s *rscSearch) apply(m move, done []undo) []undo {
	key := s.keys[s.ops[m.op].key]
	before := undo{move: move{op: m.op, value: key.value}, since: key.since}
	s.set(m.op, m.value, key.since.after(s.asked[m.op], s.values[m.value], m.value == key.value))
	before.taken = s.frontier.Take(m.op)
	s.count(m.op, -1)
	return append(done, before)
}

func (s *rscSearch) revert(done []undo) {
	for _, u := range slices.Backward(done) {
		s.count(u.op, 1)
		s.frontier.Untake(u.taken)
		s.set(u.op, u.value, u.since)
	}
}

// search reports whether what is left can follow.
func (s *rscSearch) search() bool {
	var done []undo
	// What can't change anything may come as soon as it fits, and a write that no one reads as soon as no one needs
	// what it covers: nothing is lost by that.
	for progress := true; progress && s.ctx.Err() == nil; {
		progress = false
		for _, n := range s.frontier.Ready() {
			if s.ops[n].kind != leavesNothing && !s.unread(n) {
				continue
			}
			if value, fits := s.try(n); fits {
				done, progress = s.apply(move{op: n, value: value}, done), true
				break
			}
		}
	}
	if s.left == 0 {
		return true
	}
	if s.seen[s.mark] || s.states > s.max || s.ctx.Err() != nil {
		s.revert(done)
		return false
	}
	s.states++
	s.seen[s.mark] = true
	moves := s.moves()
	if s.held += len(moves); s.held > s.most {
		s.states = s.max + 1 // it gives up
	}
	for _, m := range moves {
		if s.states > s.max || s.ctx.Err() != nil {
			break
		}
		one := s.apply(m, nil)
		if s.search() {
			return true
		}
		s.revert(one)
	}
	s.held -= len(moves)
	s.revert(done)
	return false
}

// try gives the value that a key has after an operation, and whether that can come next.
func (s *rscSearch) try(n int32) (int32, bool) {
	o, mine := s.asked[n], &s.ops[n]
	current := s.keys[mine.key].value
	switch o.Request.Kind {
	case register.Read:
		return current, current == mine.value && s.keys[mine.key].since.before(o)
	case register.Write:
		return mine.value, true
	}
	next, fits := outcome(s.registry, s.values[current], o.step)
	if !fits {
		return 0, false
	}
	return s.number(next), true
}

// covers reports whether an operation, by leaving a value, would cover one for good that is still to be read.
func (s *rscSearch) covers(n, value int32) bool {
	key := &s.keys[s.ops[n].key]
	return value != key.value && key.free == 0 && key.readers[key.value] > 0 && key.writers[key.value] == 0
}

// unread reports whether an operation is a write that only covers a value, and neither value is of use to what is left.
func (s *rscSearch) unread(n int32) bool {
	o, key := s.asked[n], &s.keys[s.ops[n].key]
	return o.known && o.Request.Kind == register.Write && key.rmws == 0 && key.readers[s.ops[n].value] == 0 &&
		key.readers[key.value] == 0
}

// moves lists what may come next, what is most likely first: writes in the order of their return, and those of unknown
// outcome only where someone may have seen them.
func (s *rscSearch) moves() []move {
	waiting := map[[2]int32]bool{} // key and value that a read waits for
	for _, n := range s.frontier.Ready() {
		if s.asked[n].Request.Kind == register.Read {
			waiting[[2]int32{int32(s.ops[n].key), s.ops[n].value}] = true
		}
	}
	tried := map[[2]int32]bool{}
	var moves []move
	for _, n := range s.frontier.Ready() {
		o, mine := s.asked[n], &s.ops[n]
		value, fits := s.try(n)
		if !fits || mine.kind == leavesNothing || s.covers(n, value) {
			continue
		}
		m := move{op: n, value: value, rank: int64(o.Returned)}
		if !o.known {
			key := &s.keys[mine.key]
			this := [2]int32{int32(mine.key), value}
			same := value == key.value && !(key.timed && invocation(o.Invoked) < key.since)
			if same || key.rmws == 0 && key.readers[value] == 0 ||
				o.Request.Kind == register.Write && tried[this] && !key.timed {
				continue
			}
			tried[this] = tried[this] || o.Request.Kind == register.Write
			if m.rank = math.MaxInt64; waiting[this] {
				m.rank--
			}
		}
		moves = append(moves, m)
	}
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(a.rank, b.rank) })
	return moves
}
