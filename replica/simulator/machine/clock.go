package machine

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// Clock is a node's monotonic clock: virtual time, scaled and shifted.
type Clock struct {
	base  time.Duration // virtual time of the last change
	shown time.Duration // what it showed then
	Ppm   int           // how many millionths it runs fast
}

func (c *Clock) Read(now time.Duration) protocol.Instant {
	passed := now - c.base
	return protocol.Instant(c.shown + passed + passed*time.Duration(c.Ppm)/1_000_000)
}

// When is the virtual time at which the clock shows what is given, if nobody sets it until then.
func (c *Clock) When(shown protocol.Instant) time.Duration {
	left := time.Duration(shown) - c.shown
	return c.base + left - left*time.Duration(c.Ppm)/(1_000_000+time.Duration(c.Ppm))
}

// Set changes what the clock shows, and its speed, from now on.
func (c *Clock) Set(now, shown time.Duration, ppm int) { *c = Clock{base: now, shown: shown, Ppm: ppm} }
