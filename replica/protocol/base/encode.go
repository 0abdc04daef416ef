package base

import "fmt"

// Encode encodes a record of a key, or a part of a message, which is of no key. An error stops the member, and then
// nothing that it puts or sends lasts or leaves: the caller goes on.
func (b *Outbox) Encode(m interface{ MarshalVT() ([]byte, error) }, what string, key []byte) []byte {
	raw, err := m.MarshalVT()
	if err != nil {
		if key != nil {
			what = fmt.Sprintf("%s of %q", what, key)
		}
		b.Fault("encode %s: %w", what, err)
	}
	return raw
}
