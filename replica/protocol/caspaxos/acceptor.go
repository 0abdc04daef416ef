package caspaxos

import (
	"cmp"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// ballot orders proposals: by its number, then by the process that proposes, which is never the same twice. The zero
// ballot is below all.
type ballot struct {
	number   uint64
	proposer register.Writer
}

func (b ballot) above(c ballot) bool {
	return cmp.Or(cmp.Compare(b.number, c.number), cmp.Compare(b.proposer, c.proposer)) > 0
}

func (b ballot) wire() *peerv1.RMWPaxosRound {
	if b == (ballot{}) {
		return nil
	}
	return &peerv1.RMWPaxosRound{N: b.number, Proposer: uint64(b.proposer)}
}

func ballotOf(r *peerv1.RMWPaxosRound) ballot {
	return ballot{r.GetN(), register.Writer(r.GetProposer())}
}

// state is the value of a key, with the table that tells which changes are in it (change.go).
type state struct {
	carstamp register.Carstamp // the timestamp counts the changes of the key
	value    register.Value
	table    []byte // an encoded KeyState, or empty
}

// acceptor is what a member keeps of a key.
type acceptor struct {
	promised ballot // nothing below is promised or accepted any more
	accepted ballot // never above promised
	// acceptedIn is the epoch in which this disk accepted the state; 0: the state was copied from another disk.
	acceptedIn uint64
	state
}

// promise promises a ballot unless a higher one is promised, and reports whether it has: a message may come twice.
func (p *Protocol) promise(key []byte, b ballot) (acceptor, bool) {
	a := p.load(key)
	if b.above(a.promised) {
		a.promised = b
		p.save(key, a)
	}
	return a, a.promised == b
}

// accept accepts a state unless a higher ballot is promised, and reports whether this member has accepted it.
func (p *Protocol) accept(key []byte, b ballot, s state) (acceptor, bool) {
	a := p.load(key)
	switch epoch := p.Config.View.Epoch; {
	case a.accepted == b && a.acceptedIn == epoch:
	case a.promised.above(b):
		return a, false
	default:
		a = acceptor{promised: b, accepted: b, acceptedIn: epoch, state: s}
		p.save(key, a)
	}
	return a, true
}

// onRead tells the state, and promises nothing.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	p.tell(from, m, peerv1.Kind_PAXOS_STATE, p.load(m.Key))
}

func (p *Protocol) onPrepare(from view.MemberID, m *peerv1.Message) {
	a, promised := p.promise(m.Key, ballotOf(m.RmwPaxos.Round))
	if !promised {
		p.refuse(from, m, a)
		return
	}
	p.tell(from, m, peerv1.Kind_PAXOS_ACK, a)
}

func (p *Protocol) onVote(from view.MemberID, m *peerv1.Message) {
	b := ballotOf(m.RmwPaxos.Round)
	a, accepted := p.accept(m.Key, b, stateOf(m))
	if !accepted {
		p.refuse(from, m, a)
		return
	}
	reply := p.message(peerv1.Kind_PAXOS_VOTED, m.Op, m.Key)
	reply.RmwPaxos.Round = b.wire()
	p.reply(from, reply)
}

// tell answers with the acceptor's state, without its value if the asker has accepted the same.
func (p *Protocol) tell(to view.MemberID, question *peerv1.Message, kind peerv1.Kind, a acceptor) {
	m := p.message(kind, question.Op, question.Key)
	m.RmwPaxos.Round, m.RmwPaxos.Voted, m.RmwPaxos.VotedIn = a.promised.wire(), a.accepted.wire(), a.acceptedIn
	if m.Same = a.accepted == ballotOf(question.RmwPaxos.Voted); !m.Same {
		setState(m, a.state)
	}
	p.reply(to, m)
}

// refuse names the ballot that is promised.
func (p *Protocol) refuse(to view.MemberID, question *peerv1.Message, a acceptor) {
	m := p.message(peerv1.Kind_PAXOS_NACK, question.Op, question.Key)
	m.RmwPaxos.Round = a.promised.wire()
	p.reply(to, m)
}

