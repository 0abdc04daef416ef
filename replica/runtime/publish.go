package runtime

import (
	"sync/atomic"

	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/view"
)

// published is what others may know of the loop's state.
type published struct {
	voter       atomic.Bool
	doubted     atomic.Bool
	incarnation atomic.Uint32
	flying      atomic.Int64 // operations accepted and not ended
	pending     atomic.Int64
	change      atomic.Pointer[member.Change] // as of the latest tick; nil: the protocol knows of none
	standing    atomic.Pointer[curp.Standing] // of a partition, as of the latest tick or later
}

// publish lets others see where the loop stands.
func (s *shard) publish() {
	if m, ok := s.protocol.(interface {
		Voter() bool
		Incarnation() view.Incarnation
	}); ok {
		s.state.voter.Store(m.Voter())
		s.state.incarnation.Store(uint32(m.Incarnation()))
	}
	if m, ok := s.protocol.(interface{ Doubted() bool }); ok {
		s.state.doubted.Store(m.Doubted())
	}
	if p, ok := s.protocol.(interface{ Pending() int }); ok {
		s.state.pending.Store(int64(p.Pending()))
	}
	if last := s.state.standing.Load(); last != nil && last.Role == curp.Master && last.Recovered != last.Term {
		s.publishStanding() // it is waited for
	}
}

// publishStanding lets others see the member's part in a partition.
func (s *shard) publishStanding() {
	if p, ok := s.protocol.(interface{ Standing() curp.Standing }); ok {
		now := p.Standing()
		s.state.standing.Store(&now)
		s.state.voter.Store(!now.Lost && !s.state.doubted.Load())
		s.state.incarnation.Store(1) // another disk is another member
	}
}

// publishChange lets others see how far the member is in a change of the view.
func (s *shard) publishChange() {
	if p, ok := s.protocol.(interface{ Change() member.Change }); ok {
		if now, last := p.Change(), s.state.change.Load(); last == nil || now != *last {
			s.state.change.Store(&now)
		}
	}
}
