package kernel

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// Stream is one purpose's source of random numbers: a link, a disk, a client. Purposes draw from streams of
// their own, so that taking one fault out of a schedule disturbs the rest as little as possible. Everything is
// integer arithmetic on PCG, whose output is specified: a seed means the same on every machine.
type Stream struct{ *rand.PCG }

// Purposes of streams; their numbers are part of what a seed means.
const (
	ForSchedule uint64 = iota + 1
	ForLink
	ForDisk
	ForNode
	ForClient
	ForChanges
	ForManager
	ForPartitions
	ForStale
	ForSessions
	ForCopies
	ForPositions
	ForLimits
	ForMix
	ForOutages
	ForLearning
	ForDeviations
	ForSlowDisk
	ForDamage
	ForHasty
	ForCompaction
	ForApart
	ForPlain
	ForFetches
)

// NewStream is the source of a purpose under a seed; index tells the streams of one purpose apart.
func NewStream(seed, purpose, index uint64) Stream {
	return Stream{rand.NewPCG(seed, purpose<<32|index)}
}

// Below draws uniformly from [0, n); n is positive. The bias of multiply-and-shift is below n / 2^64.
func (s Stream) Below(n int) int {
	high, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(high)
}

// Between draws uniformly from [low, high].
func (s Stream) Between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.Below(int(high-low)+1))
}

// Chance is true for perMille out of 1000 draws.
func (s Stream) Chance(perMille int) bool { return s.Below(1000) < perMille }
