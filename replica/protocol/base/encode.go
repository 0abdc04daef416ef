package base

// Encode encodes a record, or a part of a message. An error stops the member, and then nothing that it puts or sends
// lasts or leaves: the caller goes on.
func (b *Outbox) Encode(m interface{ MarshalVT() ([]byte, error) }, what string, args ...any) []byte {
	raw, err := m.MarshalVT()
	if err != nil {
		b.Fault("encode "+what+": %w", append(args, err)...)
	}
	return raw
}
