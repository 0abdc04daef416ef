package cluster

import (
	"encoding/binary"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/view"
)

// known is what a process has heard of others' disks, by itself or from others: of each member, of the last disk that
// it has heard of, what was heard of each start. What was heard in this turn comes to it at the end: it may have been
// heard after something was written, or said.
type known struct {
	of   map[view.MemberID][]*peerv1.Position // nil: it notes nothing; never ranged over
	news []*peerv1.Position
}

// knownOf begins with what a disk has.
func (nd *Node) knownOf(s *shard) known {
	if !nd.World.judged() || !nd.World.Environment.Doubtful {
		return known{}
	}
	k := known{of: map[view.MemberID][]*peerv1.Position{}}
	raw, _ := s.journal.Get([]byte(positionsKey))
	for _, p := range positionsIn(raw) {
		k.add(p)
	}
	return k
}

// positionsIn reads a PositionRecord; nil: there is none, or it is damaged.
func positionsIn(raw []byte) []*peerv1.Position {
	var record peerv1.PositionRecord
	if record.UnmarshalVT(raw) != nil {
		return nil // whoever reads it says so
	}
	return record.Positions
}

// add adds what was heard of a disk. Of a lost one nothing counts any more.
func (k *known) add(q *peerv1.Position) {
	id := view.MemberID(q.Member)
	all := k.of[id]
	if len(all) > 0 && all[0].Incarnation != q.Incarnation {
		if q.Incarnation < all[0].Incarnation {
			return
		}
		all = all[:0]
	}
	for _, p := range all {
		if p.Start == q.Start {
			p.Batches, p.Before = max(p.Batches, q.Batches), max(p.Before, q.Before)
			return
		}
	}
	k.of[id] = append(all, &peerv1.Position{
		Member: q.Member, Incarnation: q.Incarnation, Start: q.Start, Batches: q.Batches, Before: q.Before,
	})
}

// severalProcesses is the number of a start that stands for two of one boot.
const severalProcesses = 1<<32 - 1

func severalIn(start uint64) bool { return start&severalProcesses == severalProcesses }

// lacks is what a position lacks of what was heard of that disk; nil: nothing. A later start tells nothing of batches
// in earlier ones, so that it has to say the most of these.
func (k *known) lacks(p *peerv1.Position) *peerv1.Position {
	for _, q := range k.of[view.MemberID(p.GetMember())] {
		less := false
		switch {
		case p.Incarnation != q.Incarnation:
			less = p.Incarnation < q.Incarnation
		case p.Start < q.Start || p.Before < q.Before:
			less = true
		case p.Start == q.Start:
			less = p.Batches < q.Batches
		case position.Boot(p.Start) == position.Boot(q.Start): // two processes had it
			less = !severalIn(p.Start) || max(p.Batches, p.Before) < q.Batches
		default:
			less = p.Before < q.Batches
		}
		if less {
			return q
		}
	}
	return nil
}

// noteKnown notes what a member hears of disks: by the stamp of a message, and by what the message tells. What a lost
// disk has sent may be heard or not, and so may what comes to one that was put back.
func (nd *Node) noteKnown(s *shard, in *Input) {
	m, from := in.Message, nd.World.Nodes[in.from-1]
	if s.known.of == nil || nd.PutBack || max(m.Incarnation, 1) != from.number(int(m.Shard)) ||
		m.Kind == peerv1.Kind_JOIN_QUERY {
		return
	}
	hear := func(p *peerv1.Position) {
		id := view.MemberID(p.Member)
		if id == nd.Config.Self || nd.Config.View.Index(id) < 0 {
			return
		}
		for _, q := range s.known.of[id] {
			if q.Incarnation == p.Incarnation && q.Start == p.Start && q.Batches >= p.Batches && q.Before >= p.Before {
				return
			}
		}
		s.known.news = append(s.known.news, p)
	}
	if m.Start != 0 {
		hear(&peerv1.Position{
			Member: uint32(in.from), Incarnation: max(m.Incarnation, 1), Start: m.Start, Batches: m.Batches,
		})
	}
	switch m.Kind {
	case peerv1.Kind_JOIN_QUERY_REPLY, peerv1.Kind_ADOPT_OK, peerv1.Kind_TRANSFER_PAGE:
		for _, p := range m.Positions {
			hear(p)
		}
	}
}

