package transport

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

const (
	// chunkMessages and chunkBytes bound what is allocated as one, since whoever keeps one message keeps
	// the memory of its chunk.
	chunkMessages = 16
	chunkBytes    = 4 << 10
)

// inbound is a frame as it is received: its messages are decoded in chunks that share an allocation.
type inbound struct {
	*peerv1.Frame
	instances instances
}

// decode reads an encoded frame into a new one, which keeps nothing of the data.
func (in *inbound) decode(data []byte) error {
	frame := &peerv1.Frame{}
	in.Frame = frame
	var chunk [chunkMessages][]byte
	count, size := 0, 0
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		// What is in the field is whole, and stands behind its tag.
		_, _, tag := protowire.ConsumeTag(data)
		field := data[tag:n]
		data = data[n:]
		switch {
		case number == 2 && kind == protowire.BytesType:
			message, _ := protowire.ConsumeBytes(field)
			if count == chunkMessages || count > 0 && size+len(message) > chunkBytes {
				if err := in.decodeChunk(chunk[:count], size); err != nil {
					return err
				}
				count, size = 0, 0
			}
			chunk[count] = message
			count++
			size += len(message)
		case number == 1 && kind == protowire.BytesType:
			hello, _ := protowire.ConsumeBytes(field)
			frame.Hello = &peerv1.Hello{}
			if err := frame.Hello.UnmarshalVT(hello); err != nil {
				return err
			}
		case number == 3 && kind == protowire.VarintType:
			frame.Ping, _ = protowire.ConsumeVarint(field)
		case number == 4 && kind == protowire.VarintType:
			frame.Pong, _ = protowire.ConsumeVarint(field)
		case number <= 4:
			return errors.New("a field has the wrong type")
		}
	}
	return in.decodeChunk(chunk[:count], size)
}

// decodeChunk appends messages to the frame, with two allocations for all of them.
func (in *inbound) decodeChunk(encoded [][]byte, size int) error {
	if len(encoded) == 0 {
		return nil
	}
	messages := make([]peerv1.Message, len(encoded))
	owned := make([]byte, 0, size)
	for i, data := range encoded {
		begin := len(owned)
		owned = append(owned, data...)
		if err := in.instances.decode(owned[begin:len(owned):len(owned)], &messages[i]); err != nil {
			return err
		}
		in.Messages = append(in.Messages, &messages[i])
	}
	return nil
}
