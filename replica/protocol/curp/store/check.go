package store

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// Check reports a message that brings a record, or has an entry delete one, that is none of the replicated state: no
// sound member sends it.
func Check(c *peerv1.Curp) error {
	for _, e := range c.GetEntries() {
		err := checkRecords(e.GetRecords())
		for _, key := range e.GetDeleted() {
			if err == nil {
				err = checkKey(key)
			}
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	return checkRecords(c.GetRecords())
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
	switch {
	case len(key) > 0 && key[0] == registerRecord, // of a key of any length
		len(key) == 1+8 && key[0] == sessionRecord,
		len(key) == 1+8+8 && key[0] == doneRecord,
		len(key) == 1 && key[0] == horizonRecord:
		return nil
	}
	return fmt.Errorf("%.64q is the key of no record of the state", key)
}

// checkRecord reports a record that another member can't have in its state.
func checkRecord(key, raw []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	switch key[0] {
	case registerRecord:
		return decodeWithin(&peerv1.RegisterRecord{}, raw, bounds.Told)
	case sessionRecord:
		return decodeWithin(&peerv1.PartitionSession{}, raw, bounds.Told)
	case doneRecord:
		return decodeWithin(&peerv1.Answer{}, raw, bounds.Told)
	}
	return (&peerv1.SessionHorizon{}).UnmarshalVT(raw)
}
