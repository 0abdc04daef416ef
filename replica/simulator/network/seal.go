package network

import (
	"bytes"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// sealed is a message whose content went through its wire format, so that no node can reach into another's memory, and
// what that was when it was sent.
type sealed struct {
	Message
	network *Network
	origin  *peerv1.Message
	wire    []byte // nil: it goes as it is, and is not checked
}

func (n *Network) seal(m Message) *sealed {
	s := &sealed{Message: m, network: n, origin: m.Content}
	if !n.env.Sealed {
		return s
	}
	if last := &n.encoded; last.content != m.Content || last.at != n.Now { // most go to several members
		wire, err := m.Content.MarshalVT()
		if err != nil {
			n.Fail("encode a %s: %w", m.Content.Kind, err)
			return s
		}
		*last = encoded{m.Content, n.Now, wire}
	}
	s.wire, s.Content = n.encoded.wire, &peerv1.Message{}
	if err := s.Content.UnmarshalVT(s.wire); err != nil {
		n.Fail("decode a %s: %w", m.Content.Kind, err)
	}
	return s
}

// encoded is a message in its wire format, and when it was brought into that.
type encoded struct {
	content *peerv1.Message
	at      time.Duration
	wire    []byte
}

// unchanged reports whether the sender left a message as it was when it was sent.
func (s *sealed) unchanged() bool {
	if s.wire == nil {
		return true
	}
	size, n := s.origin.SizeVT(), s.network
	if size != len(s.wire) {
		return false
	}
	n.scratch = slices.Grow(n.scratch[:0], size)[:size]
	_, err := s.origin.MarshalToSizedBufferVT(n.scratch)
	return err == nil && bytes.Equal(n.scratch, s.wire)
}
