// Package codec marshals this project's protobuf messages with their generated code, into pooled buffers.
// It is handed to a server by grpc.ForceServerCodecV2 and to a client by grpc.ForceCodecV2; nothing is
// registered globally.
package codec

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
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
// those of gRPC's health service, go its way.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is "proto": the wire format is unchanged.
func (Codec) Name() string { return proto.Name }

// standard is gRPC's own codec of that name.
func standard() encoding.CodecV2 { return encoding.GetCodecV2(proto.Name) }

// Marshal encodes v.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(message)
	if !ok {
		return standard().Marshal(v)
	}
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
}

// Unmarshal decodes data into v, which keeps nothing of data.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(message)
	if !ok {
		return standard().Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	if err := m.UnmarshalVT(buffer.ReadOnlyData()); err != nil {
		return fmt.Errorf("decoding %T: %w", v, err)
	}
	return nil
}
