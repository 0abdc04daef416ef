package raft

import (
	"errors"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// newcomer is how far a member whose disk was lost is in settling.
type newcomer struct {
	op   uint64
	due  protocol.Instant
	done bool
}

// Settle implements member.Inner. The newcomer holds the records of those that adopted it. It asks a leader that knows
// its disk for an index that is committed in the leader's term, and is done when it has the state after that, and the
// term: all that its lost disk has acknowledged, and all that it has voted for, is before that, as far as it counts.
func (p *Protocol) Settle(now protocol.Instant) bool {
	p.Now = now
	switch {
	case p.join.done:
		return true
	case p.fetch != nil:
		p.tickPull()
	case p.Now >= p.join.due:
		p.join.due = p.Now.Add(2 * p.Config.Retry)
		if p.join.op == 0 {
			p.join.op = p.Op() // asked again, it is the same question: its answer may take longer than this one waits
		}
		for _, m := range p.Config.View.Members {
			if m.ID != p.Config.Self {
				p.Send(m.ID, p.Message(peerv1.Kind_RAFT_SETTLE, p.join.op))
			}
		}
	}
	return false
}

// settleFrom fetches what the newcomer lacks from the leader that answered.
func (p *Protocol) settleFrom(from view.MemberID, m *peerv1.Message) {
	if p.ticked || p.fetch != nil || p.join.done || m.Op != p.join.op || m.Timestamp == 0 || !p.knowsMe(m) {
		return
	}
	basis := &peerv1.RaftApplied{}
	p.load(basisRecord, basis)
	p.fetch = p.pull(from, basis.Index, m.Timestamp, nil)
}

var errForeign = errors.New("it is no record of this protocol; all members must run one protocol")

// Adopt implements member.Inner. Of another member's journal, a newcomer takes the states of keys. It takes no entries
// of logs: pages are of different moments, between which a log's end may be replaced.
func (p *Protocol) Adopt(key, value []byte) error {
	if len(key) == 0 || !slices.Contains(recordKinds, key[0]) {
		return errForeign
	}
	switch kind := key[0]; {
	case kind == stateRecord:
		return p.merge(key[1:], value)
	case p.ticked:
	case kind == appliedRecord:
		theirs := &peerv1.RaftApplied{}
		if err := bounds.Decode(value, theirs, bounds.Told); err != nil {
			return err
		}
		// All sources that were read to the end have at least the state of the one that was behind.
		ours := &peerv1.RaftApplied{}
		if known := p.load(basisRecord, ours); !known || theirs.Index < ours.Index {
			p.Journal.Put([]byte{basisRecord}, slices.Clone(value))
		}
	}
	return nil
}

// Unsettled implements member.Inner: a member has finished with earlier views when it has applied an entry that was
// appended in this one. All that was committed in earlier ones is before that.
func (p *Protocol) Unsettled() int {
	if p.applied.Epoch < p.Config.View.Epoch {
		return 1
	}
	return 0
}
