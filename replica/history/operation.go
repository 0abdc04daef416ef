// Package history holds what clients saw, and decides whether a linearizable store can have shown it to them.
//
// Both worlds, the tools and the tests write the same operations, as lines of JSON (WriteRecord), and ask the
// same Check.
package history

import (
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Operation is one operation as its client saw it.
type Operation struct {
	Client string // who asked; a client has at most one operation outstanding at a time
	Site   string // where it asked
	// Request is what it asked for. Of an ID only Session and Number are recorded.
	Request register.Operation
	// Invoked and Returned are readings of one clock that all clients of the history share. Returned has no
	// meaning if the outcome is unknown. Only strictly increasing readings order events: operations that
	// return and begin at the same reading count as concurrent, so use a Recorder.
	Invoked  time.Duration
	Returned time.Duration
	// Result is what it got. The zero Status counts as register.Unknown. The carstamp is a hint at most.
	Result register.Result
}

// Known reports whether the client learned the outcome, so that Returned and Result.Value mean something.
func (o Operation) Known() bool {
	return o.Result.Status != register.Unknown && o.Result.Status != 0
}

// Latency is how long the client waited. It has no meaning if the outcome is unknown.
func (o Operation) Latency() time.Duration { return o.Returned - o.Invoked }
