package abd

import (
	"bytes"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/register"
)

// recordPrefix begins the journal keys of registers; the register's key follows.
const recordPrefix = 'r'

// recordKey is valid until the next call: the journal keeps only what is put.
func (p *Protocol) recordKey(key []byte) []byte {
	p.scratch = append(append(p.scratch[:0], recordPrefix), key...)
	return p.scratch
}

// read returns a key's register. A record that can't be decoded stops the member: going on with an absent
// value would take back what it has acknowledged.
func (p *Protocol) read(key []byte) register.Versioned {
	encoded, ok := p.journal.Get(p.recordKey(key))
	if !ok {
		return register.Versioned{}
	}
	v, err := decode(encoded)
	if err != nil {
		p.Fault("the stored register of key %q is damaged; replace this member's disk: %w", key, err)
	}
	return v
}

// apply stores a value and its tag if the tag is larger than the one that the register has.
func (p *Protocol) apply(key []byte, v register.Versioned) {
	if !p.read(key).Carstamp.Less(v.Carstamp) || p.Err() != nil {
		return
	}
	encoded, err := encode(v)
	if err != nil {
		p.Fault("encode the register of key %q: %w", key, err)
		return
	}
	record := p.keys.Make(1 + len(key))
	copy(record, p.recordKey(key))
	p.journal.Put(record, encoded)
}

// Adopt merges a record of another member's journal, during a state transfer. What came meanwhile under a larger tag
// stays.
func (p *Protocol) Adopt(key, value []byte) error {
	if len(key) == 0 || key[0] != recordPrefix {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	v, err := decode(value)
	if err != nil {
		return err
	}
	if p.mistakes.AdoptBlindly {
		p.journal.Put(bytes.Clone(key), bytes.Clone(value))
		return nil
	}
	p.apply(key[1:], v)
	return nil
}

func encode(v register.Versioned) ([]byte, error) {
	r := peerv1.RegisterRecord{
		Timestamp: v.Carstamp.Timestamp,
		Writer:    uint64(v.Carstamp.Writer),
		Rmws:      v.Carstamp.RMWs,
		Present:   v.Value.Present(),
		Value:     v.Value,
	}
	return r.MarshalVT()
}

func decode(encoded []byte) (register.Versioned, error) {
	var r peerv1.RegisterRecord
	if err := r.UnmarshalVTUnsafe(encoded); err != nil {
		return register.Versioned{}, fmt.Errorf("decode a register record: %w", err)
	}
	if err := bounds.Record(&r); err != nil {
		return register.Versioned{}, err
	}
	return register.Versioned{
		Carstamp: register.Carstamp{Timestamp: r.Timestamp, Writer: register.Writer(r.Writer), RMWs: r.Rmws},
		Value:    value(r.Present, r.Value),
	}, nil
}

// value restores the difference between absent and empty, which protobuf does not keep.
func value(present bool, content []byte) register.Value {
	if !present {
		return nil
	}
	if content == nil {
		return register.Value{}
	}
	return content
}

func tagOf(m *peerv1.Message) register.Carstamp {
	return register.Carstamp{Timestamp: m.Timestamp, Writer: register.Writer(m.Writer), RMWs: m.Rmws}
}

func valueOf(m *peerv1.Message) register.Value { return value(m.Present, m.Value) }

func setTag(m *peerv1.Message, c register.Carstamp) {
	m.Timestamp, m.Writer, m.Rmws = c.Timestamp, uint64(c.Writer), c.RMWs
}

func setValue(m *peerv1.Message, v register.Value) {
	m.Present, m.Value = v.Present(), v
}

// Settle implements member.Inner. A register leaves no work behind that only some disks may vote on.
func (p *Protocol) Settle(protocol.Instant) bool { return true }
