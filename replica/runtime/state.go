package runtime

import (
	"sync/atomic"

	"github.com/georegister/georegister/replica/protocol"
)

// loopState is what others may know of the loop's state.
type loopState struct {
	voter       atomic.Bool
	doubted     atomic.Bool
	incarnation atomic.Uint32
	inFlight    atomic.Int64 // operations accepted and not ended
	pending     atomic.Int64
	waiting     atomic.Int64                             // inputs whose records are being read from the disk
	change      atomic.Pointer[protocol.Change]          // as of the latest tick; nil: the protocol knows of none
	partition   atomic.Pointer[protocol.PartitionStatus] // of a partition, as of the latest tick or later
}

// publish lets others see where the loop stands.
func (s *shard) publish() {
	if s.joiner != nil {
		s.state.voter.Store(s.joiner.Voter())
		s.state.incarnation.Store(uint32(s.joiner.Incarnation()))
	}
	s.state.doubted.Store(s.protocol.Doubted())
	s.state.pending.Store(int64(s.protocol.Pending()))
	if last := s.state.partition.Load(); last != nil && last.Role == protocol.Master && last.Recovered != last.Term {
		s.publishPartition() // it is waited for
	}
}

// publishPartition lets others see the member's part in a partition.
func (s *shard) publishPartition() {
	if s.partitioned != nil {
		now := s.partitioned.PartitionStatus()
		s.state.partition.Store(&now)
		s.state.voter.Store(!now.Lost && !s.state.doubted.Load())
		s.state.incarnation.Store(1) // another disk is another member
	}
}

// publishChange lets others see how far the member is in a change of the view.
func (s *shard) publishChange() {
	if s.joiner == nil {
		return
	}
	if now, last := s.joiner.Change(), s.state.change.Load(); last == nil || now != *last {
		s.state.change.Store(&now)
	}
}
