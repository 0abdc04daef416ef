package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// MaxShards bounds the shards of a cluster.
const MaxShards = 1024

// Options say which member of which cluster to run, and on what.
type Options struct {
	View     view.View
	Self     view.MemberID
	Protocol string // a name of the catalog
	// Shards must be the same at every member for ever: it decides the shard of a key. Zero: 1. Of a protocol with
	// masters, shard i is partition i of the view, and this is how many it was founded with.
	Shards int

	// Store is the member's disk, opened for this member. The replica does not close it; another replica may have it
	// after storage.Store.Reboot.
	Store *storage.Store
	Inheritance
	// Sync is protocol.Config's, which counts for protocols with masters. Zero values: the defaults.
	Sync protocol.Sync
	// Listener is where peers reach this member; the replica closes it.
	Listener net.Listener
	// Newer is told views of later epochs that peers hold; see transport.Options. Nil: nobody is told.
	Newer func(view.View)
	// Dial connects to a peer's address. Nil: over TCP, resolving the name at each attempt.
	Dial transport.Dial
	// OneWayDelay emulates the distance from a peer or a witness; see transport.Options. Nil: none.
	OneWayDelay, Jitter transport.Delay

	// Nearest lists the other members, nearest first. Nil: by OneWayDelay, and where that says nothing, by the
	// round trips that are measured.
	Nearest []view.MemberID
	// TrueTime reads the machine's clock with its bounds, for a protocol that is protocol.Timed. Nil: nothing is known.
	TrueTime  func() protocol.Interval
	Functions *register.Registry // nil: the built-in ones
	Limits    register.Limits    // zero: register.DefaultLimits
	// Bootstrap says that the cluster is being created: an empty disk votes. A disk that knows that it lost
	// something does not, whatever this says. A disk that the view names was founded, and votes in any case.
	Bootstrap bool
	// Faults is protocol.Config's, which the protocol must know of (capability.Protocol.CheckFaults). Zero: any
	// minority.
	Faults int
	// Fragments is protocol.Config's, which the protocol must know of (capability.Protocol.CheckFragments). Zero:
	// values are stored whole.
	Fragments protocol.Fragments
	// Retry and Suspect are protocol.Config's. Zero: derived from the largest delay, at least minRetry.
	Retry, Suspect time.Duration
	// TransferRate bounds what this member fetches of others' state, in bytes a second; each shard has the same part
	// of it. Zero: it is not bounded.
	TransferRate int
	Seed         uint64

	Metrics prometheus.Registerer // nil: none
	Logger  *zap.Logger           // nil: none

	// measured says that nothing is known of the distances but what the transport measures.
	measured    bool
	partitioned *definition.Partitioned // of the protocol; nil: views give its members no roles per shard
	paced       bool                    // and nothing is said of how long to wait for answers
	// Reads may be answered before a quorum holds what they read (definition.Protocol.Regular).
	regular bool

	// Tests replace these.
	elapsed func() time.Duration                                                // the clock
	start   func(protocol.Config, *protocol.Journal) (protocol.Protocol, error) // makes a shard's protocol
}

// minRetry is above a round trip on a local network with a slow fsync in it.
const minRetry = 100 * time.Millisecond

// complete checks the options and fills in what is not set.
func (o *Options) complete() error {
	if err := o.View.Validate(); err != nil {
		return err
	}
	if o.View.Index(o.Self) < 0 {
		return fmt.Errorf("member %d is not in the view of epoch %d", o.Self, o.View.Epoch)
	}
	o.Shards = cmp.Or(o.Shards, 1)
	if o.TrueTime == nil {
		o.TrueTime = func() protocol.Interval { return protocol.Interval{} }
	}
	if o.Shards < 1 || o.Shards > MaxShards {
		return fmt.Errorf("shards: %d is outside 1..%d", o.Shards, MaxShards)
	}
	if o.TransferRate < 0 {
		return fmt.Errorf("transfer rate: %d bytes a second is negative; 0 is no bound", o.TransferRate)
	}
	if o.start == nil {
		entry, err := catalog.Find(o.Protocol)
		if err != nil {
			return err
		}
		o.start, o.partitioned, o.regular = entry.Start, entry.Partitioned, entry.Regular()
		if err := CheckPartitions(o.View, o.Protocol, o.Shards); err != nil {
			return err
		}
	}
	if o.elapsed == nil {
		o.elapsed = elapsed
	}
	o.Logger, o.Functions = cmp.Or(o.Logger, zap.NewNop()), cmp.Or(o.Functions, register.NewRegistry())
	o.Limits = cmp.Or(o.Limits, register.DefaultLimits())
	return o.completeDistances()
}

