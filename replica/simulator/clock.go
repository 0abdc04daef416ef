package simulator

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// clock is a node's monotonic clock: virtual time, scaled and shifted.
type clock struct {
	base  time.Duration // virtual time of the last change
	shown time.Duration // what it showed then
	ppm   int           // how many millionths it runs fast
}

func (c *clock) read(now time.Duration) protocol.Instant {
	passed := now - c.base
	return protocol.Instant(c.shown + passed + passed*time.Duration(c.ppm)/1_000_000)
}

// set changes what the clock shows, and its speed, from now on.
func (c *clock) set(now, shown time.Duration, ppm int) { *c = clock{base: now, shown: shown, ppm: ppm} }
