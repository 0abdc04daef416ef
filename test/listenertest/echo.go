package listenertest

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Echo is a store that answers every operation at once, from one other goroutine, as a shard's loop does: a read by the
// value that was written last under whatever key, an rmw by 1. It costs next to nothing, so a benchmark over it
// measures the listener.
type Echo struct {
	work chan func()
	last register.Value
}

// NewEcho returns an Echo that lasts as long as the benchmark.
func NewEcho(b *testing.B) *Echo {
	e := StartEcho()
	b.Cleanup(e.Close)
	return e
}

// StartEcho returns an Echo that lasts until it is closed.
func StartEcho() *Echo {
	e := &Echo{work: make(chan func(), 4096)}
	go func() {
		for answer := range e.work {
			answer()
		}
	}()
	return e
}

// Close ends it. Nothing may be submitted any more.
func (e *Echo) Close() { close(e.work) }

// Submit answers an operation.
func (e *Echo) Submit(op register.Operation, _ time.Duration, done func(register.Result)) {
	e.work <- func() {
		result := register.Result{Status: register.OK, Value: op.Value}
		switch op.Kind {
		case register.Read:
			result.Value = e.last
		case register.Write:
			e.last = op.Value
		case register.RMW:
			result.Value = register.Value("1")
		}
		done(result)
	}
}
