package meter

import (
	"math/bits"
	"time"
)

// Latencies are counted in buckets that grow with them: 16 for each doubling, so that a bucket's middle is
// within 3% of what is in it. The unit is a microsecond; the last bucket holds all above two minutes.
const (
	perDoubling = 16
	doublings   = 24
	// Buckets is how many there are.
	Buckets = perDoubling * (doublings + 1)
)

// bucket is where a latency counts.
func bucket(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < perDoubling {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(perDoubling)
	return min(perDoubling*shift+int(us>>shift), Buckets-1)
}

// middle is the latency that stands for a bucket.
func middle(i int) time.Duration {
	if i < 2*perDoubling {
		return time.Duration(i)*time.Microsecond + time.Microsecond/2
	}
	shift := i/perDoubling - 1
	low := uint64(i-perDoubling*shift) << shift
	return time.Duration(low)*time.Microsecond + time.Duration(uint64(1)<<shift)*time.Microsecond/2
}

// Quantile is the latency that a share of the answered operations did not exceed, within 3%; 0 if there
// were none. The share is from 0 to 1.
func (r Reading) Quantile(share float64) time.Duration {
	var total uint64
	for _, n := range r.Latency {
		total += n
	}
	var sum uint64
	for i, n := range r.Latency {
		sum += n
		if n > 0 && float64(sum) >= share*float64(total) {
			return middle(i)
		}
	}
	return 0
}
