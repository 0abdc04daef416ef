package grpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// serveGRPC starts a gRPC listener on loopback and connects to it.
func serveGRPC(t *testing.T, options operation.Options) (*Server, *grpc.ClientConn) {
	t.Helper()
	if options.Store == nil {
		options.Store = &listenertest.Memory{}
	}
	g, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), listenertest.Bound)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return g, conn
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), listenertest.Bound)
	t.Cleanup(cancel)
	return ctx
}

// validation is what is wrong with requests, and what the answer must say.
var validation = map[string]struct {
	request  *registerv1.Request
	message  string
	tooLarge bool
}{
	"no kind": {
		&registerv1.Request{Key: []byte("k")},
		"kind 0 is unknown; known are READ (1), WRITE (2), RMW (3) and FENCE (4)", false,
	},
	"unknown kind": {
		&registerv1.Request{Key: []byte("k"), Kind: 9},
		"kind 9 is unknown; known are READ (1), WRITE (2), RMW (3) and FENCE (4)", false,
	},
	"no key": {&registerv1.Request{Kind: registerv1.Kind_READ}, "the key is empty; give at least one byte", false},
	"long key": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: make([]byte, 4097)},
		"key of 4097 bytes is too large: the limit is 4096 bytes", true},
	"large value": {&registerv1.Request{
		Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, 1<<20+1),
	},
		"value of 1048577 bytes is too large: the limit is 1048576 bytes", true},
	"large argument": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Append,
		Arguments: [][]byte{make([]byte, 1<<20+1)}},
		"arguments: value of 1048577 bytes is too large: the limit is 1048576 bytes", true},
	"value without present": {&registerv1.Request{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Value: []byte("v")},
		"present is false and value has 1 bytes; set present to write, or leave value out to delete", false},
	"arguments": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Add},
		"rmw function add.v1 takes 1 arguments, not 0", false},
	"stale write": {&registerv1.Request{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Stale: true},
		"stale is set, and kind is WRITE; leave it out, only a READ may be stale", false},
	"regular write": {&registerv1.Request{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Regular: true},
		"regular is set, and kind is WRITE; leave it out, only a READ may be regular", false},
	"regular fence": {&registerv1.Request{Kind: registerv1.Kind_FENCE, Regular: true},
		"regular is set, and kind is FENCE; leave it out, only a READ may be regular", false},
	"stale and regular": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"), Stale: true, Regular: true},
		"stale and regular are both set; leave out regular for an older value, or stale for one that may not be " +
			"held yet", false},
	"fence of a key": {&registerv1.Request{Kind: registerv1.Kind_FENCE, Key: []byte("k")},
		"key is set, and kind is FENCE; leave it out, a fence is of all that after names", false},
	"too many dependencies": {&registerv1.Request{
		Kind: registerv1.Kind_FENCE, After: make([]*registerv1.Dependency, register.MaxDependencies+1),
	},
		"after has 17 dependencies; fence some of them first, a request carries at most 16", false},
	"dependency on nothing": {&registerv1.Request{
		Kind: registerv1.Kind_FENCE, After: make([]*registerv1.Dependency, 1),
	},
		"after[0]: dependency: the key is empty; give at least one byte", false},
	"dependency without carstamp": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"),
		After: []*registerv1.Dependency{wireDependency("x"), {Key: []byte("k")}}},
		`after[1]: dependency on "k": it has no carstamp; leave it out, nobody wrote that`, false},
	"dependency without present": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"),
		After: []*registerv1.Dependency{{Key: []byte("x"), Value: []byte("v")}}},
		"after[0]: present is false and value has 1 bytes; send present and value as the answer had them", false},
	"large dependency": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"),
		After: []*registerv1.Dependency{{Key: []byte("x"), Present: true,
			Value:    make([]byte, register.MaxDependencyBytes+1),
			Carstamp: &registerv1.Carstamp{Timestamp: 1}}}},
		`after[0]: dependency on "x": value of 65537 bytes is too large: the limit is 65536 bytes`, true},
	"dependency without proof": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"),
		After: []*registerv1.Dependency{
			{
				Key: []byte("x"), Present: true, Value: []byte("v"),
				Carstamp: &registerv1.Carstamp{Timestamp: 1, Writer: 7},
			},
		}},
		`after[0]: dependency on "x": no member of this cluster proves it: it has a proof of 0 bytes, not ` +
			"20 to 60; send what the answer had", false},
	"dependency with another's proof": {&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"),
		After: []*registerv1.Dependency{{Key: []byte("x"), Present: true, Value: []byte("V"),
			Carstamp: &registerv1.Carstamp{Timestamp: 1, Writer: 7},
			Proof:    wireDependency("x").Proof}}},
		`after[0]: dependency on "x": no member of this cluster proves it: key, carstamp, value or proof were changed, or it is of another cluster; ` +
			`send all of them as the answer had them`, false},
	"no session": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Delete,
		Id: &registerv1.RmwID{Number: 1}}, "id.session is 0; draw one at random, or leave id out", false},
	"no number": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Delete,
		Id: &registerv1.RmwID{Session: 1}}, "id.number is 0; numbers of a session count from 1", false},
	"first incomplete": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Delete,
		Id: &registerv1.RmwID{Session: 1, Number: 1, FirstIncomplete: 2}},
		"id.first_incomplete 2 is above id.number 1, which has no outcome yet", false},
	"no time of issue": {&registerv1.Request{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.Delete,
		Id: &registerv1.RmwID{Session: 1, Number: 1}},
		"id.issued_at is 0; give the time of the first attempt, in Unix milliseconds", false},
}

