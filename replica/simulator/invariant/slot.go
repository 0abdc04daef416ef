package invariant

import (
	"encoding/binary"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
)

// The record of an instance lies in a slot, which is used again once the state of its key has the instance. The rules
// are about instances: to them a record has the key of its instance, and is gone once that state has it.

// slotKey is the key of a slot.
func slotKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte{instances}, number) }

// isSlot reports whether a key is that of a slot.
func isSlot(key []byte) bool { return len(key) == len(slotKey(0)) && key[0] == instances }

// nameOf is the key of the instance of a slot's record; nil: the slot has none.
func nameOf(raw []byte) []byte {
	if len(raw) == 0 {
		return nil
	}
	id := field.Part(field.Part(raw, 14), 1)
	return instanceKey(field.Part(raw, 7), &peerv1.InstanceID{Writer: field.Number(id, 1), Number: field.Number(id, 2)})
}

// ByInstance is records with those of instances by their instances. The slots are numbered from 1 without gaps.
func ByInstance(has Records) Records {
	return func(key []byte) ([]byte, bool) {
		if len(key) < instanceHead || key[0] != instances {
			return has(key)
		}
		if executed(key, has) {
			return nil, false
		}
		for number := uint32(1); ; number++ {
			raw, ok := has(slotKey(number))
			if !ok || string(nameOf(raw)) == string(key) {
				return raw, ok
			}
		}
	}
}

// byInstance is a batch of a disk with records of instances by their instances: who uses a slot again deletes the one
// before.
func byInstance(disk Records, b protocol.Batch) protocol.Batch {
	named := protocol.Batch{Sequence: b.Sequence}
	for i, m := range b.Mutations {
		if !isSlot(m.Key) {
			named.Mutations = append(named.Mutations, m)
			continue
		}
		before, _ := after(disk, protocol.Batch{Mutations: b.Mutations[:i]})(m.Key)
		was, is := nameOf(before), nameOf(m.Value)
		if was != nil && string(was) != string(is) {
			named.Mutations = append(named.Mutations, protocol.Mutation{Key: was})
		}
		if is != nil {
			named.Mutations = append(named.Mutations, protocol.Mutation{Key: is, Value: m.Value})
		}
	}
	return named
}
