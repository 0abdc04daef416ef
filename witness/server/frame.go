package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/transport/codec"
)

const (
	// maxFrame bounds a frame that is received. Askers begin another one long before.
	maxFrame = 16 << 20
	// frameBytes is where an answering frame ends, well below what gRPC receives by default.
	frameBytes = 512 << 10
	// keepBytes and keepMessages bound what a frame may need for its memory to be used again.
	keepBytes, keepMessages = 1 << 20, 4096
)

// inbound is a frame as it is received. Its memory is used for the next one, since a witness keeps nothing of a
// question.
type inbound struct {
	from, stream uint32
	hello        *witnessv1.Hello
	messages     []*witnessv1.Message // some of all
	all          []*witnessv1.Message
	data         []byte
}

var inbounds = sync.Pool{New: func() any { return &inbound{} }}

func newInbound(from, stream uint32) *inbound {
	in := inbounds.Get().(*inbound)
	in.from, in.stream = from, stream
	return in
}

// release gives the memory back. Nobody may look at the messages any more.
func (in *inbound) release() {
	if cap(in.data) <= keepBytes && len(in.all) <= keepMessages {
		inbounds.Put(in)
	}
}

// outbound is the encoding of a frame's messages.
type outbound []byte

// frameCodec reads and writes the frames of streams itself, and leaves all else to the common codec.
type frameCodec struct{ codec.Codec }

// Marshal encodes v.
func (c frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(outbound)
	if !ok {
		return c.Codec.Marshal(v)
	}
	return mem.BufferSlice{mem.Copy(out, mem.DefaultBufferPool())}, nil
}

// Unmarshal decodes into v; of the data, nothing is kept.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return c.Codec.Unmarshal(data, v)
	}
	size := data.Len()
	in.data = slices.Grow(in.data[:0], size)[:size]
	data.CopyTo(in.data)
	if err := in.decode(); err != nil {
		return fmt.Errorf("witness: decode frame: %w", err)
	}
	return nil
}

// decode reads in.data.
func (in *inbound) decode() error {
	in.hello, in.messages = nil, in.all[:0]
	for data := in.data; len(data) > 0; {
		number, kind, size := protowire.ConsumeField(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		_, _, begin := protowire.ConsumeTag(data)
		value, _ := protowire.ConsumeBytes(data[begin:size])
		data = data[size:]
		if number <= 2 && kind != protowire.BytesType {
			return errors.New("a field has the wrong type")
		}
		var err error
		switch number {
		case 1:
			in.hello = &witnessv1.Hello{}
			err = in.hello.UnmarshalVT(value)
		case 2:
			err = in.next().UnmarshalVTUnsafe(value[:len(value):len(value)])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next is an empty message at the end of the frame's.
func (in *inbound) next() *witnessv1.Message {
	n := len(in.messages)
	if n == len(in.all) {
		in.all = append(in.all, &witnessv1.Message{})
	}
	in.messages = in.all[:n+1]
	in.messages[n].Reset()
	return in.messages[n]
}

// appendMessage appends a message as a field of a frame.
func appendMessage(b []byte, m *witnessv1.Message) ([]byte, error) {
	size := m.SizeVT()
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	begin := len(b)
	b = slices.Grow(b, size)[:begin+size]
	_, err := m.MarshalToSizedBufferVT(b[begin:])
	return b, err
}
