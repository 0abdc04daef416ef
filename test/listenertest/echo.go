package listenertest

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Echo is a store that answers every operation with its own value, from one other goroutine, as a shard's loop does. It
// costs next to nothing, so a benchmark over it measures the listener.
type Echo struct{ work chan func() }

// NewEcho returns an Echo that lasts as long as the benchmark.
func NewEcho(b *testing.B) *Echo {
	e := &Echo{work: make(chan func(), 4096)}
	go func() {
		for answer := range e.work {
			answer()
		}
	}()
	b.Cleanup(func() { close(e.work) })
	return e
}

// Submit answers an operation.
func (e *Echo) Submit(op register.Operation, _ time.Duration, done func(register.Result)) {
	e.work <- func() { done(register.Result{Status: register.OK, Value: op.Value}) }
}
