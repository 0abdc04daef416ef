package transactions

import (
	"cmp"
	"maps"
	"slices"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/precedence"
)

// search is one for an order of all transactions by values alone.
type search struct {
	*checker
	frontier *precedence.Frontier
	rest     int    // transactions with a sure effect that are not taken
	mark     uint64 // stands for what was taken and who left each key's value
	seen     map[uint64]bool
	states   int
	keys     map[string]*searchedKey
}

// searchedKey is a key as it is after what was taken.
type searchedKey struct {
	number  uint64
	current                // value
	readers map[string]int // by value: how many that are not taken and had an effect for sure found it
	writers map[string]int // by value: how many that are not taken leave it
}

// search reports whether there is an order that keeps all edges of a graph in which each transaction finds what it
// found, and whether that is known. What is known of the past is 64 bits of a hash for each state.
func (c *checker) search(g *precedence.Graph) (exists, done bool) {
	s := search{
		checker: c, frontier: precedence.NewFrontier(g), seen: map[uint64]bool{}, keys: map[string]*searchedKey{},
	}
	for number, name := range slices.Sorted(maps.Keys(c.keys)) {
		s.keys[name] = &searchedKey{
			number: uint64(number), current: current{writer: precedence.NoNode}, readers: map[string]int{},
			writers: map[string]int{},
		}
	}
	for i := range c.all {
		s.count(int32(i), 1)
	}
	exists = s.run()
	return exists, exists || s.states <= c.options.MaxStates && c.ctx.Err() == nil
}

// count notes that a transaction is left (1) or not any more (-1).
func (s *search) count(i int32, change int) {
	if s.sure[i] {
		s.rest += change
		for _, f := range s.reads[i] {
			s.keys[f.key].readers[history.ValueKey(f.value)] += change
		}
	}
	for _, w := range s.all[i].Writes {
		s.keys[w.Key].writers[history.ValueKey(w.Value)] += change
	}
}

// taken is a transaction that was put next, and what there was before.
type taken struct {
	transaction int32
	place       precedence.Taken
	before      []current // of the keys that it writes
}

// take puts a transaction next.
func (s *search) take(i int32) taken {
	t := taken{transaction: i, place: s.frontier.Take(i)}
	s.mark ^= history.Scramble(uint64(i) << 1)
	for _, w := range s.all[i].Writes {
		t.before = append(t.before, s.keys[w.Key].current)
		s.set(s.keys[w.Key], current{true, i, w.Value})
	}
	s.count(i, -1)
	return t
}

func (s *search) set(k *searchedKey, now current) {
	s.mark ^= k.mark()
	k.current = now
	s.mark ^= k.mark()
}

func (k *searchedKey) mark() uint64 {
	return history.Scramble(k.number<<33 | uint64(uint32(k.writer))<<1 | 1)
}

func (s *search) untake(t taken) {
	s.count(t.transaction, 1)
	s.frontier.Untake(t.place)
	for n, w := range s.all[t.transaction].Writes {
		s.set(s.keys[w.Key], t.before[n])
	}
	s.mark ^= history.Scramble(uint64(t.transaction) << 1)
}

// run reports whether what is left can follow.
func (s *search) run() bool {
	var free []taken
	// What writes nothing may come as soon as it fits: nothing is lost by that.
	for progress := true; progress; {
		progress = false
		for _, i := range s.frontier.Ready() {
			if len(s.all[i].Writes) == 0 && s.fits(i) {
				free, progress = append(free, s.take(i)), true
				break
			}
		}
	}
	if s.rest == 0 || s.branch() {
		return true
	}
	for _, t := range slices.Backward(free) {
		s.untake(t)
	}
	return false
}

// branch tries each transaction that may come next.
func (s *search) branch() bool {
	if s.seen[s.mark] || s.states > s.options.MaxStates || s.ctx.Err() != nil {
		return false
	}
	s.states++
	s.seen[s.mark] = true
	for _, i := range s.moves() {
		if s.states > s.options.MaxStates || s.ctx.Err() != nil {
			break
		}
		t := s.take(i)
		if s.run() {
			return true
		}
		s.untake(t)
	}
	return false
}

// moves lists what may come next: first what returned first, and what may have had no effect last.
func (s *search) moves() []int32 {
	var moves []int32
	for _, i := range s.frontier.Ready() {
		if s.fits(i) && !s.covers(i) {
			moves = append(moves, i)
		}
	}
	slices.SortStableFunc(moves, func(a, b int32) int {
		switch known := s.known(a); {
		case known != s.known(b) && known:
			return -1
		case known != s.known(b):
			return 1
		}
		return cmp.Compare(s.all[a].Returned, s.all[b].Returned)
	})
	return moves
}

// fits reports whether a transaction that comes next finds what it found.
func (s *search) fits(i int32) bool {
	for _, f := range s.reads[i] {
		if !s.explains(s.keys[f.key].current, i, f) {
			return false
		}
	}
	return true
}

// covers reports whether a transaction would replace a value for good that is still to be found. One that leaves the
// same value is among those who leave it.
func (s *search) covers(i int32) bool {
	for _, w := range s.all[i].Writes {
		k := s.keys[w.Key]
		value := history.ValueKey(k.value)
		readers := k.readers[value]
		if s.sure[i] && slices.ContainsFunc(s.reads[i], func(f found) bool { return f.key == w.Key }) {
			readers-- // itself, which finds it now
		}
		if readers > 0 && k.writers[value] == 0 {
			return true
		}
	}
	return false
}