// wireDependency is one on a key's first value.
func wireDependency(key string) *registerv1.Dependency {
	return &registerv1.Dependency{Key: []byte(key), Present: true, Value: []byte("v"),
		Carstamp: &registerv1.Carstamp{Timestamp: 1, Writer: 7},
		Proof: listenertest.Keys.Prove(
			register.Dependency{Key: key, Versioned: register.Versioned{Value: register.Value("v"),
				Carstamp: register.Carstamp{Timestamp: 1, Writer: 7}}})}
}

func TestValidation(t *testing.T) {
	_, conn := serveGRPC(t, operation.Options{Proofs: listenertest.Keys})
	client := registerv1.NewRegisterClient(conn)
	for name, test := range validation {
		t.Run(name, func(t *testing.T) {
			r, err := client.Do(bounded(t), test.request)
			if err != nil || r.Status != registerv1.Status_INVALID || r.Message != test.message ||
				r.TooLarge != test.tooLarge {
				t.Errorf("answered %v, %v\nwant %s", r, err, test.message)
			}
		})
	}
	r, err := client.Do(bounded(t), &registerv1.Request{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true})
	if err != nil || r.Status != registerv1.Status_OK || r.Carstamp.GetTimestamp() != 1 {
		t.Errorf("a write of nothing: %v, %v", r, err)
	}
	r, err = client.Do(bounded(t), &registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"), Tag: 5})
	if err != nil || !r.Present || len(r.Value) != 0 || r.Tag != 5 || r.RoundTrips != 1 || !r.Fast {
		t.Errorf("a read of nothing: %v, %v", r, err)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// TestMalformed sends what is no message; the call fails and the connection lives on.
func TestMalformed(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, conn := serveGRPC(t, operation.Options{Metrics: operation.NewMetrics(registry)})
	var out []byte
	err := conn.Invoke(bounded(t), "/georegister.register.v1.Register/Do", []byte("\xff\xff\xff"), &out,
		grpc.ForceCodecV2(rawCodec{}))
	if status.Code(err) != codes.Internal {
		t.Errorf("a malformed message: %v", err)
	}
	stream, err := conn.NewStream(bounded(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/georegister.register.v1.Register/Pipeline", grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg([]byte("\xff\xff\xff")); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&out); status.Code(err) != codes.Internal {
		t.Errorf("a malformed batch: %v", err)
	}
	client := registerv1.NewRegisterClient(conn)
	big := &registerv1.Request{
		Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, 32<<20),
	}
	if _, err := client.Do(bounded(t), big); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message over the limit: %v", err)
	}
	info, err := client.GetInfo(bounded(t), &registerv1.InfoRequest{})
	if err != nil || info.ValueBytes != 1<<20 || len(info.Functions) == 0 {
		t.Errorf("then: %v, %v", info, err)
	}
	got := listenertest.Metric(t, registry, "georegister_server_connections", map[string]string{"listener": "grpc"})
	if got != 1 {
		t.Errorf("%v connections are open: it was not the same one", got)
	}
}

// TestPipeline sends batches to a store that answers out of order; each answer must carry its request's tag.
func TestPipeline(t *testing.T) {
	_, conn := serveGRPC(t,
		operation.Options{MaxInFlight: 32, Store: &listenertest.Memory{Delay: 2 * time.Millisecond, Shuffle: true}})
	stream, err := registerv1.NewRegisterClient(conn).Pipeline(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	const batches, each = 40, 25
	sent := make(chan error, 1)
	go func() {
		for b := range batches {
			var batch registerv1.Requests
			for i := range each {
				tag := uint64(b*each + i)
				batch.Requests = append(batch.Requests, &registerv1.Request{Tag: tag, Kind: registerv1.Kind_RMW,
					Key: fmt.Append(nil, tag), Function: register.GetAndSet, Arguments: [][]byte{nil}},
					&registerv1.Request{Tag: tag + batches*each, Kind: registerv1.Kind_RMW,
						Key:      fmt.Append(nil, "n", tag),
						Function: register.Add, Arguments: [][]byte{fmt.Append(nil, tag)}})
			}
			if err := stream.Send(&batch); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	answered := map[uint64]bool{}
	for {
		batch, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.Responses {
			want := fmt.Append(nil, r.Tag-batches*each)
			if r.Tag < batches*each {
				want = nil
			}
			if answered[r.Tag] || r.Status != registerv1.Status_OK || !bytes.Equal(r.Value, want) {
				t.Fatalf("answered %v, want %s", r, want)
			}
			answered[r.Tag] = true
		}
	}
	if err := <-sent; err != nil || len(answered) != 2*batches*each {
		t.Errorf("%d answers, %v", len(answered), err)
	}
}

// TestPipelineBound looks at what is in flight of one connection over two streams.
func TestPipelineBound(t *testing.T) {
	store := &listenertest.Held{}
	_, conn := serveGRPC(t, operation.Options{MaxInFlight: 3, Store: store})
	ctx, cancel := context.WithCancel(bounded(t))
	const each = 5
	answered := make(chan int, 2)
	for range 2 {
		stream, err := registerv1.NewRegisterClient(conn).Pipeline(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var batch registerv1.Requests
		for tag := range uint64(each) {
			batch.Requests = append(batch.Requests,
				&registerv1.Request{Tag: tag, Kind: registerv1.Kind_READ, Key: []byte("k")})
		}
		if err := stream.Send(&batch); err != nil {
			t.Fatal(err)
		}
		go func() {
			n := 0
			for n < each {
				batch, err := stream.Recv()
				if err != nil {
					break
				}
				n += len(batch.Responses)
			}
			answered <- n
		}()
	}
	for range 2 * each {
		listenertest.WaitUntil(t, "an operation is submitted", func() bool { return store.Count() > 0 })
		if n := store.Count(); n > 3 {
			t.Fatalf("%d operations are in flight, over 3", n)
		}
		store.Release(0)
	}
	if n := <-answered + <-answered; n != 2*each {
		t.Errorf("%d answers", n)
	}
	cancel()
}

// TestGRPCShutdown ends open streams once what is in flight is answered.
func TestGRPCShutdown(t *testing.T) {
	store := &listenertest.Held{}
	g, conn := serveGRPC(t, operation.Options{Store: store})
	stream, err := registerv1.NewRegisterClient(conn).Pipeline(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(
		&registerv1.Requests{
			Requests: []*registerv1.Request{{Tag: 1, Kind: registerv1.Kind_READ, Key: []byte("k")}},
		}); err != nil {
		t.Fatal(err)
	}
	listenertest.WaitUntil(t, "the read is under way", func() bool { return store.Count() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- g.Shutdown(bounded(t)) }()
	<-g.stopping
	store.Release(0)
	if batch, err := stream.Recv(); err != nil || len(batch.Responses) != 1 {
		t.Errorf("the read: %v, %v", batch, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("then the stream: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// FuzzRequest decodes any bytes as a request and serves it: no input may break the listener, and what it lets
// through must be within the limits and apply to a register.
func FuzzRequest(f *testing.F) {
	for _, test := range validation {
		if data, err := test.request.MarshalVT(); err == nil && len(data) < 100 {
			f.Add(data)
		}
	}
	for _, r := range []*registerv1.Request{
		{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: []byte("v")},
		{Kind: registerv1.Kind_RMW, Key: []byte("k"), Function: register.SetRange,
			Arguments: [][]byte{[]byte("3"), []byte("x")},
			Id:        &registerv1.RmwID{Session: 1, Number: 2, FirstIncomplete: 1}, TimeoutMs: 5},
		{
			Kind: registerv1.Kind_READ, Key: []byte("k"), Regular: true,
			After: []*registerv1.Dependency{wireDependency("x"), wireDependency("y")},
		},
		{
			Kind: registerv1.Kind_FENCE,
			After: []*registerv1.Dependency{
				wireDependency("x"), {Key: []byte("y"), Carstamp: &registerv1.Carstamp{Rmws: 1}},
			},
		},
	} {
		data, err := r.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	options, err := operation.Options{Store: &listenertest.Memory{}, Proofs: listenertest.Keys,
		Limits: register.Limits{KeyBytes: 8, ValueBytes: 16}}.WithDefaults()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r registerv1.Request
		if r.UnmarshalVT(data) != nil {
			return
		}
		if d := timeoutOf(&r, options.Timeout); d <= 0 || d > options.Timeout {
			t.Fatalf("timeout %v", d)
		}
		op, err := operationOf(&options, &r)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a reason")
			}
			return
		}
		if (op.Key == "") != (op.Kind == register.Fence) || len(op.Key) > 8 || len(op.Value) > 16 ||
			op.Regular && (op.Kind != register.Read || op.Stale) || len(op.After) != len(r.After) ||
			len(op.After) > register.MaxDependencies {
			t.Fatalf("let through %+v", op)
		}
		for i, d := range op.After {
			if err := d.Check(options.Limits); err != nil || d.Value.Present() != r.After[i].Present {
				t.Fatalf("let through %+v: %v", d, err)
			}
		}
		switch op.Kind {
		case register.Read, register.Fence:
		case register.Write:
			if op.Value.Present() != r.Present {
				t.Fatalf("present is %t in %+v", r.Present, op)
			}
		case register.RMW:
			for _, current := range []register.Value{nil, {}, register.Value("12")} {
				out, err := options.Functions.Apply(current, op.Call)
				if err != nil || out.Refused == "" && out.Changed && len(out.Next) > 16 {
					t.Fatalf("%+v made %+v, %v", op, out, err)
				}
			}
		default:
			t.Fatalf("let through kind %d", op.Kind)
		}
	})
}
