package instance

import (
	"bytes"
	"errors"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// The journal's keys: 's' + key holds a KeyState, and 'i' + the number of a slot (4 bytes, big-endian) the message that
// would tell another member of an instance, whose state may have it already.
const (
	stateRecord    = 's'
	instanceRecord = 'i'
)

// StateKind is what protocol.Keyed says of who reads the state of a key.
const StateKind = string(stateRecord)

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
	if i.noted != nil && i.status == peerv1.Status_ACCEPTED {
		record.Instance.Noted = &peerv1.Noted{Deps: p.names(i.noted.deps), Seq: i.noted.seq}
	}
	raw := p.Encode(record, "an instance", i.object.key)
	if i.slot == nil {
		i.slot = p.slots.take()
	}
	i.size = len(raw)
	p.Journal.Put(i.slot, raw)
}

// leaveSlot gives back the slot of an instance that the state of its key has.
func (p *store) leaveSlot(i *instance) {
	switch {
	case slotNumber(i.slot) > keptSlots:
		p.Journal.Delete(i.slot)
	case i.size > keptBytes:
		p.Journal.Put(i.slot, nil)
	}
	p.slots.free = append(p.slots.free, i.slot)
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
	for key, raw := range p.Journal.Kind([]byte{instanceRecord}) {
		if len(key) != slotKeyBytes {
			p.Fault("the key %x on disk is none of an instance: it is damaged, or of an earlier version", key)
			return
		}
		p.slots.found(key)
		slot := bytes.Clone(key)
		if len(raw) == 0 {
			p.slots.free = append(p.slots.free, slot)
			continue
		}
		m, err := instanceOf(raw, bounds.Record)
		if err != nil {
			p.Fault("an instance on disk is damaged: %w", err)
			return
		}
		o, id := p.object(m.Key), idOf(m.Instance.GetId())
		if o.executed(id.writer) >= id.number {
			p.slots.free = append(p.slots.free, slot)
			p.letRest(o)
			continue
		}
		i := p.instance(o, id)
		i.adopt(m)
		i.status, i.ballot, i.accepted = m.Instance.Status, m.Instance.Ballot, m.Instance.AcceptedBallot
		i.since, i.slot, i.size, i.restored = m.Epoch, slot, len(raw), true
		if n := m.Instance.Noted; n != nil {
			i.noted = &vote{vectorOf(n.Deps), n.Seq}
		}
		p.restored++
		// Votes of an instance are all of the epoch in which it was pre-accepted. Once a change has settled what was
		// committed by them, they say nothing of other members' agreement (docs/protocols.md, changes of the view).
		i.agreed = m.Instance.Agreed && i.since >= p.Config.View.Since
	}
}
