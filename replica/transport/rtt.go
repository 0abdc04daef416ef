package transport

import (
	"slices"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// window is how many round trips are remembered.
const window = 64

// Distances is what a transport has measured, for the one of the next view.
type Distances struct {
	start time.Time // of the clock that they were measured by
	of    map[view.MemberID]*roundTrips
}

// Distances is what is known of peers and witnesses: the transport of the next view goes on with it
// (Options.Distances), and does not take for away who was heard a moment ago.
func (t *Transport) Distances() *Distances { return t.distances }

// to is the memory for a peer or a witness.
func (d *Distances) to(id view.MemberID) *roundTrips {
	if d.of[id] == nil {
		d.of[id] = &roundTrips{}
	}
	return d.of[id]
}

// roundTrips remembers the latest round trips to a peer.
type roundTrips struct {
	mutex  sync.Mutex
	ring   [window]time.Duration
	count  int
	last   time.Duration
	heard  time.Duration // the clock at the latest one
	silent time.Duration // how long a reachable peer may take to answer the next ping
}

// longest bounds a round trip that is believed: an answer to an older ping, or to one that was never sent, says nothing
// of the way.
const longest = time.Minute

// add notes an answer to the ping that was sent at a time of the clock, as the answer says.
func (r *roundTrips) add(now time.Duration, sent uint64) {
	rtt := now - time.Duration(sent)
	if sent > uint64(now) || rtt > longest {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.ring[r.count%window] = rtt
	r.count++
	r.last, r.heard = rtt, now
	r.silent = 5*pingEvery + 2*rtt
}

func (r *roundTrips) read(now time.Duration) (last, smallest time.Duration, reachable bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.count == 0 {
		return 0, 0, false
	}
	return r.last, slices.Min(r.ring[:min(r.count, window)]), now-r.heard <= r.silent
}
