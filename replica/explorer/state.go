package explorer

import (
	"iter"
	"math/bits"
	"slices"
)

// choice is one thing that can happen: a kind, and what it is about.
type choice uint32

// kinds of choices. Those up to crash are inputs of a member too.
const (
	start     uint32 = iota + 1 // of a member, a number of which is the argument
	deliver                     // a message
	tell                        // a process, of the view that is recorded
	invoke                      // a request; of a session, as a choice
	persist                     // a member's oldest batch
	timeout                     // of a member; with masters, of all
	takeover                    // by a member; with masters, a failover
	crash                       // of a member
	lose                        // a message
	duplicate                   // a message: it arrives, and stays under way
	hold                        // the first message of the plain order comes later
	slow                        // a member's batches become durable later
	submit                      // an operation, which is not one of a session
)

const argumentBits = 28

func chosen(kind uint32, argument uint32) choice { return choice(kind<<argumentBits | argument) }

func (c choice) kind() uint32     { return uint32(c) >> argumentBits }
func (c choice) argument() uint32 { return uint32(c) & (1<<argumentBits - 1) }

// What became of an operation, beside the numbers of results.
const (
	notInvoked uint32 = iota
	inProgress
	lost // its member crashed: nobody knows
	firstResult
)

// attempt is an operation in a global state.
type attempt struct {
	result uint32
	after  uint32 // the operations that had returned when it was invoked, a bit for each
}

// faultsUsed counts the faults of each kind that there were, four bits each.
type faultsUsed uint32

func (u faultsUsed) of(kind int) int { return int(u>>(4*kind)) & 15 }

func (u faultsUsed) more(kind int) faultsUsed { return u + 1<<(4*kind) }

// below yields those with no more of any kind, itself last.
func (u faultsUsed) below() iter.Seq[faultsUsed] {
	return func(yield func(faultsUsed) bool) {
		for v := faultsUsed(0); ; {
			if !yield(v) || v == u {
				return
			}
			for kind := usedTimeouts; ; kind++ { // counts on, in digits of which each has its own base
				if v.of(kind) < u.of(kind) {
					v = v.more(kind)
					break
				}
				v -= faultsUsed(v.of(kind)) << (4 * kind)
			}
		}
	}
}

// The positions of the kinds in faultsUsed.
const (
	usedTimeouts = iota
	usedTakeovers
	usedLosses
	usedDuplicates
	usedCrashes
)

// state is a global state.
type state struct {
	locals   []uint32 // by member, then the witness's
	attempts []attempt
	used     faultsUsed
	recorded uint32   // the view that is, by its position
	slow     uint32   // members whose batches become durable later, a bit for each
	queue    []uint32 // messages in the plain order; empty if every order is taken
	held     []uint32 // messages that arrive at any time, ascending
}

// copyFrom makes s what o is, in its own memory.
func (s *state) copyFrom(o *state) {
	s.locals = append(s.locals[:0], o.locals...)
	s.attempts = append(s.attempts[:0], o.attempts...)
	s.queue = append(s.queue[:0], o.queue...)
	s.held = append(s.held[:0], o.held...)
	s.used, s.recorded, s.slow = o.used, o.recorded, o.slow
}

func (s *state) hold(message uint32) {
	at, _ := slices.BinarySearch(s.held, message)
	s.held = slices.Insert(s.held, at, message)
}

// release takes a message out. What was dropped as spent is not there any more.
func (s *state) release(message uint32) {
	if at, found := slices.BinarySearch(s.held, message); found {
		s.held = slices.Delete(s.held, at, at+1)
	}
}

// returned are the operations that have returned, a bit for each.
func (s *state) returned() (all uint32) {
	for i := range s.attempts {
		if s.attempts[i].result >= firstResult {
			all |= 1 << i
		}
	}
	return all
}

// usedAt is where encode puts the faults, of a state with so many local states and operations.
func usedAt(locals, attempts int) int { return locals + 2*attempts }

