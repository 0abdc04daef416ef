package runtime

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// clock is the time of a replica's protocols, from its start on. Nothing else may tell them the time. It is another one
// for each replica, and not that of Go: time that the machine was suspended is no part of how far a moment of Go is
// away.
type clock struct {
	elapsed func() time.Duration
	origin  time.Duration // what elapsed was at the start
}

func newClock(elapsed func() time.Duration) clock { return clock{elapsed, elapsed()} }

func (c clock) now() protocol.Instant { return protocol.Instant(c.elapsed() - c.origin) }

// instant is a moment of Go on this clock, which is read last: a pause between the two readings makes the moment later,
// and never ends a promise before it ends for others.
func (c clock) instant(t time.Time) protocol.Instant {
	ahead := time.Until(t)
	return c.now().Add(ahead)
}

// moment is the reverse of instant, with the same order of readings.
func (c clock) moment(t protocol.Instant) time.Time {
	ahead := t.Sub(c.now())
	return time.Now().Add(ahead)
}
