package transport

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// codec encodes frames with generated code instead of reflection. It is handed to the server and to each
// call; gRPC's global table of codecs stays as it is.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// Name is the content-subtype of the peers' streams.
func (codec) Name() string { return "georegister-peer" }

// Marshal encodes a *peerv1.Frame into a pooled buffer.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	frame, ok := v.(*peerv1.Frame)
	if !ok {
		return nil, fmt.Errorf("transport: can't encode %T, only frames", v)
	}
	size := frame.SizeVT()
	pool := mem.DefaultBufferPool()
	if mem.IsBelowBufferPoolingThreshold(size) {
		data := make([]byte, size)
		if _, err := frame.MarshalToSizedBufferVT(data); err != nil {
			return nil, fmt.Errorf("transport: encode frame: %w", err)
		}
		return mem.BufferSlice{mem.SliceBuffer(data)}, nil
	}
	data := pool.Get(size)
	if _, err := frame.MarshalToSizedBufferVT((*data)[:size]); err != nil {
		pool.Put(data)
		return nil, fmt.Errorf("transport: encode frame: %w", err)
	}
	return mem.BufferSlice{mem.NewBuffer(data, pool)}, nil
}

// Unmarshal decodes into an empty *peerv1.Frame, which keeps nothing of the data.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	frame, ok := v.(*peerv1.Frame)
	if !ok {
		return fmt.Errorf("transport: can't decode %T, only frames", v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	if err := frame.UnmarshalVT(buffer.ReadOnlyData()); err != nil {
		return fmt.Errorf("transport: decode frame: %w", err)
	}
	return nil
}
