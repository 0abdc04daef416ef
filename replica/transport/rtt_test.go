package transport

import (
	"math"
	"testing"
	"time"
)

// An answer to no ping of the last minute tells nothing of a peer: not that it is near, nor that all that is asked has
// to wait for it.
func TestMadeUpRoundTripsAreNotBelieved(t *testing.T) {
	r := &roundTrips{}
	now := 3 * time.Hour
	r.add(now, uint64(now-80*time.Millisecond))
	for _, sent := range []uint64{
		1, uint64(time.Hour), uint64(now - longest - 1), uint64(now + 1), uint64(now + time.Hour), math.MaxInt64,
		1 << 63, 1<<63 + 1, math.MaxUint64 - 5, math.MaxUint64,
	} {
		r.add(now, sent)
		if last, smallest, _ := r.read(now); last != 80*time.Millisecond || smallest != last ||
			r.silent != 5*pingEvery+2*last {
			t.Fatalf("after an answer to %d: the last round trip took %v, the smallest %v, and it may be silent for %v",
				sent, last, smallest, r.silent)
		}
	}
	if r.add(now, uint64(now-longest)); r.last != longest {
		t.Errorf("a long round trip is not believed: %v", r.last)
	}
	if r.add(now, uint64(now)); r.last != 0 {
		t.Errorf("one below the clock's grain is not believed: %v", r.last)
	}
	early := &roundTrips{}
	if early.add(1, math.MaxUint64); early.count != 0 {
		t.Error("an answer from before the clock began is believed")
	}
}
