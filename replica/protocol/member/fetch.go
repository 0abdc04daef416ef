package member

import (
	"bytes"
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// patience is how many times in a row a page is asked for in vain before another source is tried.
const patience = 3

// comparedCost says how much of the rate records take that are compared and not sent: one byte in so many. Both members
// read and sum them up.
const comparedCost = 8

// source is a member whose state is fetched, and how much of it is here.
type source struct {
	incarnation view.Incarnation // of the disk that it has, which is the one that is fetched
	after       []byte           // the storage key behind which the next page starts
	done        bool

	// What this process knows beside that.
	asked     bool             // a page is under way
	own       summary          // of the records here that it is compared with; zero: with none
	due       protocol.Instant // when to ask again
	vain      int              // how many times it was asked in vain, in a row
	left      int              // how many times another source was tried in its place
	passed    uint64           // bytes sent or compared
	remaining uint64           // it said so
}

// known is the source of a member's present disk, or nil.
func (m *Member) known(id view.MemberID) *source {
	if s := m.sources[id]; s != nil && s.incarnation == m.roster.Of(id) {
		return s
	}
	return nil
}

// source is known, and begins it anew if there is none: what was fetched of a disk that is lost counts for nothing.
func (m *Member) source(id view.MemberID) *source {
	if s := m.known(id); s != nil {
		return s
	}
	s := &source{incarnation: m.roster.Of(id)}
	m.sources[id] = s
	return s
}

// fetches reports whether this member, in a joint view, has yet to fetch the state of those before the change.
func (m *Member) fetches() bool { return m.transfers && m.state == voting && !m.fetched.made }

// missing is how many members' state is still to be fetched: with what this member has itself, that of a majority of
// those before the change. Everything that ended in an earlier view was voted on by one of any such majority.
func (m *Member) missing() int {
	n := m.before.Majority()
	if m.mistakes.FetchFromOne {
		n = 1
	}
	for _, member := range m.before.Members {
		if s := m.known(member.ID); s != nil && s.done || member.ID == m.config.Self && !m.mistakes.FetchFromOne {
			n--
		}
	}
	return max(0, n)
}

// candidates are those before the change whose state is not here yet: those that were left less often first, then
// the nearest.
func (m *Member) candidates() []view.MemberID {
	left := func(id view.MemberID) int {
		if s := m.known(id); s != nil {
			return s.left
		}
		return 0
	}
	var ids []view.MemberID
	for _, id := range m.config.Nearest {
		if s := m.known(id); m.before.Index(id) >= 0 && (s == nil || !s.done) {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b view.MemberID) int { return cmp.Compare(left(a), left(b)) })
	return ids
}

// fetch goes on with one source after another. A source answers only while it votes in this epoch itself; one that
// does not is left for the next, and tried again later.
func (m *Member) fetch() {
	s := m.known(m.from)
	if s != nil && s.asked && m.now >= s.due && s.vain+1 >= patience {
		m.config.Took("member.source-left")
		s.asked, s.vain = false, 0
		s.left++
		s = nil
	}
	if s == nil || s.done {
		candidates := m.candidates()
		if len(candidates) == 0 {
			return
		}
		m.from = candidates[0]
		m.source(m.from)
	}
	m.askPage(m.from)
}

// askPage asks a source for its next page once the rate allows it, and again when it does not answer in time.
func (m *Member) askPage(id view.MemberID) {
	s := m.known(id)
	if s == nil || s.done || s.asked && m.now < s.due || !m.throttle.open(m.now) {
		return
	}
	if s.asked {
		s.vain++
	}
	s.asked = true
	// A page may take longer than other messages. To ask for it again and again would make the way even slower.
	s.due = m.now.Add(m.config.Retry << min(s.vain, patience-1))
	t := &peerv1.Transfer{From: s.after}
	if s.own = m.sum(s.after, nil); s.own.bytes > 0 {
		t.Until, t.Digest = s.own.until, s.own.digest
	}
	// It leaves once what it sums up is durable here: that is not fetched again.
	m.reply(id, &peerv1.Message{Kind: peerv1.Kind_TRANSFER, Op: m.config.Nonce, Transfer: t})
}

// take adopts a page, while the protocol goes on: what is newer here stays.
func (m *Member) take(from view.MemberID, msg *peerv1.Message) {
	t := msg.GetTransfer()
	size := uint64(0)
	for _, r := range t.GetRecords() {
		size += uint64(len(r.Key) + len(r.Value))
	}
	m.throttle.spend(m.now, size)
	s := m.known(from)
	if s == nil || s.done || !bytes.Equal(t.GetFrom(), s.after) || msg.Op != m.config.Nonce && !m.unnamed(msg) {
		return // it was asked for twice, or by an earlier process or disk
	}
	end := s.after
	if t.GetSame() {
		if s.own.bytes == 0 || !bytes.Equal(t.Until, s.own.until) {
			return // of an earlier question, before more was written here
		}
		end, size = t.Until, s.own.bytes
	} else if n := len(t.GetRecords()); n > 0 {
		end = t.Records[n-1].Key
	}
	if !t.GetLast() && bytes.Compare(end, s.after) <= 0 {
		return // it leads nowhere
	}
	if t.GetSame() {
		m.sameBytes += size
		m.throttle.spend(m.now, size/comparedCost)
	} else {
		m.adopt(t.GetRecords())
		m.records += uint64(len(t.GetRecords()))
		m.bytes += size
	}
	s.after, s.done, s.remaining = end, t.GetLast(), t.GetRemaining()
	s.passed += size
	s.asked, s.vain = false, 0
	m.saveTransfer()
	switch {
	case m.state == voting && m.missing() > 0:
		m.fetch()
	case m.state == transferring:
		m.askPage(from)
		m.arrived()
	}
}

// unnamed reports whether a page does not say which process asked for it: members of versions that know no joint views
// don't. Such a page may be one that an earlier process of this disk asked for. For a lost disk that joins again it does
// as well: its source had adopted that disk (knowsMe).
func (m *Member) unnamed(msg *peerv1.Message) bool {
	return msg.Op == 0 && m.state == transferring && !msg.GetTransfer().GetSame()
}

func (m *Member) adopt(records []*peerv1.Record) {
	keys := make([][]byte, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	m.journal.Load(keys) // each is compared with the one here
	for _, r := range records {
		if !isOwn(r.Key) {
			m.inner.Adopt(r.Key, r.Value)
		}
	}
}
