package runtime

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// Status is how a replica is.
type Status struct {
	Member       view.MemberID
	Epoch        uint64
	Boot         uint32 // starts on this disk
	Lost         bool   // an earlier state of this member was lost, so it joined again
	Shards       []ShardStatus
	Peers        []transport.Peer
	Witnesses    []transport.Peer           // the view's
	Partitions   []protocol.PartitionStatus // this member's part in each, of a protocol with masters
	Quorum       bool                       // see Replica.Quorum
	Change       protocol.Change            // of all shards: sums, and what is true of each of them
	StorageBytes uint64
	Failure      string // why it stopped, or empty
}

// ShardStatus is how one shard of a replica is.
type ShardStatus struct {
	Number      int
	Voter       bool // false: a newcomer, which fetches the others' state
	Incarnation view.Incarnation
	InFlight    int // operations
	Pending     int // what the protocol holds unfinished
	Queue       int // inputs that wait for the loop
	Waiting     int // inputs that wait for records to be read from the disk
}

// Status reads how the replica is. It may be called at any time.
func (r *Replica) Status() Status {
	status := Status{
		Member: r.options.Self, Epoch: r.options.View.Epoch, Boot: r.store.Boot(), Lost: r.store.Lost(),
		Peers: r.transport.Peers(), Witnesses: r.transport.Witnesses(), Partitions: r.Partitions(),
		Quorum: r.Quorum(), Change: r.Change(), StorageBytes: r.store.Bytes(),
	}
	if err := r.Err(); err != nil {
		status.Failure = err.Error()
	}
	for _, s := range r.shards {
		s.mutex.Lock()
		queue := len(s.inputs.requests) + len(s.inputs.messages)
		s.mutex.Unlock()
		status.Shards = append(status.Shards, ShardStatus{
			Number: s.number, Voter: s.state.voter.Load(), Incarnation: view.Incarnation(s.state.incarnation.Load()),
			InFlight: int(s.state.inFlight.Load()), Pending: int(s.state.pending.Load()), Queue: queue,
			Waiting: int(s.state.waiting.Load()),
		})
	}
	return status
}

// Quorum reports whether this member serves: it is running, votes in every shard, and reaches a quorum, itself
// included; in a joint view that is a majority before the change and one after it.
func (r *Replica) Quorum() bool {
	if r.refusing.Load() || !r.Votes() {
		return false
	}
	return r.options.View.Quorum(func(id view.MemberID) bool {
		if id == r.options.Self {
			return true
		}
		_, reachable := r.transport.Distance(id)
		return reachable
	})
}

// Partitions tells this member's part in each partition, of a protocol with masters: in the partitions' order, up to
// the first one that has not told of itself yet, since who decides on views knows them by their places.
func (r *Replica) Partitions() (all []protocol.PartitionStatus) {
	for _, s := range r.shards {
		status := s.state.partition.Load()
		if status == nil {
			break
		}
		all = append(all, *status)
	}
	return all
}

// Unserved is a partition that nobody serves as far as this member can tell: it is the master and does not serve yet,
// or it does not reach the master. It is -1 if there is none.
func (r *Replica) Unserved() int {
	for _, p := range r.Partitions() {
		serving := p.Serving
		if master := r.options.View.Partitions[p.Partition].Master; master != r.options.Self {
			_, serving = r.transport.Distance(master)
		}
		if !serving {
			return p.Partition
		}
	}
	return -1
}

// Change is this member's part in a change of members, or in joining with another disk. With partitions there is
// nothing to settle or to fetch: who leaves hands its parts over first, and who joins gets some as a learner.
func (r *Replica) Change() protocol.Change {
	if r.options.partitioned != nil {
		return protocol.Change{Joint: r.options.View.Joint(), Settled: true, Fetched: true}
	}
	var all protocol.Change
	for i, s := range r.shards {
		c := s.state.change.Load()
		if c == nil {
			return protocol.Change{} // of a protocol that knows of no change
		}
		all.Joint, all.Transfers = c.Joint, c.Transfers // as the view says
		all.Settled = c.Settled && (i == 0 || all.Settled)
		all.Fetched = c.Fetched && (i == 0 || all.Fetched)
		all.Records += c.Records
		all.Bytes += c.Bytes
		all.SameBytes += c.SameBytes
		all.Remaining += c.Remaining
	}
	return all
}

// Complete reports whether this member votes in every shard, and if it joins in this view, holds what those before the
// change held. Until then its vote counts, but quorums need others beside it.
func (r *Replica) Complete() bool {
	v := r.options.View
	return r.Votes() && (!v.Members[v.Index(r.options.Self)].Joining || r.Change().Fetched)
}

// Votes reports whether this member votes in every shard, with or without a majority in its reach. With partitions that
// is whether its disk can fill the part that the view gives it in each.
func (r *Replica) Votes() bool {
	return !slices.ContainsFunc(r.shards, func(s *shard) bool { return !s.state.voter.Load() })
}

// Doubted reports whether some shard does not know yet that the disk holds all that it held: the member has just
// started, and waits for what others have heard of it.
func (r *Replica) Doubted() bool {
	return slices.ContainsFunc(r.shards, func(s *shard) bool { return s.state.doubted.Load() })
}

// Block cuts or mends the link to a peer or a witness; see transport.Transport.Block.
func (r *Replica) Block(id view.MemberID, directions transport.Direction) error {
	return r.transport.Block(id, directions)
}
