package cluster

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// fetching is what a process asks others of their states.
type fetching struct {
	asked  map[view.MemberID]int    // how often for the same page; never ranged over
	from   map[view.MemberID][]byte // that page
	before *peerv1.TransferRecord   // when it asked last; nil: it has not
	pages  []page                   // those of this turn
}

// page is one that comes, and up to where the member has the sender's state before it.
type page struct {
	from  view.MemberID
	after []byte
}

// notePage notes a page that comes: the member may have asked for it once more before, in the same turn.
func (nd *Node) notePage(s *shard, from view.MemberID, m *peerv1.Message) {
	if m.Kind == peerv1.Kind_TRANSFER_PAGE {
		s.fetching.pages = append(s.fetching.pages, page{from, sourceIn(nd.transferOf(s), from).GetAfter()})
	}
}

// A question that can't tell of all records here tells at least of this part of a page's bytes, and a page has so many
// unless the tuning says how many.
const (
	partTold  = 16
	leastPage = 256 << 10

	logRecord      = 'l' // Raft: an entry
	instanceRecord = 'i' // EPaxos, Gryff: an instance
)

// holdFetching holds each question for a page of another member's state against what the member has noted: it goes on
// where the last page that came has ended, also after a restart. Beside that it holds up to where it asks, and of how
// much it tells that it is here.
func (nd *Node) holdFetching(s *shard, e *protocol.Effects) {
	f := &s.fetching
	defer func() { f.pages = f.pages[:0] }()
	var now *peerv1.TransferRecord
	for to, m := range pageQuestions(e) {
		if now == nil {
			now = nd.transferOf(s)
		}
		question := m.GetTransfer()
		before := func(p page) bool { return p.from == to && bytes.Equal(question.From, p.after) }
		// A source that is not there was dropped in this turn: the transfer is over, or that disk was lost.
		if is := sourceIn(now, to); is != nil && is.Incarnation == nd.knownNumber(m, to) &&
			!bytes.Equal(question.From, is.After) && !slices.ContainsFunc(f.pages, before) {
			nd.World.Breaches(fmt.Errorf("%s asks member %d for its state behind %q, and has all of it up to %q",
				nd.Name(), to, question.From, is.After))
		}
		nd.holdFollowing(s, to, m, now)
		nd.holdPrints(s, question, now)
	}
	if now == nil {
		return
	}
	if f.asked == nil {
		f.asked, f.from = map[view.MemberID]int{}, map[view.MemberID][]byte{}
	}
	for to, m := range pageQuestions(e) {
		if !bytes.Equal(f.from[to], m.GetTransfer().From) {
			f.asked[to] = 0
		}
		f.asked[to]++
		f.from[to] = m.GetTransfer().From
	}
	f.before = now
}

// pageQuestions are the questions for pages that leave, with whom each is for.
func pageQuestions(e *protocol.Effects) iter.Seq2[view.MemberID, *peerv1.Message] {
	return func(yield func(view.MemberID, *peerv1.Message) bool) {
		for i := range e.SendAfterPersist {
			out := &e.SendAfterPersist[i]
			if out.Message.Kind == peerv1.Kind_TRANSFER && !yield(out.To, out.Message) {
				return
			}
		}
	}
}

// transferOf is how far the states of others are that a member fetches in its view.
func (nd *Node) transferOf(s *shard) *peerv1.TransferRecord {
	record := &peerv1.TransferRecord{}
	raw, _ := s.journal.Get([]byte(transferKey))
	if record.UnmarshalVT(raw) != nil || record.Epoch != nd.Config.View.Epoch {
		return &peerv1.TransferRecord{}
	}
	return record
}

func sourceIn(record *peerv1.TransferRecord, id view.MemberID) *peerv1.TransferSource {
	for _, s := range record.GetSources() {
		if s.Member == uint32(id) {
			return s
		}
	}
	return nil
}

// knownNumber is which disk of a member the sender of a message knows.
func (nd *Node) knownNumber(m *peerv1.Message, id view.MemberID) uint32 {
	return field.Incarnation(m.Known, nd.Config.View.Index(id))
}

// holdFollowing holds it that who joins asks a source for no more than lies before the cursor of another one that is
// ahead of it, and that answers. Once it has everything of one it asks the others for the rest.
func (nd *Node) holdFollowing(s *shard, to view.MemberID, m *peerv1.Message, now *peerv1.TransferRecord) {
	joins, ok := s.Protocol.(protocol.Joiner)
	if question := m.GetTransfer(); !ok || joins.Voter() || len(question.Until) > 0 {
		return
	}
	for _, other := range now.Sources {
		if other.Done {
			return
		}
	}
	for _, other := range s.fetching.before.GetSources() {
		id := view.MemberID(other.Member)
		ahead := bytes.Compare(m.GetTransfer().From, other.After) < 0
		answers := s.fetching.asked[id] <= 1 || !bytes.Equal(s.fetching.from[id], other.After)
		if id != to && ahead && answers && other.Incarnation == nd.knownNumber(m, id) {
			nd.World.Breaches(fmt.Errorf("%s asks member %d for all behind %q, and has from member %d all up to %q",
				nd.Name(), to, m.GetTransfer().From, id, other.After))
		}
	}
}

// holdPrints holds it that a question which does not tell of all records here tells of many. Records of a log, and of
// instances, may be dropped in the turn in which they are told of: then the last one of those is not there any more.
func (nd *Node) holdPrints(s *shard, question *peerv1.Transfer, now *peerv1.TransferRecord) {
	if len(question.Until) == 0 || question.Until[0] == logRecord {
		return
	}
	for _, source := range now.Sources {
		if bytes.Equal(source.After, question.Until) {
			return // it was asked for up to there
		}
	}
	if _, there := s.journal.Get(question.Until); !there && question.Until[0] == instanceRecord {
		return
	}
	told, least := 0, leastPage/partTold
	if n := nd.Config.Tuning.PageBytes; n > 0 {
		least = int(n) / partTold
	}
	s.journal.Scan(question.From, func(key, value []byte) bool {
		if key[0] != memberKey[0] {
			told += len(key) + len(value)
		}
		return told < least && bytes.Compare(key, question.Until) < 0
	})
	if told < least {
		nd.World.Breaches(fmt.Errorf("%s asks for a page up to %q, and tells of %d bytes that are here; there are more",
			nd.Name(), question.Until, told))
	}
}
