package operation

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Identity is what a replica says of itself to clients.
type Identity struct {
	Cluster  string
	Member   view.MemberID
	Site     string
	Protocol string // as the manifest spells it, such as "Gryff"
	// Durability is "Sync", "Interval" or "Memory", as in the manifest; Redis clients see the nearest
	// setting of Redis.
	Durability string
}

// Options are what the gRPC and the Redis listener have in common. Store is required; all else has a default.
type Options struct {
	Store    Store
	Identity Identity
	// Limits bound keys and values; zero: register.DefaultLimits.
	Limits register.Limits
	// Functions are the rmw functions that calls are checked against; nil: the built-in ones.
	Functions *register.Registry
	// Proofs are the cluster's keys, under a protocol whose reads may be answered before a quorum holds what they read:
	// what clients depend on is believed with a proof alone. Nil: the protocol is linearizable, and no one depends on
	// anything.
	Proofs *proof.Keys
	// Timeout is how long an operation may take before the replica gives up: the most that a gRPC client
	// may ask for, and what every Redis command has. Default: 10 s.
	Timeout time.Duration
	// MaxInFlight bounds the operations of one connection that are worked on at once. Over it, the
	// connection is read no further until some are answered. Default: 1024.
	MaxInFlight int
	// MaxConnections bounds the connections of this listener. Default: 10000, as Redis.
	MaxConnections int
	// Memory bounds what clients can make this listener hold, and all others that are given the same. Nil: one of
	// DefaultMemory for this listener alone.
	Memory *Memory
	// Metrics counts what the listener does; nil: not counted.
	Metrics *Metrics
	// Log is told of connections that go wrong; nil: nothing is logged.
	Log *zap.Logger
}

// WithDefaults returns the options with what is not set filled in. The error says what is missing or out of bounds.
func (o Options) WithDefaults() (Options, error) {
	if o.Store == nil {
		return o, errors.New("listener: Options.Store is missing; give the store to serve")
	}
	o.Limits = cmp.Or(o.Limits, register.DefaultLimits())
	if o.Limits.KeyBytes < 1 || o.Limits.ValueBytes < 1 {
		return o, errors.New("listener: Options.Limits: KeyBytes and ValueBytes must be at least 1")
	}
	if row, err := capability.Find(o.Identity.Protocol); err == nil && row.Regular() && o.Proofs == nil {
		return o, fmt.Errorf("listener: Options.Proofs is missing; protocol %s needs the cluster's keys",
			o.Identity.Protocol)
	}
	o.Functions = cmp.Or(o.Functions, register.NewRegistry())
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	o.MaxInFlight = cmp.Or(max(o.MaxInFlight, 0), 1024)
	o.MaxConnections = cmp.Or(max(o.MaxConnections, 0), 10000)
	o.Metrics, o.Log = cmp.Or(o.Metrics, NewMetrics(nil)), cmp.Or(o.Log, zap.NewNop())
	if o.Memory == nil {
		o.Memory = NewMemory(max(DefaultMemory, o.Limits.LeastClientMemory()), o.Metrics, o.Log)
	}
	return o, nil
}

// Regular reports whether reads may be answered before a quorum holds what they read, so that clients have sessions and
// proofs.
func (o *Options) Regular() bool { return o.Proofs != nil }

// CheckTransaction refuses a transaction on one key where the protocol has none.
func (o *Options) CheckTransaction() error {
	row, err := capability.Find(o.Identity.Protocol)
	if err != nil {
		return nil // a protocol of a test: the store says what it has not
	}
	return row.CheckTransaction()
}
