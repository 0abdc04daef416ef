package base

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// registerRecord begins the journal keys of RegisterRecords; the register's key follows.
const registerRecord = 'r'

// RegisterKind is what protocol.Keyed says of who reads a register's record.
const RegisterKind = string(registerRecord)

// Registers are a member's copies of registers: of each, the value of the largest carstamp that was applied.
type Registers struct {
	*Base
}

// Load returns a register; the zero Versioned if it was never written. A record that can't be decoded stops the member:
// going on with an absent value would take back what it has acknowledged.
func (r *Registers) Load(key []byte) register.Versioned {
	raw, ok := r.Journal.Get(r.Keys.Lookup(registerRecord, key))
	if !ok {
		return register.Versioned{}
	}
	var record peerv1.RegisterRecord
	if err := decodeRegister(raw, &record); err != nil {
		r.Damaged(key, err)
		return register.Versioned{}
	}
	return wire.OfRecord(&record)
}

// RecordsOf implements protocol.Keyed.
func (r *Registers) RecordsOf(register.Kind) string { return RegisterKind }

// RecordsFor implements protocol.Keyed.
func (r *Registers) RecordsFor(*peerv1.Message) string { return RegisterKind }

// Durable reports whether what this member holds of a register survives a crash now.
func (r *Registers) Durable(key []byte) bool {
	return r.Journal.Durable(r.Keys.Lookup(registerRecord, key))
}

// Apply stores a value and its carstamp if that is larger than the register's.
func (r *Registers) Apply(key []byte, v register.Versioned) {
	if !r.Load(key).Carstamp.Less(v.Carstamp) || r.Err() != nil {
		return
	}
	raw, err := wire.Record(v).MarshalVT()
	r.Put(r.Keys.Record(registerRecord, key), key, raw, err)
}

// Adopt implements member.Inner: what came meanwhile under a larger carstamp stays.
func (r *Registers) Adopt(key, value []byte) error {
	if !IsRegister(key) {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	var record peerv1.RegisterRecord
	if err := decodeRegister(value, &record); err != nil {
		return err
	}
	r.Apply(key[1:], wire.OfRecord(&record))
	return nil
}

// IsRegister reports whether a key of the journal is that of a register's record.
func IsRegister(key []byte) bool { return len(key) > 0 && key[0] == registerRecord }

// decodeRegister decodes a record, within bounds: they are the same for own records and others'. The value may alias
// the record, which never changes.
func decodeRegister(raw []byte, record *peerv1.RegisterRecord) error {
	if err := record.UnmarshalVTUnsafe(raw); err != nil {
		return fmt.Errorf("decode a register record: %w", err)
	}
	return bounds.Record(record)
}
