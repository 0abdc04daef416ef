package network

import (
	"bytes"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// sealed is a message that went through its wire format, so that no node can reach into another's memory, and what it
// was when it was sent.
type sealed struct {
	message *peerv1.Message
	origin  *peerv1.Message
	wire    []byte // nil: it goes as it is, and is not checked
}

func (n *Network) seal(m *peerv1.Message) sealed {
	if !n.env.Sealed {
		return sealed{message: m}
	}
	wire, err := m.MarshalVT()
	if err != nil {
		n.Fail("encode a %s: %w", m.Kind, err)
		return sealed{message: m}
	}
	decoded := &peerv1.Message{}
	if err := decoded.UnmarshalVT(wire); err != nil {
		n.Fail("decode a %s: %w", m.Kind, err)
	}
	return sealed{message: decoded, origin: m, wire: wire}
}

// unchanged reports whether the sender left a message as it was when it was sent.
func (n *Network) unchanged(s *sealed) bool {
	if s.wire == nil {
		return true
	}
	size := s.origin.SizeVT()
	if size != len(s.wire) {
		return false
	}
	n.scratch = slices.Grow(n.scratch[:0], size)[:size]
	_, err := s.origin.MarshalToSizedBufferVT(n.scratch)
	return err == nil && bytes.Equal(n.scratch, s.wire)
}
