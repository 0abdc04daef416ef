package cluster

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// syncTold is what a master says to a backup beside entries.
type syncTold struct {
	to          view.MemberID
	last, whole uint64
}

// saying is when it began to say so, and how often it has since.
type saying struct {
	first protocol.Instant
	times int
}

// holdSyncs holds it that a master whose term does not serve yet says the same to a backup at most twice within Retry:
// once more for what it had synced meanwhile. A backup that asks for leave to answer reads is told more often.
func (nd *Node) holdSyncs(s *shard, e *protocol.Effects) {
	p, is := s.Protocol.(protocol.Partitioned)
	if !is {
		return
	}
	st := p.PartitionStatus()
	if st.Role != protocol.Master || st.Serving {
		s.syncs = nil
		return
	}
	if s.syncs == nil {
		s.syncs = map[syncTold]saying{}
	}
	w := nd.World
	within := min(w.Environment.LeastRetry()*9/10, w.Environment.Partitioned.Sync.WithDefaults().Lease/4)
	backups := nd.Config.View.Partitions[st.Partition].Backups
	for i := range e.SendAfterPersist {
		to, m := e.SendAfterPersist[i].To, e.SendAfterPersist[i].Message
		if m.Kind != peerv1.Kind_SYNC || len(m.Curp.Entries) > 0 || !slices.Contains(backups, to) {
			continue
		}
		told := syncTold{to, m.Curp.Last, m.Curp.WholeTerm}
		x := s.syncs[told]
		if x.times == 0 || s.ticked.Sub(x.first) >= within {
			x = saying{first: s.ticked}
		}
		x.times++
		s.syncs[told] = x
		if x.times > 2 {
			w.Breaches(fmt.Errorf("%s tells member %d for the %d. time in %v of its log up to entry %d in partition %d, "+
				"where it does not serve", nd.Name(), to, x.times, s.ticked.Sub(x.first), m.Curp.Last, st.Partition))
		}
	}
}

// complete is what a member has heard of an update that it is the client of.
type complete struct {
	answered bool            // what the master made of it
	saved    []view.MemberID // witnesses
	over     bool            // it has heard that all of it is so, in an earlier turn
}

// noteUpdates notes what a member hears of updates.
func (nd *Node) noteUpdates(s *shard, in *Input) {
	m := in.Message
	if env := nd.World.Environment; env.Partitioned == nil || !env.Sealed {
		return
	}
	part := nd.Config.View.Partitions[m.Shard]
	heard := func(op uint64, note func(x *complete)) {
		if s.updates == nil {
			s.updates = map[uint64]*complete{}
		}
		x := s.updates[op]
		if x == nil {
			x = &complete{}
			s.updates[op] = x
		}
		if note(x); x.answered && len(x.saved) > 0 && len(x.saved) == len(part.Witnesses) {
			s.completed = append(s.completed, x)
		}
	}
	switch c, w := m.Curp, m.Witness; {
	case m.Kind == peerv1.Kind_UPDATE_REPLY && c != nil && m.Epoch == nd.Config.View.Epoch && c.Term == part.Term:
		if !c.Refused && c.Answer != nil && !c.Answer.Expired {
			heard(m.Op, func(x *complete) { x.answered = true })
		}
	case m.Kind == peerv1.Kind_WITNESS && w != nil && w.Kind == witnessv1.Kind_RECORD_REPLY && w.Partition == m.Shard:
		if w.Accepted && w.Term == part.Term && slices.Contains(part.Witnesses, in.from) {
			heard(w.Op, func(x *complete) {
				if !slices.Contains(x.saved, in.from) {
					x.saved = append(x.saved, in.from)
				}
			})
		}
	}
}

// holdUpdates holds it that nobody is asked about an update again once it is known to be complete: the master has told
// what it made of it, and all witnesses have saved it.
func (nd *Node) holdUpdates(s *shard, e *protocol.Effects) {
	if len(s.updates) == 0 {
		return
	}
	for i := range e.Send {
		m := e.Send[i].Message
		var x *complete
		switch {
		case m.Kind == peerv1.Kind_UPDATE:
			x = s.updates[m.Op]
		case m.Kind == peerv1.Kind_WITNESS && m.Witness.Kind == witnessv1.Kind_RECORD:
			x = s.updates[m.Witness.Op]
		}
		if x != nil && x.over {
			nd.World.Breaches(fmt.Errorf("%s asks %d about an update that the master has answered, and all witnesses have "+
				"saved", nd.Name(), e.Send[i].To))
		}
	}
	for _, x := range s.completed { // what was asked in the turn in which the last of it came is excused
		x.over = true
	}
	s.completed = s.completed[:0]
}
