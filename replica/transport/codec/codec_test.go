package codec

import (
	"bytes"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	registerv1 "github.com/georegister/georegister/api/register/v1"
)

func TestRoundTripAgreesWithProtobuf(t *testing.T) {
	for name, m := range map[string]proto.Message{
		"generated": &registerv1.Request{Tag: 7, Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: "add.v1",
			Arguments: [][]byte{[]byte("1")}, Id: &registerv1.RmwID{Session: 1 << 63, Number: 2}},
		"large": &registerv1.Request{Key: []byte("k"), Present: true, Value: bytes.Repeat([]byte("v"), 1<<20)},
		"empty": &registerv1.Responses{},
		"other": &healthv1.HealthCheckRequest{Service: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := Codec{}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			data := encoded.Materialize()
			encoded.Free()
			plain := m.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(data, plain); err != nil || !proto.Equal(plain, m) {
				t.Fatalf("protobuf reads %v, %v", plain, err)
			}
			half := len(data) / 2
			split := mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}
			back := m.ProtoReflect().New().Interface()
			if err := (Codec{}).Unmarshal(split, back); err != nil || !proto.Equal(back, m) {
				t.Fatalf("codec reads %v, %v", back, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	if _, err := (Codec{}).Marshal("text"); err == nil {
		t.Error("a string was encoded")
	}
	if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer{0xff}}, &registerv1.Request{}); err == nil {
		t.Error("a torn message was decoded")
	}
	if err := (Codec{}).Unmarshal(nil, new(int)); err == nil {
		t.Error("an int was decoded")
	}
}