// CheckPartitions reports why members of a protocol with that many shards can't run in a view, if that is for its
// partitions: with masters there is one for each shard, and those that were split off since; else there are none.
func CheckPartitions(v view.View, protocol string, shards int) error {
	entry, err := catalog.Find(protocol)
	switch n := len(v.Partitions); {
	case err != nil:
		return err
	case entry.Partitioned != nil && v.FoundedPartitions() != shards:
		return fmt.Errorf("partitions: the view of epoch %d has %d, and %d shards need one each, beside %d that were "+
			"split off: place as many partitions as there are shards",
			v.Epoch, n, shards, n-v.FoundedPartitions())
	case n > MaxShards:
		return fmt.Errorf("partitions: the view of epoch %d has %d, and there are %d at most", v.Epoch, n, MaxShards)
	case entry.Partitioned == nil && n+len(v.Witnesses) > 0:
		return fmt.Errorf("partitions: the view of epoch %d has %d, and %d witnesses; protocol %s has none",
			v.Epoch, n, len(v.Witnesses), protocol)
	}
	return nil
}

func (o *Options) completeDistances() error {
	farthest := time.Duration(0)
	for _, w := range o.View.Witnesses {
		farthest = max(farthest, o.OneWayDelay.Of(w.ID)+o.Jitter.Of(w.ID))
	}
	var others []view.MemberID
	for _, m := range o.View.Members {
		if m.ID != o.Self {
			others = append(others, m.ID)
			farthest = max(farthest, o.OneWayDelay.Of(m.ID)+o.Jitter.Of(m.ID))
		}
	}
	if o.Nearest == nil {
		o.Nearest, o.measured = others, farthest == 0
		slices.SortStableFunc(o.Nearest, func(a, b view.MemberID) int {
			// Of those as near, one that joins comes last: what it does not know yet makes reads longer, and it is
			// busy.
			return cmp.Or(cmp.Compare(o.OneWayDelay.Of(a), o.OneWayDelay.Of(b)),
				cmp.Compare(number(o.joins(a)), number(o.joins(b))))
		})
	} else {
		sorted := slices.Sorted(slices.Values(o.Nearest))
		slices.Sort(others)
		if !slices.Equal(sorted, others) {
			return errors.New("nearest: list every other member of the view once")
		}
	}
	o.paced = o.measured && o.Retry == 0 && o.Suspect == 0
	retry, suspect := pace(2 * farthest)
	o.Retry, o.Suspect = cmp.Or(o.Retry, retry), cmp.Or(o.Suspect, suspect)
	return nil
}

// tickEvery is how often a shard's protocol is told the time, at least: an operation that waits for a sync of its
// master waits for a tick, too.
func (o *Options) tickEvery() time.Duration {
	every := o.Retry / 4
	if o.partitioned != nil {
		every = min(every, max(o.Sync.WithDefaults().Delay/2, time.Millisecond))
	}
	return every
}

// pace is how long a protocol waits for answers whose round trip is so long at most.
func pace(roundTrip time.Duration) (retry, suspect time.Duration) {
	retry = max(minRetry, roundTrip+roundTrip/2)
	return retry, 5 * retry
}

func (o *Options) joins(id view.MemberID) bool { return o.View.Members[o.View.Index(id)].Joining }

// shardCount is how many shards the member has in this view.
func (o *Options) shardCount() int {
	if o.partitioned != nil {
		return len(o.View.Partitions)
	}
	return o.Shards
}

// shardRate is a shard's part of TransferRate. Of a small rate it is not nothing, which would be no bound.
func (o *Options) shardRate() int {
	if o.TransferRate == 0 {
		return 0
	}
	return max(o.TransferRate/o.shardCount(), 1)
}
