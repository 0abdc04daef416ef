package cluster

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// heard is what a process has heard of how many promises a witness has made.
type heard struct {
	itself uint64 // as the witness has told it
	before uint64 // as it had told it before this turn, which began at turn
	turn   time.Duration
	known  uint64 // as anybody has, or its disk knew
	untold uint64 // what nobody else had told it of, until it has told all others; 0: there is none
	since  protocol.Instant
}

// noteWitnessed notes what a member is told of the promises of its view's witnesses: by one of them, or by another
// member.
func (nd *Node) noteWitnessed(s *shard, in *Input, now protocol.Instant) {
	if !nd.World.Environment.Doubtful {
		return
	}
	for _, p := range in.Message.Positions {
		if h := nd.heardOf(s, int(in.Message.Shard), view.MemberID(p.Member)); h != nil {
			h.known = max(h.known, p.Batches)
		}
	}
	m := in.Message.Witness
	if m == nil || m.Partition != in.Message.Shard {
		return
	}
	if h := nd.heardOf(s, int(m.Partition), in.from); h != nil {
		if nd.World.Now > h.turn {
			h.before, h.turn = h.itself, nd.World.Now
		}
		h.itself = max(h.itself, m.Promises)
		if h.itself > h.known {
			if h.untold == 0 {
				h.since = now
			}
			h.known, h.untold = h.itself, h.itself
		}
	}
}

// heardOf is what a process has heard of a witness; nil: its view has no such witness.
func (nd *Node) heardOf(s *shard, shard int, id view.MemberID) *heard {
	if _, known := nd.Config.View.Witness(id); !known {
		return nil
	}
	if s.heard == nil {
		s.heard = map[view.MemberID]*heard{}
	}
	if s.heard[id] == nil {
		s.heard[id] = &heard{known: nd.NotedOf(nd.World.Nodes[id-1], shard).GetBatches()}
	}
	return s.heard[id]
}

// holdTelling holds what a member says of the promises of witnesses against what these have told it since its process,
// or its part in the view, began: what it vouches for is no less.
func (nd *Node) holdTelling(shard int, to view.MemberID, m *peerv1.Message) {
	s := nd.Shards[shard]
	if m.Kind == peerv1.Kind_POSITION {
		for _, p := range m.Positions {
			if h := s.heard[view.MemberID(p.Member)]; h != nil {
				h.since = nd.Clock.Read(nd.World.Now) // of what it has heard after it made this message
				if p.Batches >= h.untold {
					h.untold = 0
				}
			}
		}
	}
	h, v := s.heard[to], m.Witness
	if h == nil || v == nil || v.Kind != witnessv1.Kind_VOUCH {
		return
	}
	told := h.itself
	if h.turn == nd.World.Now {
		told = h.before // what came later in this turn was not known when this was said
	}
	if v.Promises < told {
		nd.World.Breaches(fmt.Errorf("member %d tells witness %d of %d promises, and has heard of %d from it", nd.Index+1,
			to, v.Promises, told))
	}
}

// holdTold holds it that a member tells all others, soon enough, what a witness has told it alone. One that began on an
// empty disk tells nothing, and who is alone tells nobody.
func (nd *Node) holdTold(s *shard, now protocol.Instant) {
	if len(s.heard) == 0 || len(nd.Config.Nearest) == 0 || nd.Down || nd.Lost || s.empty {
		return
	}
	for _, w := range nd.Config.View.Witnesses {
		h := s.heard[w.ID]
		if h != nil && h.untold > 0 && now > h.since.Add(nd.Config.Suspect+nd.Config.Retry) {
			nd.World.Breaches(fmt.Errorf("member %d alone has heard of %d promises of witness %d, and tells nobody",
				nd.Index+1, h.untold, w.ID))
		}
	}
}

// itself is the most promises that a witness has told the process of.
func (s *shard) itself(id view.MemberID) uint64 {
	if h := s.heard[id]; h != nil {
		return h.itself
	}
	return 0
}
