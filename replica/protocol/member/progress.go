package member

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// transferKey is where the journal holds the TransferRecord.
var transferKey = []byte{ownPrefix, 't'}

// Change implements protocol.Joiner.
func (m *Member) Change() protocol.Change {
	c := protocol.Change{
		Joint: m.joint, Transfers: m.transfers,
		Settled: m.settled.holds(m.journal), Fetched: m.fetched.holds(m.journal),
	}
	if m.state != voting || m.fetches() {
		c.Remaining = m.remaining()
	}
	if m.state != voting || c.Joint {
		c.Records, c.Bytes, c.SameBytes = m.records, m.bytes, m.sameBytes
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
	case m.missing() > 0:
		m.fetch()
	case m.isSettled(): // with what it heard of in the transfer
		m.config.Took("member.fetched")
		m.disks.Keep()
		m.fetched.make(m.journal)
	}
}

func (m *Member) isSettled() bool { return m.inner.Unsettled() == 0 || m.mistakes.SettledAtOnce }

// recallTransfer goes on with the transfer that an earlier process began in this epoch.
func (m *Member) recallTransfer() error {
	raw, ok := m.journal.Get(transferKey)
	if !ok {
		return nil
	}
	record := &peerv1.TransferRecord{}
	if err := bounds.Decode(raw, record, bounds.Record); err != nil {
		return fmt.Errorf("the record of the state transfer on disk is damaged: %w", err)
	}
	if record.Epoch != m.config.View.Epoch && !m.mistakes.KeepFetched {
		return nil
	}
	m.records, m.bytes, m.sameBytes = record.Records, record.Bytes, record.SameBytes
	for _, s := range record.Sources {
		id, incarnation := view.MemberID(s.Member), view.Incarnation(s.Incarnation)
		m.incarnations.Learn(id, incarnation) // the member's record need not know of that disk
		m.sources[id] = &source{incarnation: incarnation, after: s.After, done: s.Done, reach: m.pageBytes}
	}
	return nil
}

// saveTransfer writes how far the transfer is, in one batch with the records that came.
func (m *Member) saveTransfer() {
	record := &peerv1.TransferRecord{
		Epoch: m.config.View.Epoch, Records: m.records, Bytes: m.bytes, SameBytes: m.sameBytes,
	}
	for _, member := range m.config.View.Members {
		if s := m.sources[member.ID]; s != nil {
			record.Sources = append(record.Sources, &peerv1.TransferSource{
				Member: uint32(member.ID), Incarnation: uint32(s.incarnation), After: s.after, Done: s.done,
			})
		}
	}
	m.put(transferKey, record, "record of the state transfer")
}

// forgetTransfer ends what was fetched for: a join that is complete, or a joint view that is over.
func (m *Member) forgetTransfer() {
	if m.joint || m.mistakes.KeepFetched {
		return
	}
	clear(m.sources)
	if _, ok := m.journal.Get(transferKey); ok {
		m.journal.Delete(transferKey)
	}
}

// remaining estimates what is still to come. Nobody tells how much one has that was not asked yet: as much as the
// others, as far as they were heard since this process began.
func (m *Member) remaining() (bytes uint64) {
	whole := uint64(0)
	for _, s := range m.sources { // order is irrelevant: a maximum
		whole = max(whole, s.passed+s.remaining)
	}
	wanted := m.config.Nearest // a member that joins again asks all of those that adopted it
	if m.state == voting {
		wanted = m.candidates()
		wanted = wanted[:min(len(wanted), m.missing())]
	}
	for _, id := range wanted {
		switch s := m.known(id); {
		case s == nil && m.state != voting:
		case s != nil && (s.done || s.passed > 0):
			bytes += s.remaining
		default:
			bytes += whole
		}
	}
	return bytes
}