// reply leaves once what this member's acceptor keeps of the key is durable.
func (p *Protocol) reply(to view.MemberID, m *peerv1.Message) {
	durable := p.durable(m.Key) || p.mistakes.AckBeforePersist
	if !durable {
		p.Took(pathReplyWaits)
	}
	p.SendWhen(durable, to, m)
}

// recordPrefix begins the journal keys of acceptors; the register's key follows.
const recordPrefix = 'p'

// durable reports whether what this member's acceptor keeps of a key survives a crash now.
func (p *Protocol) durable(key []byte) bool {
	return p.Journal.Durable(p.Keys.Lookup(recordPrefix, key))
}

// load is the acceptor of a key. A record that can't be decoded stops the member: it would break its promises.
func (p *Protocol) load(key []byte) acceptor {
	encoded, ok := p.Journal.Get(p.Keys.Lookup(recordPrefix, key))
	if !ok {
		return acceptor{}
	}
	r := &peerv1.RMWPaxosRecord{}
	err := r.UnmarshalVTUnsafe(encoded) // records never change, so a state may alias one
	if err == nil {
		err = bounds.Record(r)
	}
	if err != nil {
		p.Damaged(key, err)
		return acceptor{}
	}
	return acceptorOf(r)
}

func (p *Protocol) save(key []byte, a acceptor) {
	r := peerv1.RMWPaxosRecord{
		Ack: a.promised.wire(), Voted: a.accepted.wire(), VotedIn: a.acceptedIn, Present: a.value.Present(), Value: a.value,
		Timestamp: a.carstamp.Timestamp, Writer: uint64(a.carstamp.Writer), Table: a.table,
	}
	encoded, err := r.MarshalVT()
	if err != nil {
		p.Fault("encode the register of key %q: %w", key, err)
	}
	if p.Err() == nil {
		p.Journal.Put(p.Keys.Record(recordPrefix, key), encoded)
	}
}

func acceptorOf(r *peerv1.RMWPaxosRecord) acceptor {
	return acceptor{
		promised: ballotOf(r.Ack), accepted: ballotOf(r.Voted), acceptedIn: r.VotedIn,
		state: state{
			carstamp: register.Carstamp{Timestamp: r.Timestamp, Writer: register.Writer(r.Writer)},
			value:    stamp.Value(r.Present, r.Value), table: r.Table,
		},
	}
}

// Adopt implements member.Inner: it merges the acceptor of another member into this one's. What that has promised is
// promised here. Its state is one to build on, and nothing that this disk has accepted: a minority may have, and with
// copies that count, it would seem to be chosen.
func (p *Protocol) Adopt(key, encoded []byte) error {
	if len(key) == 0 || key[0] != recordPrefix {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	r := &peerv1.RMWPaxosRecord{}
	if err := r.UnmarshalVT(encoded); err != nil {
		return fmt.Errorf("decode an acceptor's record: %w", err)
	}
	if err := bounds.Told(r); err != nil {
		return err
	}
	if err := bounds.Table(r.Table); err != nil {
		return err
	}
	theirs, ours := acceptorOf(r), p.load(key[1:])
	merged := ours
	if theirs.accepted.above(ours.accepted) || p.mistakes.AdoptBlindly {
		merged = acceptor{promised: ours.promised, accepted: theirs.accepted, state: theirs.state}
	}
	for _, b := range []ballot{theirs.promised, merged.accepted} {
		if b.above(merged.promised) {
			merged.promised = b
		}
	}
	if merged.promised != ours.promised || merged.accepted != ours.accepted {
		p.save(key[1:], merged)
	}
	return nil
}

func setState(m *peerv1.Message, s state) {
	m.Timestamp, m.Writer = s.carstamp.Timestamp, uint64(s.carstamp.Writer)
	m.Present, m.Value = s.value.Present(), s.value
	m.RmwPaxos.Table = s.table
}

func stateOf(m *peerv1.Message) state {
	return state{
		carstamp: register.Carstamp{Timestamp: m.Timestamp, Writer: register.Writer(m.Writer)},
		value:    stamp.Value(m.Present, m.Value), table: m.RmwPaxos.Table,
	}
}
