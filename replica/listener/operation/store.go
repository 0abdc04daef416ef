// Package operation holds what the listeners of a replica share: the operations of clients on their way to a Store and
// back, with the sessions that they belong to, the memory that clients may use, and the metrics. It knows no wire
// protocol, and nothing of replication.
package operation

import (
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Store carries out operations. runtime.Replica is one.
type Store interface {
	// Submit starts an operation and returns at once. Done is called exactly once, from another goroutine,
	// within about timeout; it must not block. What it is given belongs to it, and must not be changed.
	Submit(op register.Operation, timeout time.Duration, done func(register.Result))
}