// encode appends the state to words.
func (s *state) encode(words []uint32) []uint32 {
	words = append(words, s.locals...)
	for _, a := range s.attempts {
		words = append(words, a.result, a.after)
	}
	words = append(words, uint32(s.used), s.recorded, s.slow, uint32(len(s.queue)), uint32(len(s.held)))
	words = append(words, s.queue...)
	return append(words, s.held...)
}

// decode reads what encode wrote, of so many local states and operations, and returns the rest.
func (s *state) decode(words []uint32, locals, attempts int) []uint32 {
	s.locals = append(s.locals[:0], words[:locals]...)
	words = words[locals:]
	s.attempts = s.attempts[:0]
	for range attempts {
		s.attempts = append(s.attempts, attempt{words[0], words[1]})
		words = words[2:]
	}
	s.used, s.recorded, s.slow = faultsUsed(words[0]), words[1], words[2]
	queue, held := int(words[3]), int(words[4])
	words = words[5:]
	s.queue = append(s.queue[:0], words[:queue]...)
	s.held = append(s.held[:0], words[queue:queue+held]...)
	return words[queue+held:]
}

// fingerprint is a hash of a state. Two states of a billion have the same one with a probability of 10^-20.
type fingerprint [2]uint64

func hash(words []uint32) (f fingerprint) {
	a, b := uint64(0x9e3779b97f4a7c15)^uint64(len(words)), uint64(0xc2b2ae3d27d4eb4f)
	for i := 0; i < len(words); i += 2 {
		w := uint64(words[i])
		if i+1 < len(words) {
			w |= uint64(words[i+1]) << 32
		}
		a = fold(a^w, 0xa0761d6478bd642f)
		b = fold(b^bits.RotateLeft64(w, 23), 0xe7037ed1a0b428db) + a
	}
	return fingerprint{fold(a, 0x8ebc6af09c88c6e3), fold(b, 0x589965cc75374cc3)}
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// with is the hash of a state with so many faults, from that of one without.
func (f fingerprint) with(used faultsUsed) fingerprint {
	if used == 0 {
		return f
	}
	return fingerprint{fold(f[0]^uint64(used), 0x2d358dccaa6c78a5), fold(f[1]+uint64(used), 0x8bb84b93962eacc9)}
}

// visited are the states that were found, in that order, by their hashes.
type visited struct {
	found []fingerprint
	// slots have positions in found, from 1, or 0, below a part of the hash there. They are a power of two, at most two
	// thirds of them in use.
	slots []uint64
}

// partBits are those of a hash that a slot has.
const partBits = uint64(0xffffffff) << 32

// at is the slot of a state, or the free one where it belongs.
func (v *visited) at(f fingerprint) *uint64 {
	mask := uint64(len(v.slots) - 1)
	for i := f[0] & mask; ; i = (i + 1) & mask {
		n := v.slots[i]
		if n == 0 || n&partBits == f[1]&partBits && v.found[uint32(n)-1] == f {
			return &v.slots[i]
		}
	}
}

// find reports the position of a state, if it was found.
func (v *visited) find(f fingerprint) (at uint32, was bool) {
	if len(v.slots) == 0 {
		return 0, false
	}
	n := *v.at(f)
	return uint32(n) - 1, n != 0
}

// add reports the position of a state, and whether it is new.
func (v *visited) add(f fingerprint) (at uint32, isNew bool) {
	if 3*(len(v.found)+1) > 2*len(v.slots) {
		v.grow()
	}
	slot := v.at(f)
	if *slot == 0 {
		v.found = append(v.found, f)
		*slot = f[1]&partBits | uint64(len(v.found))
		return uint32(len(v.found) - 1), true
	}
	return uint32(*slot) - 1, false
}

func (v *visited) grow() {
	v.slots = make([]uint64, max(1024, 2*len(v.slots)))
	mask := uint64(len(v.slots) - 1)
	for n, f := range v.found {
		i := f[0] & mask
		for v.slots[i] != 0 {
			i = (i + 1) & mask
		}
		v.slots[i] = f[1]&partBits | uint64(n+1)
	}
}
