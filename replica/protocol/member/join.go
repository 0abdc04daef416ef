package member

import (
	"bytes"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/view"
)

// pageBytes bounds the records of one page of a state transfer, give or take one record.
const pageBytes = 256 << 10

// source is a member that adopted this newcomer, and how much of its state is here.
type source struct {
	after    []byte // the storage key behind which the next page starts
	done     bool
	answered phase.Phase
}

// enough reports whether those who answered are as many others as must adopt a newcomer: enough to meet, outside the
// newcomer, every quorum that counted its lost disk. They are f + 1 when n = 2f + 1.
func (m *Member) enough(p *phase.Phase) bool {
	return p.Meets(m.roster, 0) || m.mistakes.TransferFromOne && p.Count(m.roster) > 0
}

// serve answers a newcomer. Only voters do: what another newcomer knows is incomplete.
func (m *Member) serve(from view.MemberID, msg *peerv1.Message) {
	switch msg.Kind {
	case peerv1.Kind_JOIN_QUERY:
		m.reply(from, &peerv1.Message{Kind: peerv1.Kind_JOIN_QUERY_REPLY, Op: msg.Op, Transfer: &peerv1.Transfer{
			Member: uint32(from), Incarnation: uint32(m.roster.Of(from)),
		}})
	case peerv1.Kind_ADOPT:
		// Receive learned the sender's incarnation; it counts once it is durable here.
		m.config.Took("member.adopt")
		m.save(true)
		m.reply(from, &peerv1.Message{Kind: peerv1.Kind_ADOPT_OK})
	case peerv1.Kind_TRANSFER:
		m.reply(from, &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Transfer: m.page(msg.GetTransfer().GetFrom())})
	}
}

// reply leaves once everything it tells of is durable.
func (m *Member) reply(to view.MemberID, msg *peerv1.Message) {
	m.effects.SendAfterPersist = append(m.effects.SendAfterPersist, protocol.Envelope{To: to, Message: msg})
}

func (m *Member) send(to []view.MemberID, kind peerv1.Kind) {
	for _, id := range to {
		m.effects.SendAfterPersist = append(m.effects.SendAfterPersist, protocol.Envelope{To: id, Message: &peerv1.Message{Kind: kind}})
	}
}

func (m *Member) page(from []byte) *peerv1.Transfer {
	t := &peerv1.Transfer{From: from, Last: true}
	size := 0
	m.journal.Scan(from, func(key, value []byte) bool {
		if size >= pageBytes {
			t.Last = false
			return false
		}
		if !bytes.Equal(key, recordKey) {
			t.Records = append(t.Records, &peerv1.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
			size += len(key) + len(value)
		}
		return true
	})
	return t
}

// query asks which incarnations of this member the others know.
func (m *Member) query(to []view.MemberID) {
	for _, id := range to {
		m.reply(id, &peerv1.Message{Kind: peerv1.Kind_JOIN_QUERY, Op: m.config.Nonce})
	}
}

func (m *Member) beginTransfer() {
	m.state = transferring
	m.ask.Restart()
	m.send(m.ask.Ask(&m.config, m.now, len(m.config.Nearest)), peerv1.Kind_ADOPT)
}

// join handles the answers to a newcomer that is not complete yet.
func (m *Member) join(from view.MemberID, msg *peerv1.Message) {
	switch {
	case msg.Kind == peerv1.Kind_JOIN_QUERY_REPLY && m.state == querying && msg.Op == m.config.Nonce:
		m.highest = max(m.highest, view.Incarnation(msg.GetTransfer().GetIncarnation()))
		m.ask.Answer(m.roster, from)
		if m.enough(&m.ask) {
			m.takeIncarnation()
		}
	case m.state != transferring || !m.knowsMe(msg): // of an earlier join
	case msg.Kind == peerv1.Kind_ADOPT_OK:
		if m.sources[from] == nil {
			m.ask.Answer(m.roster, from)
			m.sources[from] = &source{}
			m.fetch(from)
		}
	case msg.Kind == peerv1.Kind_TRANSFER_PAGE:
		m.take(from, msg.GetTransfer())
	}
}

// knowsMe reports whether the sender had adopted this very disk.
func (m *Member) knowsMe(msg *peerv1.Message) bool {
	known := view.Incarnation(1) // all are, while the vector is left out
	if i := m.config.View.Index(m.config.Self); i < len(msg.Known) {
		known = view.Incarnation(msg.Known[i])
	}
	return known == m.Incarnation()
}

// takeIncarnation chooses an incarnation above any that voted: two sets of adopters have a member in common.
func (m *Member) takeIncarnation() {
	if !m.mistakes.KeepIncarnation {
		m.roster.Learn(m.config.Self, max(m.highest, m.Incarnation())+1)
	}
	m.save(false)
	m.inner = m.factory(m.config, m.journal, m.roster)
	m.beginTransfer()
}

func (m *Member) fetch(from view.MemberID) {
	s := m.sources[from]
	s.answered.Restart()
	s.answered.Ask(&m.config, m.now, 1)
	m.reply(from, &peerv1.Message{Kind: peerv1.Kind_TRANSFER, Transfer: &peerv1.Transfer{From: s.after}})
}

func (m *Member) take(from view.MemberID, t *peerv1.Transfer) {
	s := m.sources[from]
	if s == nil || s.done || t == nil || !bytes.Equal(t.From, s.after) {
		return // a page that was asked for twice
	}
	for _, r := range t.Records {
		if !bytes.Equal(r.Key, recordKey) {
			m.inner.Adopt(r.Key, r.Value)
		}
	}
	if !t.Last && len(t.Records) > 0 {
		s.after = t.Records[len(t.Records)-1].Key
		m.fetch(from)
		return
	}
	s.done = true
	done := phase.Phase{}
	for _, id := range m.config.Nearest {
		if s := m.sources[id]; s != nil && s.done {
			done.Answer(m.roster, id)
		}
	}
	if m.enough(&done) {
		m.state = settling
		m.settle()
	}
}

// askAgain repeats what was not answered in time.
func (m *Member) askAgain() {
	again := m.ask.Again(&m.config, m.roster, m.now)
	if m.state == querying {
		m.query(again)
		return
	}
	m.send(again, peerv1.Kind_ADOPT)
	for _, id := range m.config.Nearest {
		s := m.sources[id]
		if s == nil || s.done {
			continue
		}
		if due := s.answered.Again(&m.config, m.roster, m.now); len(due) > 0 {
			m.fetch(id)
		}
	}
}
