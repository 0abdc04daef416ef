package curp

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// check reports a message that no sound member or witness sends: it has a number above its bound, or brings a record
// that is none of the replicated state.
func (p *Protocol) check(m *peerv1.Message) error {
	if err := bounds.Message(m); err != nil {
		return err
	}
	for _, e := range m.GetCurp().GetEntries() {
		if err := checkRecords(e.GetRecords()); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
		for _, key := range e.GetDeleted() {
			if err := checkKey(key); err != nil {
				return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
			}
		}
	}
	return checkRecords(m.GetCurp().GetRecords())
}

func checkRecords(all []*peerv1.Record) error {
	for _, r := range all {
		if err := checkRecord(r.GetKey(), r.GetValue()); err != nil {
			return fmt.Errorf("record %.64q: %w", r.GetKey(), err)
		}
	}
	return nil
}

// checkKey reports a key that no record of the state has.
func checkKey(key []byte) error {
	whole := false
	if len(key) > 0 {
		switch key[0] {
		case registerRecord:
			whole = true
		case sessionRecord:
			whole = len(key) == 1+8
		case doneRecord:
			whole = len(key) == 1+8+8
		case horizonRecord:
			whole = len(key) == 1
		}
	}
	if !whole {
		return fmt.Errorf("%.64q is the key of no record of the state", key)
	}
	return nil
}

// checkRecord reports a record that another member can't have in its state.
func checkRecord(key, raw []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	switch key[0] {
	case registerRecord:
		var r peerv1.RegisterRecord
		if err := r.UnmarshalVTUnsafe(raw); err != nil {
			return err
		}
		return bounds.Told(&r)
	case sessionRecord:
		return read(&peerv1.PartitionSession{}, raw, bounds.Told)
	case doneRecord:
		var a peerv1.Answer
		if err := a.UnmarshalVTUnsafe(raw); err != nil {
			return err
		}
		return bounds.Told(&a)
	}
	return (&peerv1.SessionHorizon{}).UnmarshalVT(raw)
}

// read decodes a record within bounds.
func read(r interface{ UnmarshalVT([]byte) error }, raw []byte, check func(any) error) error {
	if err := r.UnmarshalVT(raw); err != nil {
		return err
	}
	return check(r)
}
