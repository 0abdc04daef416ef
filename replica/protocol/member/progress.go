package member

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// Change implements protocol.Joiner.
func (m *Member) Change() protocol.Change {
	c := protocol.Change{
		Joint: m.joint, Transfers: m.transfers,
		Settled: m.settled.holds(m.journal), Fetched: m.fetched.holds(m.journal),
	}
	switch {
	case m.state != voting:
		c.Remaining = m.transfer.remaining(m.config.Nearest, true)
	case m.fetches():
		wanted := m.transfer.candidates()
		c.Remaining = m.transfer.remaining(wanted[:min(len(wanted), m.transfer.missing())], false)
	}
	if m.state != voting || c.Joint {
		c.Records, c.Bytes, c.SameBytes = m.transfer.records, m.transfer.bytesSent, m.transfer.bytesSame
	}
	return c
}

// Unfinished implements protocol.Machine.
func (m *Member) Unfinished() []protocol.Request {
	switch m.state {
	case voting:
		return m.inner.Unfinished()
	case asking:
		return m.doubt.requests
	}
	return nil
}

// claim is something that became true here and stays so. It may be told when what it rests on is durable.
type claim struct {
	made bool
	mark uint64 // of the journal
}

func (c *claim) make(j *protocol.Journal) { *c = claim{true, j.Mark()} }

func (c *claim) holds(j *protocol.Journal) bool { return c.made && j.Survives(c.mark) }

// participate does a voting member's part in a joint view; it is called now and then.
func (m *Member) participate() {
	if !m.joint {
		return
	}
	if !m.settled.made && m.isSettled() {
		m.config.Took("member.settled")
		m.settled.make(m.journal)
	}
	if !m.fetches() {
		return
	}
	switch {
	case m.transfer.missing() > 0:
		m.fetch()
	case m.isSettled(): // with what it heard of in the transfer
		m.config.Took("member.fetched")
		m.disks.Keep()
		m.save(true) // which disks the others have had: who adopted them may leave
		m.fetched.make(m.journal)
	}
}

func (m *Member) isSettled() bool { return m.inner.Unsettled() == 0 }

// fetches reports whether this member, in a joint view, has yet to fetch the state of those before the change.
func (m *Member) fetches() bool { return m.transfers && m.state == voting && !m.fetched.made }

// fetch goes on with as many sources as are missing. A source answers only while it votes in this epoch itself; one
// that does not is left for the next, and tried again later.
func (m *Member) fetch() {
	for _, id := range m.config.Nearest {
		if s := m.transfer.known(id); s != nil && s.asked && m.now >= s.due && s.vain+1 >= patience {
			m.config.Took("member.source-left")
			s.asked, s.vain = false, 0
			s.left++
		}
	}
	ids := m.transfer.candidates()
	ids = ids[:min(len(ids), m.transfer.missing())]
	for _, id := range ids {
		m.transfer.source(id)
	}
	m.transfer.askPages(m.now, ids)
}

// take goes on with a page of another member's state.
func (m *Member) take(from view.MemberID, msg *peerv1.Message) {
	if !m.transfer.take(m.now, from, msg, m.inner, m.unnamed(msg)) {
		return
	}
	switch {
	case m.state == voting && m.transfer.missing() > 0:
		m.fetch()
	case m.state == transferring:
		m.transfer.askPages(m.now, m.config.Nearest)
		m.arrived()
	}
}

// unnamed reports whether a page does not say which process asked for it: members of versions that know no joint views
// don't. Such a page may be one that an earlier process of this disk asked for. For a lost disk that joins again it
// does as well: its source had adopted that disk (knowsMe).
func (m *Member) unnamed(msg *peerv1.Message) bool {
	return msg.Op == 0 && m.state == transferring && len(msg.GetTransfer().GetUntil()) == 0
}

// forgetTransfer ends what was fetched for: a join that is complete, or a joint view that is over.
func (m *Member) forgetTransfer() {
	if !m.joint {
		m.transfer.forget()
	}
}
