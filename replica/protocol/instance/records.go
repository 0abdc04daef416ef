package instance

import (
	"encoding/binary"
	"errors"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// The journal's keys: 's' + key holds a KeyState, and 'i' + writer + number + key the message that would tell another
// member of the instance.
const (
	stateRecord    = 's'
	instanceRecord = 'i'
)

// StateKind is what protocol.Keyed says of who reads the state of a key.
const StateKind = string(stateRecord)

func (p *store) instanceKey(key []byte, id instanceID) []byte {
	b := append(p.Keys.Make(1 + 8 + 8 + len(key))[:0], instanceRecord)
	b = binary.BigEndian.AppendUint64(b, uint64(id.writer))
	return append(binary.BigEndian.AppendUint64(b, id.number), key...)
}

// loadState returns the state of a key, and the size of its record.
func (p *store) loadState(key []byte) (*peerv1.KeyState, int) {
	state := &peerv1.KeyState{}
	raw, ok := p.Journal.Get(p.Keys.Lookup(stateRecord, key))
	if ok {
		if err := bounds.Decode(raw, state, bounds.Record); err != nil {
			p.Fault("the state of %q on disk is damaged: %w", key, err)
		}
	}
	return state, len(raw)
}

func (p *store) saveState(o *object) {
	raw := p.Encode(o.state, "the state", o.key)
	o.size = len(raw)
	p.Journal.Put(p.Keys.Record(stateRecord, o.key), raw)
}

func (p *store) saveInstance(i *instance) {
	record := p.about(i, peerv1.Kind_KIND_UNSPECIFIED)
	record.Epoch = i.since
	p.Journal.Put(p.instanceKey(i.object.key, i.id), p.Encode(record, "an instance", i.object.key))
	i.stored = true
}

// awaits reports whether the process began with an instance of the key that it has not executed yet. The one before may
// have executed it, and said so, and forgotten that.
func (p *store) awaits(key []byte) bool {
	if p.restored == 0 {
		return false
	}
	o := p.objects[string(key)]
	return o != nil && slices.ContainsFunc(o.instances, func(i *instance) bool { return i.restored })
}

// instanceOf reads an instance's record, within bounds.
func instanceOf(raw []byte, check func(any) error) (*peerv1.Message, error) {
	m := &peerv1.Message{}
	if err := bounds.Decode(raw, m, check); err != nil {
		return nil, err
	}
	if m.Instance.GetId().GetNumber() == 0 {
		return nil, errors.New("the record names no instance")
	}
	return m, nil
}

// loadInstances finds what was in progress when the process ended.
func (p *store) loadInstances() {
	for _, raw := range p.Journal.Kind([]byte{instanceRecord}) {
		m, err := instanceOf(raw, bounds.Record)
		if err != nil {
			p.Fault("an instance on disk is damaged: %w", err)
			return
		}
		i := p.instance(p.object(m.Key), idOf(m.Instance.GetId()))
		i.adopt(m)
		i.status, i.ballot, i.accepted = m.Instance.Status, m.Instance.Ballot, m.Instance.AcceptedBallot
		i.since, i.stored, i.restored = m.Epoch, true, true
		p.restored++
		// Votes of an instance are all of the epoch in which it was pre-accepted. Once a change has settled what was
		// committed by them, they say nothing of other members' agreement (docs/protocols.md, changes of the view).
		i.agreed = m.Instance.Agreed && i.since >= p.Config.View.Since
	}
}
