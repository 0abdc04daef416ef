package member

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// patience is how many times in a row a page is asked for in vain before another source is tried.
const patience = 3

// comparedCost says how much of the rate records take that are compared and not sent: one byte in so many. Both members
// read and sum them up.
const comparedCost = 2

// source is a member whose state is fetched, and how much of it is here.
type source struct {
	incarnation view.Incarnation // of the disk that it has, which is the one that is fetched
	after       []byte           // the storage key behind which the next page starts
	done        bool

	// What this process knows beside that.
	asked     bool             // a page is under way
	until     []byte           // what was told of the records here in the question ends there; empty: it was everything
	told      uint64           // bytes of those records
	reach     uint64           // bytes of records to tell of in the next question
	due       protocol.Instant // when to ask again
	vain      int              // how many times it was asked in vain, in a row
	left      int              // how many times another source was tried in its place
	passed    uint64           // bytes sent or compared
	remaining uint64           // it said so
}

// known is the source of a member's present disk, or nil.
func (m *Member) known(id view.MemberID) *source {
	if s := m.sources[id]; s != nil && s.incarnation == m.incarnations.Of(id) {
		return s
	}
	return nil
}

// source is known, and begins it anew if there is none: what was fetched of a disk that is lost counts for nothing.
func (m *Member) source(id view.MemberID) *source {
	if s := m.known(id); s != nil {
		return s
	}
	s := &source{incarnation: m.incarnations.Of(id), reach: m.pageBytes}
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

// fetch goes on with as many sources as are missing. A source answers only while it votes in this epoch itself; one
// that does not is left for the next, and tried again later.
func (m *Member) fetch() {
	for _, id := range m.config.Nearest {
		if s := m.known(id); s != nil && s.asked && m.now >= s.due && s.vain+1 >= patience {
			m.config.Took("member.source-left")
			s.asked, s.vain = false, 0
			s.left++
		}
	}
	ids := m.candidates()
	ids = ids[:min(len(ids), m.missing())]
	for _, id := range ids {
		m.source(id)
	}
	m.askPages(ids)
}

// askPages asks sources for their next pages. One of them is ahead, and sends nearly everything. The others follow it:
// they are asked for what lies before its cursor, of which they send what differs, since the rest is here. So all of
// them are at work, and nearly nothing is sent twice. One that does not answer leads nobody.
func (m *Member) askPages(ids []view.MemberID) {
	var ahead *source
	whole := false // everything that one of them had is here
	for _, id := range m.config.Nearest {
		switch s := m.known(id); {
		case s == nil:
		case s.done:
			whole = true
		case s.vain == 0 && slices.Contains(ids, id) && (ahead == nil || bytes.Compare(s.after, ahead.after) > 0):
			ahead = s
		}
	}
	for _, id := range ids {
		s := m.known(id)
		switch {
		case s == nil:
		case whole || ahead == nil || s == ahead:
			m.askPage(id, s, nil)
		case bytes.Compare(s.after, ahead.after) < 0:
			m.askPage(id, s, ahead.after)
		}
	}
}

// askPage asks a source for its next page, up to until, once the rate allows it, and again when it does not answer in
// time.
//
// The question tells what is here, so that the source leaves it out. This process holds it, and replaces it by what is
// newer only: to adopt the source's copy would change nothing, now or when the answer comes. So of all answers to
// questions of this process, whatever they told, each is right that goes on where this member is.
func (m *Member) askPage(id view.MemberID, s *source, until []byte) {
	if s.done || s.asked && m.now < s.due || !m.throttle.open(m.now) {
		return
	}
	if s.asked {
		s.vain++
	}
	s.asked = true
	// A page may take longer than other messages. To ask for it again and again would make the way even slower.
	s.due = m.now.Add(m.config.Retry << min(s.vain, patience-1))
	t, told := m.tell(s.after, until, s.reach)
	s.until, s.told = t.Until, told
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
	end := t.GetUntil()
	if n := len(t.GetRecords()); n > 0 && len(end) == 0 {
		end = t.Records[n-1].Key
	}
	if !t.GetLast() && bytes.Compare(end, s.after) <= 0 {
		return // it leads nowhere
	}
	if err := m.adopt(t.GetRecords()); err != nil {
		m.config.Took("member.page-refused")
		m.refuse(from, fmt.Errorf("a page of its state is refused: %w", err))
		return // it is no answer: the source is asked again, and soon another one in its place
	}
	compared := min(t.GetCompared(), s.told)
	m.throttle.spend(m.now, compared/comparedCost)
	m.records += uint64(len(t.GetRecords()))
	m.bytes += size
	m.sameBytes += compared
	if bytes.Compare(end, s.until) < 0 {
		s.reach = max(s.reach/2, m.pageBytes/16) // the page was full before it came to what was told of
	} else {
		s.reach = min(2*s.reach, m.pageBytes)
	}
	s.after, s.done, s.remaining = bytes.Clone(end), t.GetLast(), t.GetRemaining()
	s.passed += size + compared
	s.asked, s.vain = false, 0
	m.saveTransfer()
	switch {
	case m.state == voting && m.missing() > 0:
		m.fetch()
	case m.state == transferring:
		m.askPages(m.config.Nearest)
		m.arrived()
	}
}

// unnamed reports whether a page does not say which process asked for it: members of versions that know no joint views
// don't. Such a page may be one that an earlier process of this disk asked for. For a lost disk that joins again it
// does as well: its source had adopted that disk (knowsMe).
func (m *Member) unnamed(msg *peerv1.Message) bool {
	return msg.Op == 0 && m.state == transferring && len(msg.GetTransfer().GetUntil()) == 0
}

// adopt merges records up to the first that no sound member has.
func (m *Member) adopt(records []*peerv1.Record) error {
	keys := make([][]byte, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	m.journal.Load(keys) // each is compared with the one here
	for _, r := range records {
		if !isOwn(r.Key) {
			if err := m.inner.Adopt(r.Key, r.Value); err != nil {
				return fmt.Errorf("record %.64q: %w", r.Key, err)
			}
		}
	}
	return nil
}

// refuse has the world tell people of what another member sent. One of a turn will do for each.
func (m *Member) refuse(from view.MemberID, why error) {
	for _, r := range m.effects.Refused {
		if r.From == from {
			return
		}
	}
	m.effects.Refused = append(m.effects.Refused, protocol.Refused{From: from, Why: why})
}
