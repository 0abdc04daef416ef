package gryff

import (
	"bytes"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
)

// The journal's keys: 'r' + key holds a RegisterRecord. The others are those of package instance.
const registerRecord = 'r'

// durable reports whether what this member holds of a register survives a crash now.
func (p *Protocol) durable(key []byte) bool {
	return p.journal.Durable(p.keys.Lookup(registerRecord, key))
}

// load is the register of a key; the zero Versioned if it was never written.
func (p *Protocol) load(key []byte) register.Versioned {
	raw, ok := p.journal.Get(p.keys.Lookup(registerRecord, key))
	if !ok {
		return register.Versioned{}
	}
	var record peerv1.RegisterRecord
	if err := record.UnmarshalVTUnsafe(raw); err != nil { // records never change, so the value may alias one
		p.Fault("the register of %q on disk is damaged: %w", key, err)
		return register.Versioned{}
	}
	if err := bounds.Record(&record); err != nil {
		p.Fault("the register of %q on disk is damaged: %w", key, err)
		return register.Versioned{}
	}
	return stamp.OfRecord(&record)
}

// apply is APPLY of algorithm 2: the larger carstamp stays, with its value.
func (p *Protocol) apply(key []byte, v register.Versioned) {
	if !p.load(key).Carstamp.Less(v.Carstamp) {
		return
	}
	raw, err := stamp.Record(v).MarshalVT()
	if err != nil {
		p.Fault("encode the register of %q: %w", key, err)
		return
	}
	p.journal.Put(p.keys.Record(registerRecord, key), raw)
}

// Adopt implements member.Inner: it merges a record of another member.
func (p *Protocol) Adopt(key, value []byte) error {
	switch {
	case len(key) > 0 && key[0] == registerRecord:
		var record peerv1.RegisterRecord
		if err := record.UnmarshalVT(value); err != nil {
			return err
		}
		if err := bounds.Told(&record); err != nil {
			return err
		}
		if p.mistakes.AdoptBlindly {
			p.journal.Put(bytes.Clone(key), bytes.Clone(value))
			return nil
		}
		p.apply(key[1:], stamp.OfRecord(&record))
	default:
		return p.rmws.Adopt(key, value)
	}
	return nil
}
