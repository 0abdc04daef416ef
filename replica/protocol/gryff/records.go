package gryff

import (
	"bytes"
	"encoding/binary"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// The journal's keys: 'r' + key holds a RegisterRecord, 's' + key a KeyState, and 'i' + writer + number + key
// the message that would tell another member of the instance.

const (
	registerRecord = 'r'
	stateRecord    = 's'
	instanceRecord = 'i'
)

// recordKey is for Put, whose journal keeps it.
func (p *Protocol) recordKey(kind byte, key []byte) []byte {
	b := p.keys.Make(1 + len(key))
	b[0] = kind
	copy(b[1:], key)
	return b
}

// lookup is recordKey for asking the journal, in memory that the next lookup uses again.
func (p *Protocol) lookup(kind byte, key []byte) []byte {
	p.scratch = append(append(p.scratch[:0], kind), key...)
	return p.scratch
}

func (p *Protocol) instanceKey(key []byte, id instanceID) []byte {
	b := append(p.keys.Make(1 + 8 + 8 + len(key))[:0], instanceRecord)
	b = binary.BigEndian.AppendUint64(b, uint64(id.writer))
	return append(binary.BigEndian.AppendUint64(b, id.number), key...)
}

// durable reports whether what this member holds of a register survives a crash now.
func (p *Protocol) durable(key []byte) bool { return p.journal.Durable(p.lookup(registerRecord, key)) }

// load is the register of a key; the zero Versioned if it was never written.
func (p *Protocol) load(key []byte) register.Versioned {
	raw, ok := p.journal.Get(p.lookup(registerRecord, key))
	if !ok {
		return register.Versioned{}
	}
	var record peerv1.RegisterRecord
	if err := record.UnmarshalVTUnsafe(raw); err != nil { // records never change, so the value may alias one
		p.fault("the register of %q on disk is damaged: %w", key, err)
		return register.Versioned{}
	}
	return fromRecord(&record)
}

// apply is APPLY of algorithm 2: the larger carstamp stays, with its value.
func (p *Protocol) apply(key []byte, v register.Versioned) {
	if !p.load(key).Carstamp.Less(v.Carstamp) {
		return
	}
	raw, err := toRecord(v).MarshalVT()
	if err != nil {
		p.fault("encode the register of %q: %w", key, err)
		return
	}
	p.journal.Put(p.recordKey(registerRecord, key), raw)
}

// loadState returns the rmw state of a key, and the size of its record.
func (p *Protocol) loadState(key []byte) (*peerv1.KeyState, int) {
	state := &peerv1.KeyState{}
	raw, ok := p.journal.Get(p.lookup(stateRecord, key))
	if ok {
		if err := state.UnmarshalVT(raw); err != nil {
			p.fault("the rmw state of %q on disk is damaged: %w", key, err)
		}
	}
	return state, len(raw)
}

func (p *Protocol) saveState(o *object) {
	raw, err := o.state.MarshalVT()
	if err != nil {
		p.fault("encode the rmw state of %q: %w", o.key, err)
		return
	}
	o.size = len(raw)
	p.journal.Put(p.recordKey(stateRecord, o.key), raw)
}

func (p *Protocol) saveInstance(i *instance) {
	record := p.about(i, peerv1.Kind_KIND_UNSPECIFIED)
	record.Epoch = i.born
	raw, err := record.MarshalVT()
	if err != nil {
		p.fault("encode an instance of %q: %w", i.object.key, err)
		return
	}
	p.journal.Put(p.instanceKey(i.object.key, i.id), raw)
	i.stored = true
}

// loadInstances finds what was in progress when the process ended.
func (p *Protocol) loadInstances() {
	p.journal.Scan([]byte{instanceRecord}, func(key, raw []byte) bool {
		if key[0] != instanceRecord {
			return false
		}
		m := &peerv1.Message{}
		if err := m.UnmarshalVT(raw); err != nil {
			p.fault("an instance on disk is damaged: %w", err)
			return false
		}
		i := p.object(m.Key).instance(p, idOf(m.Instance.GetId()))
		i.adopt(m)
		i.status, i.ballot, i.accepted = m.Instance.Status, m.Instance.Ballot, m.Instance.AcceptedBallot
		i.born, i.stored = m.Epoch, true
		// Votes of an instance are all of the epoch in which it was pre-accepted. Once a change has settled what was
		// committed by them, they say nothing of other members' agreement (docs/protocols.md, changes of the view).
		i.unchanged = m.Instance.Unchanged && (i.born >= p.config.View.Since || p.mistakes.KeepUnchanged)
		return true
	})
}

// Adopt implements member.Inner: it merges a record of another member, with drives and votes in progress.
func (p *Protocol) Adopt(key, value []byte) {
	if len(key) == 0 {
		return
	}
	switch key[0] {
	case registerRecord:
		var record peerv1.RegisterRecord
		if err := record.UnmarshalVT(value); err != nil {
			p.fault("a transferred register is damaged: %w", err)
			return
		}
		if p.mistakes.AdoptBlindly {
			p.journal.Put(bytes.Clone(key), bytes.Clone(value))
			return
		}
		p.apply(key[1:], fromRecord(&record))
	case stateRecord:
		state := &peerv1.KeyState{}
		if err := state.UnmarshalVT(value); err != nil {
			p.fault("a transferred rmw state is damaged: %w", err)
			return
		}
		o := p.object(key[1:])
		p.install(o, state)
		p.release(o)
	case instanceRecord:
		m := &peerv1.Message{}
		if err := m.UnmarshalVT(value); err != nil || m.Instance.GetId() == nil {
			p.fault("a transferred instance is damaged: %w", err)
			return
		}
		p.hear(m)
	}
}

// hear notes an instance that another member has not executed. A newcomer's lost disk may have voted on it: this disk
// votes on nothing before it is settled. In a joint view, those before the change may have committed it, and it has to be
// executed here before the change is finished.
func (p *Protocol) hear(m *peerv1.Message) {
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
		p.bePatient(i)
	}
	if news {
		p.saveInstance(i)
	}
}

func (p *Protocol) fault(format string, args ...any) {
	if p.effects.fault == nil {
		p.effects.fault = fmt.Errorf("gryff: "+format, args...)
	}
}

func toRecord(v register.Versioned) *peerv1.RegisterRecord {
	return &peerv1.RegisterRecord{
		Timestamp: v.Carstamp.Timestamp, Writer: uint64(v.Carstamp.Writer), Rmws: v.Carstamp.RMWs,
		Present: v.Value.Present(), Value: v.Value,
	}
}

func fromRecord(r *peerv1.RegisterRecord) register.Versioned {
	return register.Versioned{Carstamp: carstamp(r.GetTimestamp(), r.GetWriter(), r.GetRmws()), Value: value(r.GetPresent(), r.GetValue())}
}

func stamp(m *peerv1.Message, v register.Versioned) {
	m.Timestamp, m.Writer, m.Rmws = v.Carstamp.Timestamp, uint64(v.Carstamp.Writer), v.Carstamp.RMWs
	m.Present, m.Value = v.Value.Present(), v.Value
}

func versioned(m *peerv1.Message) register.Versioned {
	return register.Versioned{Carstamp: carstamp(m.Timestamp, m.Writer, m.Rmws), Value: value(m.Present, m.Value)}
}

func carstamp(timestamp, writer, rmws uint64) register.Carstamp {
	return register.Carstamp{Timestamp: timestamp, Writer: register.Writer(writer), RMWs: rmws}
}

func value(present bool, b []byte) register.Value {
	switch {
	case !present:
		return nil
	case b == nil:
		return register.Value{}
	}
	return b
}
