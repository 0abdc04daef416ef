package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/transport/codec"
)

func TestAnAskerThatMeansAnotherWitnessIsRefused(t *testing.T) {
	r := run(t, nil, Options{})
	for want, change := range map[string]func(*witnessv1.Hello){
		"wire version 99 is not 1":    func(h *witnessv1.Hello) { h.WireVersion = 99 },
		`cluster "other" is not "c"`:  func(h *witnessv1.Hello) { h.Cluster = "other" },
		"witness 8 was called":        func(h *witnessv1.Hello) { h.To = 8 },
		"member 65536 is above 65535": func(h *witnessv1.Hello) { h.From = 65536 },
		"member 7 has the ID of this": func(h *witnessv1.Hello) { h.From = self },
		"does not begin with a hello": nil,
	} {
		a := r.dial()
		frame := &witnessv1.Frame{Messages: []*witnessv1.Message{check(1)}}
		if change != nil {
			frame.Hello = hello(client)
			change(frame.Hello)
		}
		if err := a.stream.Send(frame); err != nil {
			t.Fatal(err)
		}
		_, err := a.stream.Recv()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	h := r.ask(client).hello
	if h.From != self || h.To != client || h.Cluster != "c" || h.WireVersion != WireVersion || h.Disk != r.disk.Name() {
		t.Errorf("the witness says %v", h)
	}
}

// The library holds the headers of a call before anybody is asked who calls.
func TestHeadersAreBounded(t *testing.T) {
	r := run(t, nil, Options{})
	c := r.connect()
	long := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", codec.MaxHeaderBytes))
	stream, err := witnessv1.NewWitnessesClient(c).Stream(long, grpc.WaitForReady(true))
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || !strings.Contains(err.Error(), "header list size") {
		t.Errorf("a call with long headers: %v", err)
	}
}

func TestAWitnessRestartsWithWhatItAccepted(t *testing.T) {
	fs := vfs.NewMem()
	r := run(t, fs, Options{})
	manager, c := r.ask(0), r.ask(client)
	manager.start(3, 5)
	manager.start(4, 5) // another master's
	c.expect(false, "only the manager", &witnessv1.Message{Kind: witnessv1.Kind_END, Partition: 3, Term: 5})
	c.expect(true, "", record(1, 10))
	c.expect(false, "", record(2, 10))
	c.expect(true, "", record(3, 31))
	name := c.hello.Disk
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r = run(t, fs, Options{})
	m := r.ask(master)
	if m.hello.Disk != name {
		t.Errorf("disk %q, was %q", m.hello.Disk, name)
	}
	m.expect(false, "", check(31))
	m.expect(true, "", gc(10, 1))
	page := m.expect(true, "", recovery())
	wantRequests(t, page, 3)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r = run(t, fs, Options{})
	r.ask(client).expect(false, "recovery mode", record(4, 40))
	wantRequests(t, r.ask(master).expect(true, "", recovery()), 3)
}

// With durability Memory, a witness that comes back is another one, and must not speak for the first.
func TestAWitnessInMemoryForgets(t *testing.T) {
	r := run(t, nil, Options{})
	manager := r.ask(0)
	manager.start(3, 5)
	r.ask(client).expect(true, "", record(1, 10))
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r = run(t, nil, Options{})
	again := r.ask(0)
	again.expect(false, "disk",
		&witnessv1.Message{Kind: witnessv1.Kind_START, Partition: 3, Term: 5, Disk: manager.hello.Disk})
	r.ask(master).expect(false, "no life", recovery())
}

// While the disk syncs, what doesn't need it is answered, and what does waits; one fsync serves all that waited.
func TestOneCommitServesAllThatArrived(t *testing.T) {
	var mutex sync.Mutex
	gate, syncs := make(chan struct{}), 0
	began := make(chan struct{}, 100)
	open := true
	fs := hooked{FS: vfs.NewMem(), sync: func() error {
		mutex.Lock()
		waits := !open
		syncs++
		mutex.Unlock()
		if waits {
			began <- struct{}{}
			<-gate
		}
		return nil
	}}
	r := run(t, fs, Options{})
	r.ask(0).start(3, 5)
	mutex.Lock()
	open, syncs = false, 0
	mutex.Unlock()

	c := r.ask(client)
	first := c.send(record(1, 10))[0]
	<-began // its commit is in flight
	var rest []uint64
	for i := uint64(2); i <= 200; i++ {
		rest = append(rest, c.send(record(i, i*10))...)
	}
	c.expect(false, "", record(1000, 10)) // a conflict
	c.expect(false, "", check(10))        // what is not durable yet counts as saved
	c.expect(true, "", check(11))
	again := c.send(record(1, 10))[0]           // a retry must not overtake the first
	freeze := c.send(recovery())[0]             // nor may a page
	c.expect(false, "recovery mode", check(11)) // they have been received: answers to later questions are here
	for _, op := range append(rest, first, again, freeze) {
		if c.early[op] != nil {
			t.Fatalf("question %d is answered %v before it is durable", op, c.early[op])
		}
	}
	close(gate)
	for _, op := range append(rest, first, again, freeze) {
		if a := c.answer(op); !a.Accepted {
			t.Fatalf("question %d is answered %v", op, a)
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	if syncs != 2 {
		t.Errorf("%d fsyncs for what came while one was in flight", syncs)
	}
}

// What the disk holds after an fsync that failed is anyone's guess: the witness ends, and says nothing more.
func TestAnFsyncErrorStopsTheWitness(t *testing.T) {
	var mutex sync.Mutex
	var failure error
	fs := hooked{FS: vfs.NewMem(), sync: func() error {
		mutex.Lock()
		defer mutex.Unlock()
		return failure
	}}
	r := run(t, fs, Options{})
	r.ask(0).start(3, 5)
	c := r.ask(client)
	c.expect(true, "", record(1, 10))
	mutex.Lock()
	failure = errors.New("the disk is gone")
	mutex.Unlock()
	c.send(record(2, 20))
	if frame, err := c.stream.Recv(); status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("answered %v, %v", frame, err)
	}
	<-r.Failed()
	probes := NewHTTP(r.Server, nil)
	for _, path := range []string{"/livez", "/readyz"} {
		code, text := get(probes, path)
		if code != http.StatusServiceUnavailable || !strings.Contains(text, "the disk is gone") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("ended with %v", err)
	}
}

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(body)
}

// A stop answers what has arrived.
func TestAStopInOrder(t *testing.T) {
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	var mutex sync.Mutex
	open := true
	fs := hooked{FS: vfs.NewMem(), sync: func() error {
		mutex.Lock()
		waits := !open
		mutex.Unlock()
		if waits {
			began <- struct{}{}
			<-gate
		}
		return nil
	}}
	r := run(t, fs, Options{})
	r.ask(0).start(3, 5)
	mutex.Lock()
	open = false
	mutex.Unlock()
	c := r.ask(client)
	first := c.send(record(1, 10))[0]
	<-began
	second := c.send(record(2, 20))[0]
	c.expect(false, "", check(20)) // it has arrived
	ended := make(chan error)
	go func() { ended <- r.end() }()
	<-r.running.Done()
	probes := NewHTTP(r.Server, nil)
	if code, _ := get(probes, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready while it stops: %d", code)
	}
	if code, _ := get(probes, "/livez"); code != http.StatusOK {
		t.Errorf("dead while it stops: %d", code)
	}
	close(gate)
	for _, op := range []uint64{first, second} {
		if a := c.answer(op); !a.Accepted {
			t.Errorf("%v", a)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := c.stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "stops") {
		t.Errorf("%v", err)
	}
	r = run(t, fs.FS, Options{})
	wantRequests(t, r.ask(master).expect(true, "", recovery()), 1, 2)
}

func TestTheLogIsRewritten(t *testing.T) {
	fs := vfs.NewMem()
	r := run(t, fs, Options{CompactAbove: 4 << 10})
	r.ask(0).start(3, 5)
	c := r.ask(client)
	c.expect(true, "", record(1, 10))
	for i := uint64(2); i < 500; i++ {
		c.expect(true, "", record(i, 20))
		c.expect(true, "", gc(20, i))
	}
	var rewrites dto.Metric
	if err := r.metrics.rewrites.Write(&rewrites); err != nil || rewrites.Counter.GetValue() < 5 {
		t.Errorf("rewritten %v times, %v", rewrites.Counter.GetValue(), err)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if size := r.disk.Size(); size > 8<<10 {
		t.Errorf("a log of %d bytes", size)
	}
	r = run(t, fs, Options{})
	wantRequests(t, r.ask(master).expect(true, "", recovery()), 1)
}

func TestMetricsAndProbes(t *testing.T) {
	r := run(t, vfs.NewMem(), Options{})
	r.ask(0).start(3, 5)
	c := r.ask(client)
	c.expect(true, "", record(1, 10))
	c.expect(false, "", record(2, 10))
	c.expect(false, "no life",
		&witnessv1.Message{Kind: witnessv1.Kind_CHECK, Partition: 9, Term: 5, Hashes: []uint64{1}})
	probes := NewHTTP(r.Server, promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	for _, path := range []string{"/livez", "/readyz"} {
		if code, text := get(probes, path); code != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	_, text := get(probes, "/metrics")
	for _, want := range []string{
		`georegister_witness_records_total{outcome="accepted"} 1`,
		`georegister_witness_records_total{outcome="conflict"} 1`,
		"georegister_witness_refused_total 1", `georegister_witness_instances{mode="normal"} 1`,
		`georegister_witness_instances{mode="recovery"} 0`,
		"georegister_witness_requests 1", "georegister_witness_streams 2", "georegister_witness_commit_seconds_count 2",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if code, _ := get(probes, "/metrics"); code != http.StatusOK { // the loop, which knows the numbers, has ended
		t.Errorf("metrics after the end: %d", code)
	}
}

// Streams of one member, or of two managers at once, don't hear each other's answers.
func TestAnswersGoToTheStreamThatAsked(t *testing.T) {
	r := run(t, nil, Options{})
	first, second := r.ask(0), r.ask(0)
	first.start(3, 5)
	second.op = 100
	second.start(3, 6)
	for range 3 {
		first.expect(false, "manager", check(1))
		second.expect(false, "manager", check(1))
	}
	if len(first.early) != 4 || len(second.early) != 4 {
		t.Errorf("%d and %d answers", len(first.early), len(second.early))
	}
}

// An asker that does not take its answers costs bounded memory.
func TestAnswersThatNobodyTakes(t *testing.T) {
	st := newStream(1, client)
	for i := range 2*queueBytes/frameBytes + 1 {
		st.next = append(st.next, make([]byte, frameBytes)...)
		if st.flush() != (i < queueBytes/frameBytes) {
			t.Fatalf("batch %d of answers", i)
		}
	}
	frames, over, _ := st.take(nil)
	if len(frames) != queueBytes/frameBytes || over {
		t.Fatalf("%d frames", len(frames))
	}
	st.next = []byte("next")
	if !st.flush() {
		t.Error("no room after the answers were taken")
	}
}

// FuzzFrame: frames are read as protobuf reads them.
func FuzzFrame(f *testing.F) {
	for _, frame := range []*witnessv1.Frame{
		{Hello: hello(client)}, {Messages: []*witnessv1.Message{record(1, 10, 20), gc(10, 1), check(20), {}}}, {},
	} {
		data, err := proto.Marshal(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		in := &inbound{}
		for _, data := range [][]byte{first, second} { // the second uses the memory of the first
			want := &witnessv1.Frame{}
			if want.UnmarshalVT(data) != nil {
				return // a message may also be wrong in a way that only one of the two sees
			}
			if bytes.Count(data, []byte{0x0a}) > 1 {
				return // several hellos are merged by protobuf, and the last one counts here
			}
			in.data = append(in.data[:0], data...)
			if err := in.decode(); err != nil {
				return
			}
			got := &witnessv1.Frame{Hello: in.hello, Messages: in.messages}
			if proto.Size(got) > 0 && !proto.Equal(stripped(got), stripped(want)) {
				t.Fatalf("read %v, want %v", got, want)
			}
		}
	})
}

// stripped is a frame without what it does not know.
func stripped(f *witnessv1.Frame) *witnessv1.Frame {
	f = f.CloneVT()
	f.ProtoReflect().SetUnknown(nil)
	return f
}

func TestAppendMessage(t *testing.T) {
	var data []byte
	want := &witnessv1.Frame{}
	for i := range uint64(20) {
		m := record(i, make([]uint64, i)...)
		m.Refused = fmt.Sprint(i)
		var err error
		if data, err = appendMessage(data, m); err != nil {
			t.Fatal(err)
		}
		want.Messages = append(want.Messages, m)
	}
	got := &witnessv1.Frame{}
	if err := proto.Unmarshal(data, got); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestShutdownTwice(t *testing.T) {
	r := run(t, nil, Options{})
	if err := r.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if a := r.Server; a.Err() == nil {
		t.Error("it serves after its end")
	}
}
