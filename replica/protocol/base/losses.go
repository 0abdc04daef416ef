package base

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// Losses are ballots that a coordinator lost to others, in a row.
type Losses struct {
	Ballots int
	longest time.Duration // until one was lost
}

// Lose counts a ballot that began at a time.
func (b *Base) Lose(l *Losses, began protocol.Instant) {
	l.Ballots++
	l.longest = max(l.longest, b.Now.Sub(began))
}

// BackOff draws when to try again: after one to so many eighths of Config.Retry, or of what the longest lost ballot took
// if that is more, so that whoever is at work comes to its end also where a quorum answers later than after Config.Retry.
func (b *Base) BackOff(l *Losses, eighths uint64) protocol.Instant {
	return b.Now.Add(max(b.Config.Retry, l.longest) / 8 * time.Duration(1+b.Draws.Below(eighths)))
}
