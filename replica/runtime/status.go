package runtime

import (
	"slices"

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
	Quorum       bool // see Replica.Quorum
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
}

// Status reads how the replica is. It may be called at any time.
func (r *Replica) Status() Status {
	status := Status{
		Member: r.options.Self, Epoch: r.options.View.Epoch, Boot: r.store.Boot(), Lost: r.store.Lost(),
		Peers: r.transport.Peers(), Quorum: r.Quorum(), StorageBytes: r.store.Bytes(),
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
			InFlight: int(s.state.flying.Load()), Pending: int(s.state.pending.Load()), Queue: queue,
		})
	}
	return status
}

// Quorum reports whether this member serves: it is running, votes in every shard, and reaches a majority,
// itself included.
func (r *Replica) Quorum() bool {
	if r.refusing.Load() || !r.Votes() {
		return false
	}
	reached := 1
	for _, p := range r.transport.Peers() {
		if p.Reachable {
			reached++
		}
	}
	return reached >= r.options.View.Majority()
}

// Votes reports whether this member votes in every shard, with or without a majority in its reach.
func (r *Replica) Votes() bool {
	return !slices.ContainsFunc(r.shards, func(s *shard) bool { return !s.state.voter.Load() })
}

// Block cuts or mends the link to a peer; see transport.Transport.Block.
func (r *Replica) Block(id view.MemberID, directions transport.Direction) error {
	return r.transport.Block(id, directions)
}
