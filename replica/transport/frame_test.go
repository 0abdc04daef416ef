package transport

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

func sample(messages int) *peerv1.Frame {
	frame := &peerv1.Frame{Hello: &peerv1.Hello{Cluster: "c", Member: 3, Shards: 2}, Ping: 1 << 60, Pong: 7}
	for i := range messages {
		frame.Messages = append(frame.Messages, &peerv1.Message{
			Kind:  []peerv1.Kind{peerv1.Kind_PRE_ACCEPT, peerv1.Kind_READ1, peerv1.Kind_NACK}[i%3],
			Shard: uint32(i), Known: []uint32{1, 2, 1}, Op: uint64(i),
			Key: fmt.Append(nil, i), Present: i%2 == 0, Value: make([]byte, 300*(i%30)),
			Instance: &peerv1.Instance{
				Id:       &peerv1.InstanceID{Writer: 9, Number: uint64(i)},
				Commands: []*peerv1.Command{{Function: "add.v1", Args: [][]byte{{1}}}, {Session: 7, Number: 3}}[:i%3],
				Deps:     []*peerv1.InstanceID{{Writer: 8, Number: 1}, {Writer: 9, Number: uint64(i)}}[i%3:],
				Answers:  []*peerv1.Answer{{Present: true, Value: []byte{2}}}[i%2:],
				State:    []*peerv1.KeyState{nil, {Count: uint64(i)}}[i%2],
				Ballot:   uint64(i) << 16, AcceptedBallot: uint64(i), Status: peerv1.Status(i % 6), Agreed: i%2 == 0,
				Seq: uint64(i), Alone: i%3 == 0,
			},
		})
	}
	return frame
}

func TestDecodeAgreesWithProtobuf(t *testing.T) {
	for _, n := range []int{0, 1, chunkMessages, chunkMessages + 1, 100} {
		want := sample(n)
		data, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var in inbound
		if err := in.decode(data); err != nil {
			t.Fatal(err)
		}
		clear(data) // the frame must not depend on the buffer that it came in
		if !proto.Equal(in.Frame, want) {
			t.Fatalf("%d messages: got %v", n, in.Frame)
		}
	}
}

// frameOf is an encoded frame of as many messages of one kind.
func frameOf(t testing.TB, messages int, m *peerv1.Message) []byte {
	t.Helper()
	frame := &peerv1.Frame{}
	for range messages {
		frame.Messages = append(frame.Messages, m)
	}
	data, err := frame.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	aWrite = &peerv1.Message{
		Kind: peerv1.Kind_WRITE2, Shard: 1, Epoch: 3, Op: 1 << 40, Key: []byte("key-0000001"), Timestamp: 1 << 30,
		Writer: 1 << 60, Present: true, Value: make([]byte, 16), Start: 1, Batches: 1 << 30,
	}
	anInstance = &peerv1.Message{
		Kind: peerv1.Kind_PRE_ACCEPT, Shard: 1, Epoch: 3, Op: 1 << 40, Key: []byte("key-0000001"),
		Instance: &peerv1.Instance{
			Id: &peerv1.InstanceID{Writer: 1, Number: 9}, Ballot: 7, Status: 2,
			Deps:     []*peerv1.InstanceID{{Writer: 2, Number: 8}, {Writer: 3, Number: 8}},
			Commands: []*peerv1.Command{{Session: 7, Number: 3, Function: "add.v1", Args: [][]byte{{1}}}},
		},
	}
)

// The parts of instances share allocations: alone, each of these would take eight.
func TestInstancesShareAllocations(t *testing.T) {
	const messages = 100
	data := frameOf(t, messages, anInstance)
	var in inbound
	allocations := testing.AllocsPerRun(100, func() {
		if err := in.decode(data); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 3*messages {
		t.Errorf("%v allocations for %d messages", allocations, messages)
	}
}

// BenchmarkDecode is what a member takes to read a message.
func BenchmarkDecode(b *testing.B) {
	const messages = 64
	for name, m := range map[string]*peerv1.Message{"write": aWrite, "instance": anInstance} { // order is irrelevant
		b.Run(name, func(b *testing.B) {
			data := frameOf(b, messages, m)
			b.ReportAllocs()
			var in inbound
			for i := 0; b.Loop(); i++ {
				if i%messages != 0 {
					continue
				}
				if err := in.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzDecode shows that no bytes of a peer make the decoder panic, and that it reads what protobuf reads.
func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		data, err := proto.Marshal(sample(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in inbound
		if err := in.decode(data); err != nil {
			return
		}
		want := &peerv1.Frame{}
		if err := proto.Unmarshal(data, want); err != nil {
			return // such as invalid UTF-8, which the generated code lets pass
		}
		encoded, err := in.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		again := &peerv1.Frame{}
		if err := proto.Unmarshal(encoded, again); err != nil {
			t.Fatalf("what was decoded can't be encoded: %v", err)
		}
		if len(again.Messages) != len(want.Messages) || again.Ping != want.Ping || again.Pong != want.Pong {
			t.Fatalf("read %v, protobuf reads %v", again, want)
		}
		for i, m := range in.Messages {
			if !proto.Equal(m.Instance, want.Messages[i].Instance) {
				t.Fatalf("read %v, protobuf reads %v", m, want.Messages[i])
			}
		}
	})
}
