package cluster

import (
	"bytes"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// notes is what a process that votes has heard of how far others' disks are, and what it has noted of that for the next
// process. Times are of its last tick: a protocol knows no other.
type notes struct {
	of      map[view.MemberID]place // that it knows; nil: it notes nothing; never ranged over
	last    []byte                  // the newest record of that
	since   protocol.Instant        // when it has heard the first that is not noted
	unnoted bool                    // there is some
	started view.MemberID           // whose start is not noted; 0: nobody's
}

// place is how far a disk was: in which start of its process, with how many batches.
type place struct{ start, batches uint64 }

func (p place) less(q place) bool {
	return p.start < q.start || p.start == q.start && p.batches < q.batches
}

// notesOf begins with what a disk has. Where no disk can be an older copy nothing is noted.
func (nd *Node) notesOf(s *shard) notes {
	var n notes
	if w := nd.World; w.judged() && w.Environment.Doubtful {
		n.of = map[view.MemberID]place{}
		n.last, _ = s.journal.Get([]byte(positionsKey))
		n.know(n.last)
	}
	return n
}

// know notes what a record has.
func (n *notes) know(raw []byte) {
	for _, p := range positionsIn(raw) {
		if id, at := view.MemberID(p.Member), (place{p.Start, p.Batches}); n.of[id].less(at) {
			n.of[id] = at
		}
	}
}

// hear notes what the stamp of a message tells.
func (n *notes) hear(from view.MemberID, m *peerv1.Message, now protocol.Instant) {
	at := place{m.Start, m.Batches}
	if n.of == nil || m.Start == 0 || m.Kind == peerv1.Kind_JOIN_QUERY || !n.of[from].less(at) {
		return
	}
	if n.of[from].start < at.start {
		n.started = from
	}
	if n.of[from] = at; !n.unnoted {
		n.unnoted, n.since = true, now
	}
}

// holdNotes holds it that what was heard of others' disks is noted in time, with the batches of a turn: a start at once,
// all else with the next batch after Retry, and after Suspect in any case; and that nothing is noted that was noted.
func (nd *Node) holdNotes(s *shard, b *protocol.Batch) {
	w, n := nd.World, &s.notes
	if n.of == nil {
		return
	}
	for _, m := range b.Mutations {
		if string(m.Key) != positionsKey {
			continue
		}
		if bytes.Equal(m.Value, n.last) {
			w.Breaches(fmt.Errorf("%s notes of others' disks what it had noted", nd.Name()))
		}
		n.know(m.Value)
		n.last, n.unnoted, n.started = m.Value, false, 0
	}
	why := ""
	switch {
	case !n.unnoted:
		return
	case n.started != 0:
		why = fmt.Sprintf("that member %d has started", n.started)
	case s.ticked >= n.since.Add(nd.Config.Suspect):
		why = fmt.Sprintf("after %v what it has heard of others' disks", nd.Config.Suspect)
	case b.Sequence != 0 && s.ticked >= n.since.Add(nd.Config.Retry):
		why = "with a batch what it has heard of others' disks before"
	default:
		return
	}
	w.Breaches(fmt.Errorf("%s does not note %s", nd.Name(), why))
}

// manyRetries is for how many times Retry a process asks at most before it does with a quorum.
const manyRetries = 5

// holdWait holds it at a tick that a process which asks others what is known of its disk waits no longer than for enough
// of them, or after some time for a quorum. Of who has lost its disk since the answer may be void. With masters fewer
// than all are enough only after that time.
func (nd *Node) holdWait(s *shard) {
	w := nd.World
	masters := w.Environment.Partitioned != nil
	lost := func(m view.Member) bool { return w.Nodes[m.ID-1].Disks > 1 }
	switch {
	case !s.Protocol.Doubted() || len(s.vouching) == 0 || !masters && !w.judged():
		return
	case !masters && slices.ContainsFunc(nd.Config.View.Members, lost):
		return
	}
	meets, all, quorum := nd.vouchedFor(s)
	late := nd.Clock.Read(w.Now) >= s.started.Add(manyRetries*nd.Config.Retry)
	if meets && !masters || all || late && quorum {
		w.Breaches(fmt.Errorf("%s still asks what is known of its disk, and members %v have told it", nd.Name(),
			s.vouching))
	}
}
