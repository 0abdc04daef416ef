package base

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// acceptorRecord begins the journal keys of RMWPaxosRecords; the register's key follows.
const acceptorRecord = 'p'

// Ballot numbers an attempt to have a state accepted. Each protocol has an order of its own for them.
type Ballot struct {
	Number   uint64
	Proposer register.Writer // names its boot, so that no two processes have the same
	Attempt  uint64          // of the proposer, where a number does not tell its attempts apart
}

// Wire is the ballot in messages and records: nil for the zero one.
func (b Ballot) Wire() *peerv1.RMWPaxosRound {
	if b == (Ballot{}) {
		return nil
	}
	return &peerv1.RMWPaxosRound{N: b.Number, Proposer: uint64(b.Proposer), Attempt: b.Attempt}
}

// BallotOf is the ballot that a message or a record names; the zero one for nil.
func BallotOf(r *peerv1.RMWPaxosRound) Ballot {
	return Ballot{Number: r.GetN(), Proposer: register.Writer(r.GetProposer()), Attempt: r.GetAttempt()}
}

// State is what the members agree on for a key, again and again: its register, and the table by which a change that is
// in the state already is recognised. The timestamp of the carstamp counts the changes of the key.
type State struct {
	register.Versioned
	Table []byte // an encoded KeyState (package session), or empty
}

// Put sets what a message tells of the state.
func (s State) Put(m *peerv1.Message) {
	wire.Put(m, s.Versioned)
	m.RmwPaxos.Table = s.Table
}

// StateOf is the state that a message tells of.
func StateOf(m *peerv1.Message) State {
	return State{Versioned: wire.Of(m), Table: m.GetRmwPaxos().GetTable()}
}

// Acceptor is what a member has promised and accepted for a key.
type Acceptor struct {
	Promised Ballot
	Accepted Ballot // never above Promised
	// AcceptedIn is the epoch in which this disk accepted the state. 0: the state was copied from another disk, and this
	// member has not voted for it.
	AcceptedIn uint64
	State
}

// Acceptors are a member's acceptors for all keys, of protocols that agree on a key in place by the messages of
// RMWPaxos.
type Acceptors struct {
	*Base
	says slab.Of[peerv1.RMWPaxos]
}

// RecordsOf implements protocol.Keyed.
func (a *Acceptors) RecordsOf(register.Kind) string { return string(acceptorRecord) }

// RecordsFor implements protocol.Keyed.
func (a *Acceptors) RecordsFor(*peerv1.Message) string { return string(acceptorRecord) }

// Durable reports whether what this member's acceptor holds of a key survives a crash now.
func (a *Acceptors) Durable(key []byte) bool {
	return a.Journal.Durable(a.Keys.Lookup(acceptorRecord, key))
}

// Load is the acceptor of a key. A record that can't be decoded stops the member: to go on as if it had promised
// nothing would break promises.
func (a *Acceptors) Load(key []byte) Acceptor {
	encoded, ok := a.Journal.Get(a.Keys.Lookup(acceptorRecord, key))
	if !ok {
		return Acceptor{}
	}
	var r peerv1.RMWPaxosRecord
	err := r.UnmarshalVTUnsafe(encoded) // records never change, so a state may alias one
	if err == nil {
		err = bounds.Record(&r)
	}
	if err != nil {
		a.Damaged(key, err)
		return Acceptor{}
	}
	return acceptorOf(&r)
}

// Save puts the acceptor of a key into the journal; what depends on it leaves when it is durable.
func (a *Acceptors) Save(key []byte, acceptor Acceptor) {
	if a.Err() != nil {
		return
	}
	r := peerv1.RMWPaxosRecord{
		Voted: acceptor.Accepted.Wire(), VotedIn: acceptor.AcceptedIn,
		Present: acceptor.Value.Present(), Value: acceptor.Value,
		Timestamp: acceptor.Carstamp.Timestamp, Writer: uint64(acceptor.Carstamp.Writer), Table: acceptor.Table,
	}
	// A vote nearly always promises the next round of the same proposer.
	next := acceptor.Accepted
	if next.Number = acceptor.Promised.Number; next == acceptor.Promised && r.Voted != nil {
		r.AckAbove = next.Number - acceptor.Accepted.Number
	} else {
		r.Ack = acceptor.Promised.Wire()
	}
	encoded, err := r.MarshalVT()
	a.Put(a.Keys.Record(acceptorRecord, key), key, encoded, err)
}

