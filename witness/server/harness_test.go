package server

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/witness/core"
	"github.com/georegister/georegister/witness/disk"
)

const (
	self   = 7
	client = 2
	master = 1
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// running is a witness that serves on loopback.
type running struct {
	*Server
	t        testing.TB
	disk     *disk.Disk
	address  string
	served   chan error
	registry *prometheus.Registry
	stopped  bool
}

// run starts a witness on a disk; nil: with durability Memory.
func run(t testing.TB, fs vfs.FS, o Options) *running {
	t.Helper()
	at := disk.Options{FS: fs, Directory: "w", Identity: disk.Identity{Cluster: "c", Witness: self}}
	if fs == nil {
		at = disk.Options{Memory: true}
	}
	d, err := disk.Identify(at)
	if err != nil {
		t.Fatal(err)
	}
	w, err := core.New(core.Config{Disk: d.Name(), Volatile: fs == nil})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Load(w); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster, o.Self = "c", self
	registry := prometheus.NewRegistry()
	o.Registerer = registry
	r := &running{
		Server: New(o, w, d), t: t, disk: d, address: listener.Addr().String(),
		served: make(chan error, 1), registry: registry,
	}
	go func() { r.served <- r.Serve(listener) }()
	t.Cleanup(func() {
		if !r.stopped {
			_ = r.end()
		}
	})
	return r
}

// end stops the witness and closes its disk.
func (r *running) end() error {
	r.t.Helper()
	r.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := r.Shutdown(ctx)
	if served := <-r.served; served != nil {
		r.t.Errorf("serve: %v", served)
	}
	if closed := r.disk.Close(); closed != nil {
		r.t.Errorf("close: %v", closed)
	}
	return err
}

// asker is a stream to a witness.
type asker struct {
	testing.TB
	stream grpc.BidiStreamingClient[witnessv1.Frame, witnessv1.Frame]
	hello  *witnessv1.Hello
	op     uint64
	early  map[uint64]*witnessv1.Message // answers that nobody waited for yet
}

func (r *running) connect() *grpc.ClientConn {
	r.t.Helper()
	c, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{})))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// dial opens a stream without a hello.
func (r *running) dial() *asker {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	stream, err := witnessv1.NewWitnessesClient(r.connect()).Stream(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &asker{TB: r.t, stream: stream, early: map[uint64]*witnessv1.Message{}}
}

func hello(from uint32) *witnessv1.Hello {
	return &witnessv1.Hello{Cluster: "c", From: from, To: self, WireVersion: WireVersion}
}

// ask opens a stream.
func (r *running) ask(from uint32) *asker {
	r.t.Helper()
	a := r.dial()
	if err := a.stream.Send(&witnessv1.Frame{Hello: hello(from)}); err != nil {
		r.t.Fatal(err)
	}
	frame, err := a.stream.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	a.hello = frame.Hello
	return a
}

// send sends questions as one frame, and returns their numbers.
func (a *asker) send(messages ...*witnessv1.Message) []uint64 {
	a.Helper()
	var ops []uint64
	for _, m := range messages {
		a.op++
		m.Op = a.op
		ops = append(ops, m.Op)
	}
	if err := a.stream.Send(&witnessv1.Frame{Messages: messages}); err != nil {
		a.Fatal(err)
	}
	return ops
}

// answer waits for the answer to a question.
func (a *asker) answer(op uint64) *witnessv1.Message {
	a.Helper()
	for a.early[op] == nil {
		frame, err := a.stream.Recv()
		if err != nil {
			a.Fatalf("no answer to question %d: %v", op, err)
		}
		for _, m := range frame.Messages {
			a.early[m.Op] = m
		}
	}
	return a.early[op]
}

// expect asks a question that is accepted or not, for a reason.
func (a *asker) expect(accepted bool, why string, m *witnessv1.Message) *witnessv1.Message {
	a.Helper()
	answer := a.answer(a.send(m)[0])
	if answer.Accepted != accepted || !strings.Contains(answer.Refused, why) || answer.Kind != m.Kind+1 {
		a.Fatalf("%v is answered %v, want accepted %t, refused for %q", m, answer, accepted, why)
	}
	return answer
}

// start begins a life on the witness's disk.
func (a *asker) start(partition uint32, term uint64) {
	a.Helper()
	a.expect(true, "",
		&witnessv1.Message{Kind: witnessv1.Kind_START, Partition: partition, Term: term, Disk: a.hello.Disk})
}

func record(number uint64, hashes ...uint64) *witnessv1.Message {
	return &witnessv1.Message{
		Kind: witnessv1.Kind_RECORD, Partition: 3, Term: 5, Hashes: hashes,
		Id: &witnessv1.ID{Session: 9, Number: number}, Request: []byte("request"),
	}
}

func gc(hash, number uint64) *witnessv1.Message {
	return &witnessv1.Message{
		Kind: witnessv1.Kind_GC, Partition: 3, Term: 5,
		Drops: []*witnessv1.Drop{{Hash: hash, Id: &witnessv1.ID{Session: 9, Number: number}}},
	}
}

func check(hash uint64) *witnessv1.Message {
	return &witnessv1.Message{Kind: witnessv1.Kind_CHECK, Partition: 3, Term: 5, Hashes: []uint64{hash}}
}

func recovery() *witnessv1.Message {
	return &witnessv1.Message{Kind: witnessv1.Kind_RECOVERY_DATA, Partition: 3, Term: 5}
}

func wantRequests(t testing.TB, m *witnessv1.Message, want ...uint64) {
	t.Helper()
	var got []uint64
	for _, r := range m.Requests {
		got = append(got, r.Id.Number)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("requests %v, want %v", got, want)
	}
}

// hooked is a disk whose fsyncs of the log wait, or fail, as a test says.
type hooked struct {
	vfs.FS
	sync func() error
}

func (h hooked) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := h.FS.Create(name, c)
	return hookedFile{file, h}, err
}

type hookedFile struct {
	vfs.File
	fs hooked
}

func (f hookedFile) SyncData() error {
	if err := f.fs.sync(); err != nil {
		return err
	}
	return f.File.SyncData()
}
