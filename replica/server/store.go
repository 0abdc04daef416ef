// Package server holds a replica's listeners: gRPC, the Redis protocol, and HTTP for health and metrics.
// They turn requests into operations on a Store and know nothing of replication.
package server

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
