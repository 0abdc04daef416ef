// Package codec marshals this project's protobuf messages with their generated code, into pooled buffers.
// It is handed to a server by grpc.ForceServerCodecV2 and to a client by grpc.ForceCodecV2; nothing is
// registered globally.
package codec

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// MaxHeaderBytes is how long the headers of a call may be, on every port: nothing is told in them, and the library
// holds them before anybody is asked.
const MaxHeaderBytes = 16 << 10

// message is what vtprotobuf generates.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// Codec is wire compatible with gRPC's own "proto" codec. Messages without generated fast code, such as
// those of gRPC's health service, go the usual way.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is "proto": the wire format is unchanged.
func (Codec) Name() string { return "proto" }

// Marshal encodes v.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case message:
		pool := mem.DefaultBufferPool()
		buffer := pool.Get(m.SizeVT())
		n, err := m.MarshalToSizedBufferVT(*buffer)
		if err == nil && n != len(*buffer) {
			err = errors.New("it was changed meanwhile")
		}
		if err != nil {
			pool.Put(buffer)
			return nil, fmt.Errorf("encoding %T: %w", v, err)
		}
		return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
	case proto.Message:
		data, err := proto.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encoding %T: %w", v, err)
		}
		return mem.BufferSlice{mem.SliceBuffer(data)}, nil
	}
	return nil, fmt.Errorf("encoding %T: it is no protobuf message", v)
}

// Unmarshal decodes data into v, which keeps nothing of data.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	var err error
	switch m := v.(type) {
	case message:
		err = m.UnmarshalVT(buffer.ReadOnlyData())
	case proto.Message:
		err = proto.Unmarshal(buffer.ReadOnlyData(), m)
	default:
		err = errors.New("it is no protobuf message")
	}
	if err != nil {
		return fmt.Errorf("decoding %T: %w", v, err)
	}
	return nil
}
