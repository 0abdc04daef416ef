package grpc

import "encoding/binary"

// frames follows one direction of a connection of HTTP/2 (RFC 9113, section 4), in pieces of any length.
type frames struct {
	preface int     // how many bytes are to come before the first frame
	head    [9]byte // the header of the frame, as far as it came
	headed  int
	left    int // how much of the frame's payload is to come
}

// frame is the header of a frame.
type frame struct {
	found       bool // else a header ends later
	length      int
	kind, flags byte
	stream      uint32
}

// Kinds of frames and flags that tell where calls begin and end.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	flagEndStream     = 0x1
	flagPadded        = 0x8
	clientPreface     = 24 // bytes
	enhanceYourCalm   = 0xb
	largestFrameBytes = 16 << 10 // the server lets no one send larger ones
)

// next takes a header that ends in p or, if none ends there, some payload; and returns what of p comes after.
func (f *frames) next(p []byte) (begun frame, payload, rest []byte) {
	if f.preface > 0 {
		n := min(f.preface, len(p))
		f.preface -= n
		return frame{}, nil, p[n:]
	}
	if f.left > 0 {
		n := min(f.left, len(p))
		f.left -= n
		return frame{}, p[:n], p[n:]
	}
	n := copy(f.head[f.headed:], p)
	f.headed += n
	if f.headed < len(f.head) {
		return frame{}, nil, p[n:]
	}
	f.headed = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	return frame{found: true, length: f.left, kind: f.head[3], flags: f.head[4],
		stream: binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)}, nil, p[n:]
}

// between reports whether what follows is a frame.
func (f *frames) between() bool { return f.preface == 0 && f.headed == 0 && f.left == 0 }

// reset is a frame that ends a stream since the peer asks for too much; gRPC makes it RESOURCE_EXHAUSTED.
func reset(stream uint32) []byte {
	p := []byte{0, 0, 4, frameReset, 0}
	p = binary.BigEndian.AppendUint32(p, stream)
	return binary.BigEndian.AppendUint32(p, enhanceYourCalm)
}
