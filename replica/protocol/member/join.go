package member

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// enough reports whether those who answered are as many others as must adopt a newcomer: enough to meet, outside the
// newcomer, every quorum that counted its lost disk. They are f + 1 when n = 2f + 1.
func (m *Member) enough(p *quorum.Tally) bool { return p.Meets(m.incarnations, 0) }

// serve answers a newcomer, or one that fetches. Only voters do: what another newcomer knows is incomplete.
func (m *Member) serve(from view.MemberID, msg *peerv1.Message) {
	switch msg.Kind {
	case peerv1.Kind_JOIN_QUERY:
		m.effects.reply(from, &peerv1.Message{Kind: peerv1.Kind_JOIN_QUERY_REPLY, Op: msg.Op, Transfer: &peerv1.Transfer{
			Member: uint32(from), Incarnation: uint32(m.incarnations.Of(from)),
		}})
	case peerv1.Kind_ADOPT:
		// Receive learned the sender's incarnation; it counts once it is durable here.
		m.config.Took("member.adopt")
		m.save(true)
		m.effects.reply(from, &peerv1.Message{Kind: peerv1.Kind_ADOPT_OK, Positions: m.disks.Known()})
	case peerv1.Kind_TRANSFER:
		m.effects.reply(from, &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Op: msg.Op, Transfer: m.transfer.page(msg.GetTransfer()), Positions: m.disks.Known()})
	}
}

// send asks others what a newcomer needs: a question that tells which process it is of (op), or 0.
func (m *Member) send(to []view.MemberID, kind peerv1.Kind, op uint64) {
	for _, id := range to {
		m.effects.reply(id, &peerv1.Message{Kind: kind, Op: op})
	}
}

func (m *Member) beginTransfer() {
	m.state = transferring
	m.ask.Restart()
	m.send(m.ask.Ask(&m.config, m.now, len(m.config.Nearest)), peerv1.Kind_ADOPT, 0)
	m.arrived() // by an earlier process
}

// join handles the answers to a newcomer that is not complete yet.
func (m *Member) join(from view.MemberID, msg *peerv1.Message) {
	switch {
	case msg.Kind == peerv1.Kind_JOIN_QUERY_REPLY && m.state == querying && msg.Op == m.config.Nonce:
		m.highest = max(m.highest, view.Incarnation(msg.GetTransfer().GetIncarnation()))
		m.ask.Answer(m.incarnations, from)
		if m.enough(&m.ask) {
			m.takeIncarnation()
		}
	case m.state != transferring || !m.knowsMe(msg): // of an earlier join
	case msg.Kind == peerv1.Kind_ADOPT_OK:
		m.ask.Answer(m.incarnations, from)
		m.transfer.source(from)
		m.transfer.askPages(m.now, m.config.Nearest)
	case msg.Kind == peerv1.Kind_TRANSFER_PAGE:
		m.take(from, msg)
	}
}

// knowsMe reports whether the sender had adopted this very disk.
func (m *Member) knowsMe(msg *peerv1.Message) bool {
	return m.incarnations.KnownTo(msg.Known, m.config.Self)
}

// takeIncarnation chooses an incarnation above any that voted: two sets of adopters have a member in common.
func (m *Member) takeIncarnation() {
	m.incarnations.Learn(m.config.Self, max(m.highest, m.Incarnation())+1)
	m.save(false)
	m.inner = m.factory(m.config, m.journal, m.incarnations)
	m.beginTransfer()
}

// arrived ends the transfer once enough of those that adopted this newcomer have sent everything.
func (m *Member) arrived() {
	done := quorum.Tally{}
	for _, id := range m.config.Nearest {
		if s := m.transfer.known(id); s != nil && s.done {
			done.Answer(m.incarnations, id)
		}
	}
	if m.enough(&done) {
		m.state = settling
		m.settle()
	}
}

// askAgain repeats what was not answered in time.
func (m *Member) askAgain() {
	again := m.ask.Again(&m.config, m.incarnations, m.now)
	if m.state == querying {
		m.send(again, peerv1.Kind_JOIN_QUERY, m.config.Nonce)
		return
	}
	m.send(again, peerv1.Kind_ADOPT, 0)
	m.transfer.askPages(m.now, m.config.Nearest) // those that have adopted this disk
}
