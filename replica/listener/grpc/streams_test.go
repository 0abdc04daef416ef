package grpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// half is a call whose message has not ended.
type half struct {
	body *io.PipeWriter
	over chan error // why it ended
}

// callHalf begins a call with the first part of a message, and returns when that is on its way.
func callHalf(t *testing.T, client *http.Transport, address, method string, part []byte) *half {
	t.Helper()
	body, writer := io.Pipe()
	request, err := http.NewRequestWithContext(bounded(t), http.MethodPost, "http://"+address+method, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	h := &half{writer, make(chan error, 1)}
	go func() {
		response, err := client.RoundTrip(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			err = errors.Join(err, response.Body.Close())
		}
		body.CloseWithError(io.ErrClosedPipe)
		h.over <- err
	}()
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(part)+1))
	if _, err := writer.Write(prefix); err == nil {
		_, _ = writer.Write(part) // it may be refused meanwhile
	}
	return h
}

// plain returns a client of HTTP/2 that has a connection of its own.
func plain(t *testing.T) *http.Transport {
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// Units of memory, in bytes; connections are charged in steps of grain.
const (
	mib   = 1 << 20
	grain = 16 << 10
)

// boundedMemory is the memory of clients with its metrics.
type boundedMemory struct {
	*operation.Memory
	registry *prometheus.Registry
}

// evicted is how many connections were closed.
func (m boundedMemory) evicted(t *testing.T) float64 {
	t.Helper()
	return listenertest.Metric(t, m.registry, "georegister_server_evicted_total", map[string]string{"listener": "grpc"})
}

// serveGRPCBounded serves gRPC with a bound on what clients hold.
func serveGRPCBounded(t *testing.T, limit int64) (boundedMemory, *grpc.ClientConn) {
	registry := prometheus.NewRegistry()
	memory := boundedMemory{operation.NewMemory(limit, operation.NewMetrics(registry), nil), registry}
	_, conn := serveGRPC(t,
		operation.Options{Memory: memory.Memory, Limits: register.Limits{KeyBytes: 64, ValueBytes: 16 * mib}})
	return memory, conn
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// Many clients send halves of messages on several streams each: what the member holds stays within the limit, and
// others are served.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	const limit, connections, streams = 8 * mib, 32, 4
	memory, conn := serveGRPCBounded(t, limit)
	user := registerv1.NewRegisterClient(conn)
	part := make([]byte, mib/2)
	before := heap()
	var calls []*half
	for range connections {
		client := plain(t)
		for i := range streams {
			calls = append(calls,
				callHalf(t, client, conn.Target(),
					[]string{registerv1.Register_Do_FullMethodName, registerv1.Register_Pipeline_FullMethodName}[i%2],
					part))
		}
		if _, err := user.Do(bounded(t),
			&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
		if used := memory.Used(); used > limit+int64(streams*len(part)) {
			t.Fatalf("clients hold %d bytes", used)
		}
	}
	grown := heap() - before
	t.Logf("%d MiB are sent, the heap has grown by %d MiB, %d MiB are counted", connections*streams*len(part)/mib,
		grown/mib, memory.Used()/mib)
	if grown > 3*limit {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	least := float64(connections - limit/(streams*len(part)))
	listenertest.WaitUntil(t, "enough are gone", func() bool { return memory.evicted(t) >= least })
	listenertest.WaitUntil(t, "the rest is within the limit", func() bool { return memory.Used() <= limit })
	told := 0
	for _, h := range calls[:streams] {
		if err := <-h.over; err != nil && strings.Contains(err.Error(), "ENHANCE_YOUR_CALM") {
			told++
		}
	}
	if told == 0 {
		t.Error("the first to go was not told why")
	}
}

// A client whose message is what is too much gets the code of it.
func TestRefusedMessageIsResourceExhausted(t *testing.T) {
	t.Parallel()
	_, conn := serveGRPCBounded(t, 8*mib)
	big := &registerv1.Request{
		Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, 15*mib),
	}
	if _, err := registerv1.NewRegisterClient(conn).Do(bounded(t), big); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// A message that ends after all is served, and whatever ends holds nothing: what is counted does not drift.
func TestWhatEndsHoldsNothing(t *testing.T) {
	t.Parallel()
	memory, conn := serveGRPCBounded(t, 64*mib)
	idle := func() bool { return memory.Used() <= callerOverhead+4*grain }
	client := registerv1.NewRegisterClient(conn)
	write := &registerv1.Request{
		Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, mib/2),
	}
	for range 50 {
		if r, err := client.Do(bounded(t), write); err != nil || r.Status != registerv1.Status_OK {
			t.Fatal(r, err)
		}
	}
	listenertest.WaitUntil(t, "single calls hold nothing", idle)
	stream, err := client.Pipeline(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		for _, n := range []int{1, 10, 100} {
			batch := &registerv1.Requests{}
			for range n {
				batch.Requests = append(batch.Requests,
					&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("x")})
			}
			if err := stream.Send(batch); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < n; {
				answers, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				got += len(answers.Responses)
			}
		}
	}
	listenertest.WaitUntil(t, "messages that were taken hold nothing", idle)
	other := plain(t)
	cut := callHalf(t, other, conn.Target(), registerv1.Register_Do_FullMethodName, make([]byte, 3*mib))
	unknown := callHalf(t, other, conn.Target(), "/nobody/Knows", make([]byte, mib))
	<-unknown.over
	listenertest.WaitUntil(t, "half a message is held", func() bool {
		return memory.Used() > 3*mib && memory.Used() < 4*mib
	})
	cut.body.CloseWithError(errors.New("the client gives up"))
	listenertest.WaitUntil(t, "a call that is broken off holds nothing", func() bool {
		return memory.Used() <= 2*callerOverhead+8*grain
	})
}

// Messages that have ended and that no handler takes, since the connection has no place for more, count until they are
// taken.
func TestMessagesThatWaitCount(t *testing.T) {
	t.Parallel()
	memory, store := operation.NewMemory(64*mib, nil, nil), &listenertest.Held{}
	_, conn := serveGRPC(t, operation.Options{Memory: memory, MaxInFlight: 2, Store: store}) // also at most two calls
	stream, err := registerv1.NewRegisterClient(conn).Pipeline(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	const count, size = 6, mib / 4
	write := &registerv1.Request{
		Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, size),
	}
	for range count {
		if err := stream.Send(&registerv1.Requests{Requests: []*registerv1.Request{write}}); err != nil {
			t.Fatal(err)
		}
	}
	listenertest.WaitUntil(t, "all are held", func() bool { return store.Count() == 2 && memory.Used() >= count*size })
	for range count {
		listenertest.WaitUntil(t, "one is submitted", func() bool { return store.Count() > 0 })
		store.Release(0)
	}
	listenertest.WaitUntil(t, "nothing is held", func() bool { return memory.Used() <= callerOverhead+4*grain })
}

// Answers that the library was given count until the client takes them, on every call.
func TestUnreadAnswersCount(t *testing.T) {
	t.Parallel()
	memory, user := serveGRPCBounded(t, 64*mib)
	const count, window = 20, 64 << 10
	write := &registerv1.Request{Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: make([]byte, mib)}
	if _, err := registerv1.NewRegisterClient(user).Do(bounded(t), write); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(user.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	for range count {
		stream, err := registerv1.NewRegisterClient(conn).Pipeline(ctx)
		if err != nil {
			t.Fatal(err)
		}
		read := &registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k")}
		if err := stream.Send(&registerv1.Requests{Requests: []*registerv1.Request{read}}); err != nil {
			t.Fatal(err)
		}
	}
	listenertest.WaitUntil(t, "answers that nobody reads are held", func() bool {
		return memory.Used() > count*(mib-2*window)
	})
	cancel()
	listenertest.WaitUntil(t, "nothing is held", func() bool { return memory.Used() <= 2*callerOverhead+8*grain })
}

// FuzzFrames follows any bytes, as they come and in single bytes: both count the same, and all is given back.
func FuzzFrames(f *testing.F) {
	preface := make([]byte, clientPreface)
	open := []byte{0, 0, 0, frameHeaders, 4, 0, 0, 0, 1}
	message := []byte{0, 0, 7, frameData, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 'a', 'b'}
	two := []byte{0, 0, 13, frameData, flagPadded, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 9, 'x'}
	f.Add(append(append([]byte{}, preface...), open...), uint8(0))
	f.Add(append(append(append([]byte{}, preface...), open...), message...), uint8(1))
	f.Add(append(append(append(append([]byte{}, preface...), open...), two...), reset(1)...), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, taken uint8) {
		follow := func(piece int) (held []int) {
			c := newCaller(1)
			c.memory = operation.NewMemory(1<<40, nil, nil).Open("grpc", nil, func() {})
			c.calls = newCalls(c)
			for rest := data; len(rest) > 0; {
				n := min(piece, len(rest))
				c.calls.received(rest[:n])
				rest = rest[n:]
			}
			held = append(held, c.held)
			for _, a := range c.calls.open {
				sum := streamOverhead + a.answers + a.unfinished
				for _, n := range a.whole {
					sum += n
				}
				if a.held != sum || a.unfinished < 0 {
					t.Fatalf("a call holds %d bytes, of which %d are told", a.held, sum)
				}
				for range taken {
					a.taken()
				}
			}
			held = append(held, c.held)
			c.calls.sent(reset(1))
			c.calls.close()
			return append(held, c.held)
		}
		whole, bytes := follow(max(1, len(data))), follow(1)
		for i := range whole {
			if whole[i] != bytes[i] {
				t.Fatalf("at once %d, in single bytes %d", whole, bytes)
			}
		}
		if whole[2] != 0 {
			t.Fatalf("%d bytes are held after the end", whole[2])
		}
	})
}
