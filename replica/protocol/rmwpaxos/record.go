package rmwpaxos

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
)

// recordPrefix begins the journal keys of acceptors' states; the register's key follows.
const recordPrefix = 'p'

// state is what the members agree on, one after the other: the value of the paper. The table makes it exactly-once: it
// holds the last batch of each member and what is remembered of clients' sessions, agreed together with the value.
type state struct {
	carstamp register.Carstamp // the timestamp counts the updates of the key
	value    register.Value
	table    []byte // an encoded KeyState, or empty
}

// acceptor is the state of one (algorithm 3, line 34): r_ack, r_voted, val and req, which is in the state's table.
type acceptor struct {
	ack   round
	voted round
	// votedIn is the epoch of the vote; 0: the state was copied from another disk, and this member has not voted for it.
	votedIn uint64
	state
}

// durable reports whether what this member's acceptor holds of a key survives a crash now.
func (p *Protocol) durable(key []byte) bool {
	return p.Journal.Durable(p.Keys.Lookup(recordPrefix, key))
}

// load is the acceptor of a key. A record that can't be decoded stops the member: to go on as if it had promised
// nothing would break promises.
func (p *Protocol) load(key []byte) acceptor {
	encoded, ok := p.Journal.Get(p.Keys.Lookup(recordPrefix, key))
	if !ok {
		return acceptor{}
	}
	a, err := decode(encoded)
	if err != nil {
		p.Damaged(key, err)
	}
	return a
}

// save puts the acceptor of a key; what depends on it leaves when it is durable.
func (p *Protocol) save(key []byte, a acceptor) {
	if p.Err() != nil {
		return
	}
	encoded, err := encode(a)
	if err != nil {
		p.Fault("encode the register of key %q: %w", key, err)
		return
	}
	p.Journal.Put(p.Keys.Record(recordPrefix, key), encoded)
}

func encode(a acceptor) ([]byte, error) {
	r := peerv1.RMWPaxosRecord{
		Ack: a.ack.wire(), Voted: a.voted.wire(), VotedIn: a.votedIn, Present: a.value.Present(), Value: a.value,
		Timestamp: a.carstamp.Timestamp, Writer: uint64(a.carstamp.Writer), Table: a.table,
	}
	return r.MarshalVT()
}

// decode reads a record of this member's disk.
func decode(encoded []byte) (acceptor, error) {
	var r peerv1.RMWPaxosRecord
	if err := r.UnmarshalVTUnsafe(encoded); err != nil { // records never change, so a state may alias one
		return acceptor{}, fmt.Errorf("decode an acceptor's record: %w", err)
	}
	if err := bounds.Record(&r); err != nil {
		return acceptor{}, err
	}
	return acceptorOf(&r), nil
}

func acceptorOf(r *peerv1.RMWPaxosRecord) acceptor {
	return acceptor{
		ack: roundOf(r.Ack), voted: roundOf(r.Voted), votedIn: r.VotedIn,
		state: state{
			carstamp: register.Carstamp{Timestamp: r.Timestamp, Writer: register.Writer(r.Writer)},
			value:    stamp.Value(r.Present, r.Value), table: r.Table,
		},
	}
}

// Adopt implements member.Inner: it merges the acceptor of another member into this one's. Its promises are kept from
// now on. Its state is a proposal to be heeded, and no vote of this member: a minority may have voted for it, and with
// copies that count it would seem to be chosen (docs/protocols.md, RMWPaxos).
func (p *Protocol) Adopt(key, encoded []byte) error {
	if len(key) == 0 || key[0] != recordPrefix {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	r := &peerv1.RMWPaxosRecord{}
	if err := r.UnmarshalVTUnsafe(encoded); err != nil {
		return fmt.Errorf("decode an acceptor's record: %w", err)
	}
	if err := bounds.Told(r); err != nil {
		return err
	}
	theirs := acceptorOf(r)
	if err := bounds.Table(theirs.table); err != nil {
		return err
	}
	if p.mistakes.AdoptBlindly {
		p.save(key[1:], theirs)
		return nil
	}
	ours := p.load(key[1:])
	merged := ours
	merged.ack = ours.ack.join(theirs.ack)
	if theirs.voted.above(ours.voted) {
		merged.voted, merged.votedIn, merged.state = theirs.voted, 0, theirs.state
		if p.mistakes.CopyVotes {
			merged.votedIn = theirs.votedIn
		}
	}
	if merged.ack != ours.ack || merged.voted != ours.voted {
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
		value:    stamp.Value(m.Present, m.Value), table: m.GetRmwPaxos().GetTable(),
	}
}
