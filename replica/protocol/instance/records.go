package instance

import (
	"encoding/binary"
	"errors"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// The journal's keys: 's' + key holds a KeyState, and 'i' + writer + number + key the message that would tell another
// member of the instance.
const (
	stateRecord    = 's'
	instanceRecord = 'i'
)

func (p *Core) instanceKey(key []byte, id instanceID) []byte {
	b := append(p.Keys.Make(1 + 8 + 8 + len(key))[:0], instanceRecord)
	b = binary.BigEndian.AppendUint64(b, uint64(id.writer))
	return append(binary.BigEndian.AppendUint64(b, id.number), key...)
}

// loadState returns the state of a key, and the size of its record.
func (p *Core) loadState(key []byte) (*peerv1.KeyState, int) {
	state := &peerv1.KeyState{}
	raw, ok := p.Journal.Get(p.Keys.Lookup(stateRecord, key))
	if ok {
		if err := state.UnmarshalVT(raw); err != nil {
			p.Fault("the state of %q on disk is damaged: %w", key, err)
		}
		if err := bounds.Record(state); err != nil {
			p.Fault("the state of %q on disk is damaged: %w", key, err)
		}
	}
	return state, len(raw)
}

func (p *Core) saveState(o *object) {
	raw, err := o.state.MarshalVT()
	if err != nil {
		p.Fault("encode the state of %q: %w", o.key, err)
		return
	}
	o.size = len(raw)
	p.Journal.Put(p.Keys.Record(stateRecord, o.key), raw)
}

func (p *Core) saveInstance(i *instance) {
	record := p.about(i, peerv1.Kind_KIND_UNSPECIFIED)
	record.Epoch = i.born
	raw, err := record.MarshalVT()
	if err != nil {
		p.Fault("encode an instance of %q: %w", i.object.key, err)
		return
	}
	p.Journal.Put(p.instanceKey(i.object.key, i.id), raw)
	i.stored = true
}

// instanceOf reads an instance's record, within bounds.
func instanceOf(raw []byte, check func(any) error) (*peerv1.Message, error) {
	m := &peerv1.Message{}
	if err := m.UnmarshalVT(raw); err != nil {
		return nil, err
	}
	if m.Instance.GetId().GetNumber() == 0 {
		return nil, errors.New("the record names no instance")
	}
	if err := check(m); err != nil {
		return nil, err
	}
	return m, nil
}

// loadInstances finds what was in progress when the process ended.
func (p *Core) loadInstances() {
	p.Journal.Scan([]byte{instanceRecord}, func(key, raw []byte) bool {
		if key[0] != instanceRecord {
			return false
		}
		m, err := instanceOf(raw, bounds.Record)
		if err != nil {
			p.Fault("an instance on disk is damaged: %w", err)
			return false
		}
		i := p.object(m.Key).instance(p, idOf(m.Instance.GetId()))
		i.adopt(m)
		i.status, i.ballot, i.accepted = m.Instance.Status, m.Instance.Ballot, m.Instance.AcceptedBallot
		i.born, i.stored = m.Epoch, true
		// Votes of an instance are all of the epoch in which it was pre-accepted. Once a change has settled what was
		// committed by them, they say nothing of other members' agreement (docs/protocols.md, changes of the view).
		i.fastVote = m.Instance.Agreed && (i.born >= p.Config.View.Since || p.mistakes.KeepAgreed)
		return true
	})
}

// errForeign is of a record that no member which runs the same protocol has.
var errForeign = errors.New("it is no record of this protocol; all members must run one protocol")

// Adopt merges a record of another member, with coordinations and votes in progress.
func (p *Core) Adopt(key, value []byte) error {
	if len(key) == 0 {
		return errForeign
	}
	switch key[0] {
	case stateRecord:
		state := &peerv1.KeyState{}
		if err := state.UnmarshalVT(value); err != nil {
			return err
		}
		if err := bounds.Told(state); err != nil {
			return err
		}
		o := p.object(key[1:])
		p.install(o, state)
		p.release(o)
	case instanceRecord:
		m, err := instanceOf(value, bounds.Told)
		if err != nil {
			return err
		}
		p.hear(m)
	default:
		return errForeign
	}
	return nil
}

// hear notes an instance that another member has not executed. A newcomer's lost disk may have voted on it: this disk
// votes on nothing before it is settled. In a joint view, those before the change may have committed it, and it has to
// be executed here before the change is finished.
func (p *Core) hear(m *peerv1.Message) {
	o := p.object(m.Key)
	defer p.release(o)
	id := idOf(m.Instance.GetId())
	if o.executed(id.writer) >= id.number {
		return
	}
	i := o.instance(p, id)
	news := m.Epoch < i.born
	i.born = min(i.born, m.Epoch)
	if m.Instance.Status == peerv1.Status_COMMITTED && i.status != peerv1.Status_COMMITTED {
		p.learnCommit(i, m)
		return
	}
	if i.status == peerv1.Status_NONE {
		i.status, news = peerv1.Status_HEARD, true
		p.scheduleRecovery(i)
	}
	if news {
		p.saveInstance(i)
	}
}