// AdoptMerged implements member.Inner's Adopt with what a protocol makes of this member's acceptor and that of another
// one. It is saved if that has changed a ballot.
func (a *Acceptors) AdoptMerged(key, encoded []byte, merge func(ours, theirs Acceptor) Acceptor) error {
	if len(key) == 0 || key[0] != acceptorRecord {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	var r peerv1.RMWPaxosRecord
	if err := r.UnmarshalVTUnsafe(encoded); err != nil {
		return fmt.Errorf("decode an acceptor's record: %w", err)
	}
	if err := bounds.Told(&r); err != nil {
		return err
	}
	if err := bounds.Table(r.Table); err != nil {
		return err
	}
	ours, theirs := a.Load(key[1:]), acceptorOf(&r)
	if merged := merge(ours, theirs); merged.Promised != ours.Promised || merged.Accepted != ours.Accepted {
		a.Save(key[1:], merged)
	}
	return nil
}

// PromisedIn is the ballot that an acceptor's record has promised.
func PromisedIn(r *peerv1.RMWPaxosRecord) Ballot {
	if r.Ack != nil {
		return BallotOf(r.Ack)
	}
	promised := BallotOf(r.Voted)
	promised.Number += r.AckAbove
	return promised
}

func acceptorOf(r *peerv1.RMWPaxosRecord) Acceptor {
	return Acceptor{
		Promised: PromisedIn(r), Accepted: BallotOf(r.Voted), AcceptedIn: r.VotedIn,
		State: State{
			Versioned: register.Versioned{Carstamp: wire.Carstamp(r.Timestamp, r.Writer, 0), Value: register.ValueOf(r.Present, r.Value)},
			Table:     r.Table,
		},
	}
}

// Say begins a message, which never changes once it is sent.
func (a *Acceptors) Say(kind peerv1.Kind, op uint64, key []byte) *peerv1.Message {
	m := a.Message(kind, op, key)
	m.RmwPaxos = a.says.New()
	return m
}

// About begins the answer to a question with what an acceptor has promised and accepted. The state is left out if the
// asker has that of the same ballot.
func (a *Acceptors) About(kind peerv1.Kind, question *peerv1.Message, acceptor Acceptor) *peerv1.Message {
	m := a.Say(kind, question.Op, question.Key)
	m.RmwPaxos.Round, m.RmwPaxos.Voted = acceptor.Promised.Wire(), acceptor.Accepted.Wire()
	m.RmwPaxos.VotedIn = acceptor.AcceptedIn
	if m.Same = acceptor.Accepted == BallotOf(question.RmwPaxos.Voted); !m.Same {
		acceptor.State.Put(m)
	}
	return m
}

// Said is what an acceptor says of itself in such an answer, to a question of which this member's acceptor was had. It
// reports false if no sound member says so to that question: that it has the state of another ballot than had.
func Said(m *peerv1.Message, had Acceptor) (Acceptor, bool) {
	says := m.RmwPaxos
	a := Acceptor{
		Promised: BallotOf(says.Round), Accepted: BallotOf(says.Voted), AcceptedIn: says.VotedIn, State: StateOf(m),
	}
	if m.Same {
		a.State = had.State
	}
	return a, !m.Same || a.Accepted == had.Accepted
}

// Answer answers a question without a state: VOTED, or NACK with the ballot that the acceptor has promised instead.
func (a *Acceptors) Answer(to view.MemberID, question *peerv1.Message, acceptor Acceptor, voted bool) {
	m := a.Say(peerv1.Kind_PAXOS_VOTED, question.Op, question.Key)
	m.RmwPaxos.Round = question.RmwPaxos.Round
	if !voted {
		m.Kind, m.RmwPaxos.Round = peerv1.Kind_PAXOS_NACK, acceptor.Promised.Wire()
	}
	a.Reply(to, m)
}

// Reply sends an answer once what this member's acceptor holds of the key is durable.
func (a *Acceptors) Reply(to view.MemberID, m *peerv1.Message) {
	a.Base.Reply(a.Durable(m.Key), to, m)
}
