package simulator

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// stream is one purpose's source of random numbers: a link, a disk, a client. Purposes draw from streams of
// their own, so that taking one fault out of a schedule disturbs the rest as little as possible. Everything is
// integer arithmetic on PCG, whose output is specified: a seed means the same on every machine.
type stream struct{ pcg *rand.PCG }

// Purposes of streams.
const (
	forSchedule uint64 = iota + 1
	forLink
	forDisk
	forNode
	forClient
	forChanges
	forManager
	forPartitions
	forStale
	forSessions
	forCopies
	forPositions
)

func newStream(seed, purpose, index uint64) stream {
	return stream{rand.NewPCG(seed, purpose<<32|index)}
}

// below draws uniformly from [0, n); n is positive. The bias of multiply-and-shift is below n / 2^64.
func (s stream) below(n int) int {
	high, _ := bits.Mul64(s.pcg.Uint64(), uint64(n))
	return int(high)
}

// between draws uniformly from [low, high].
func (s stream) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.below(int(high-low)+1))
}

// chance is true for perMille out of 1000 draws.
func (s stream) chance(perMille int) bool { return s.below(1000) < perMille }