// number is which disk of its member a node has, as that says itself; 0: it does not know yet.
func (nd *Node) number(shard int) uint32 {
	var own peerv1.MemberRecord
	raw := nd.Shards[shard].Disk.Records[memberKey]
	switch {
	case raw == nil && nd.founded():
		return 1
	case raw == nil || own.UnmarshalVT(raw) != nil:
		return 0
	}
	return own.Incarnation
}

// holdKnown holds what a process notes, and tells who joins or fetches, of others' disks: it is no less than what it
// had heard before this turn.
func (nd *Node) holdKnown(shard int, e *protocol.Effects) {
	s := nd.Shards[shard]
	k := &s.known
	if k.of == nil {
		return
	}
	for i := range e.SendAfterPersist {
		switch m := e.SendAfterPersist[i].Message; m.Kind {
		case peerv1.Kind_ADOPT_OK, peerv1.Kind_TRANSFER_PAGE:
			nd.holdPositions(s, "tells with "+m.Kind.String(), m.Positions)
		}
	}
	for i := range e.Persist.Mutations {
		if m := &e.Persist.Mutations[i]; string(m.Key) == positionsKey {
			all := positionsIn(m.Value)
			nd.holdPositions(s, "notes", all)
			for _, p := range all {
				nd.holdPosition(p, shard)
				k.add(p)
			}
		}
	}
	for _, p := range k.news {
		k.add(p)
	}
	clear(k.news)
	k.news = k.news[:0]
}

// holdPositions holds it that a list has all members of whose disks the process had heard, and no less of these.
func (nd *Node) holdPositions(s *shard, does string, all []*peerv1.Position) {
	of := func(id view.MemberID) *peerv1.Position {
		for _, p := range all {
			if p.Member == uint32(id) {
				return p
			}
		}
		return &peerv1.Position{Member: uint32(id)}
	}
	for _, member := range nd.Config.View.Members {
		p := of(member.ID)
		if q := s.known.lacks(p); q != nil {
			nd.World.Breaches(fmt.Errorf("%s %s %s, and has heard of %s", nd.Name(), does, showPosition(p),
				showPosition(q)))
		}
	}
}

func showPosition(p *peerv1.Position) string {
	return fmt.Sprintf("disk %d of member %d in start %d (%x) with %d batches, and %d before", p.Incarnation, p.Member,
		position.Boot(p.Start), uint32(p.Start), p.Batches, p.Before)
}

// holdPosition holds a position that a member notes against the disk that it is of, unless that was put back, or
// another one was lost that may have had its number: it had not noted it.
func (nd *Node) holdPosition(p *peerv1.Position, shard int) {
	w, of := nd.World, nd.World.Nodes[p.Member-1]
	if of.PutBack || of.Disks >= int(p.Incarnation) {
		return
	}
	why := ""
	switch number := of.number(shard); {
	case severalIn(p.Start):
		why = "no boot of that was used twice"
	case number == p.Incarnation && max(p.Batches, p.Before) > Batches(of.Shards[shard].Disk.Records):
		why = fmt.Sprintf("that has had %d", Batches(of.Shards[shard].Disk.Records))
	case number == p.Incarnation && position.Boot(p.Start) > uint64(of.Boots):
		why = fmt.Sprintf("that has had %d boots", of.Boots)
	default:
		return
	}
	w.Breaches(fmt.Errorf("%s notes %s: %s", nd.Name(), showPosition(p), why))
}

// holdCount holds it that each batch with more than notes says that the disk has had more of them. Two that a turn has
// begun are one, and count twice.
func (nd *Node) holdCount(shard int, b *protocol.Batch) {
	if !nd.World.judged() || !nd.World.Environment.Doubtful {
		return
	}
	counts, promises := uint64(0), false
	for _, m := range b.Mutations {
		switch string(m.Key) {
		case countKey:
			counts, _ = binary.Uvarint(m.Value)
		case positionsKey:
		default:
			promises = true
		}
	}
	if had := Batches(nd.Shards[shard].Disk.Records); promises && counts <= had {
		nd.World.Breaches(fmt.Errorf("%s writes a batch after %d, and says that it is batch %d", nd.Name(),
			had, counts))
	}
}
