package manage

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/witness/server"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// run starts a witness, and returns where it is and how to stop it.
func run(t *testing.T, directory, address string) (at string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- witness.Run(ctx, witness.Config{
			Cluster: "c", Self: 7, Directory: directory, Durability: witness.Sync,
			Listen: witness.Listen{Peer: address},
		}, witness.Options{Listening: func(peer net.Addr) { listening <- peer.String() }})
	}()
	over := false
	stop = func() {
		t.Helper()
		if over {
			return
		}
		over = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case at = <-listening:
	case err := <-ended:
		over = true
		cancel()
		t.Fatal(err)
	}
	return at, stop
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, address string, options ...grpc.DialOption) *Conn {
	t.Helper()
	c := Dial("c", 7, address, options...)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func wantLives(t *testing.T, c *Conn, want ...membership.Life) string {
	t.Helper()
	r, err := c.Report(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if r.Witness != 7 || r.Disk == "" || !slices.Equal(r.Lives, want) {
		t.Errorf("%+v, want the lives %v", r, want)
	}
	return r.Disk
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q in it", err, part)
		}
	}
}

func TestWireVersionIsTheServers(t *testing.T) {
	if wireVersion != server.WireVersion {
		t.Errorf("%d, want %d", wireVersion, server.WireVersion)
	}
}

func TestLivesBeginAndEnd(t *testing.T) {
	address, _ := run(t, t.TempDir(), "127.0.0.1:0")
	c := dial(t, address)
	disk := wantLives(t, c)
	for range 2 { // the second time is a repetition
		if err := c.Start(patient(t), 3, 5, disk); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Start(patient(t), 4, 6, disk); err != nil {
		t.Fatal(err)
	}
	wantLives(t, c, membership.Life{Witness: 7, Partition: 3, Term: 5},
		membership.Life{Witness: 7, Partition: 4, Term: 6})
	for range 2 {
		if err := c.End(patient(t), 3, 5); err != nil {
			t.Fatal(err)
		}
	}
	wantLives(t, c, membership.Life{Witness: 7, Partition: 4, Term: 6})
	wantError(t, c.Start(patient(t), 3, 5, disk), "witness 7 at "+address,
		"begin the life for term 5 of partition 3", "is not above 5")
	wantError(t, c.Start(patient(t), 3, 9, "another"), "disk: this witness's is")
	wantError(t, c.End(patient(t), 1<<17, 1), "end the life for term 1", "partition: give one")
}

// A witness that restarts, at the same address, is dialed again without anybody's doing, with what it had.
func TestARestartIsHardlyNoticed(t *testing.T) {
	directory := t.TempDir()
	address, stop := run(t, directory, "127.0.0.1:0")
	c := dial(t, address)
	disk := wantLives(t, c)
	if err := c.Start(patient(t), 3, 5, disk); err != nil {
		t.Fatal(err)
	}
	stop()
	_, err := c.Report(patient(t))
	wantError(t, err, "witness 7 at "+address+": ask for its lives: ", "see that it runs")
	run(t, directory, address)
	for ctx := patient(t); ; {
		if _, err = c.Report(ctx); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if wantLives(t, c, membership.Life{Witness: 7, Partition: 3, Term: 5}) != disk {
		t.Error("the disk has another name")
	}
}

func TestAnotherWitnessIsNotMistaken(t *testing.T) {
	address, _ := run(t, t.TempDir(), "127.0.0.1:0")
	for want, c := range map[string]*Conn{
		`cluster "d" is not "c"`: Dial("d", 7, address),
		"called at the address":  Dial("c", 8, address),
	} {
		_, err := c.Report(patient(t))
		wantError(t, err, " at "+address, want, "correct the address")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := dial(t, "no scheme:// \x00").Report(patient(t))
	wantError(t, err, "witness 7")
}

// mute is a witness that says hello, as whoever it is said to be, and answers nothing after it.
type mute struct {
	witnessv1.UnimplementedWitnessesServer
	self  uint32
	asked chan struct{} // a question came
}

func (m *mute) Stream(g witnessv1.Witnesses_StreamServer) error {
	f, err := g.Recv()
	if err != nil {
		return err
	}
	if err := g.Send(&witnessv1.Frame{Hello: &witnessv1.Hello{Cluster: f.Hello.Cluster, From: m.self}}); err != nil {
		return err
	}
	if len(f.Messages) > 0 {
		m.asked <- struct{}{}
	}
	<-g.Context().Done()
	return g.Context().Err()
}

func serveMute(t *testing.T, self uint32) (*mute, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mute{self: self, asked: make(chan struct{}, 10)}
	s := grpc.NewServer()
	witnessv1.RegisterWitnessesServer(s, m)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m, listener.Addr().String()
}

func TestContextsAreHonoured(t *testing.T) {
	m, address := serveMute(t, 7)
	c := dial(t, address)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.End(ctx, 3, 5) }()
	<-m.asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Report(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() {
		_, err := c.Report(patient(t))
		ended <- err
	}()
	<-m.asked
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-ended, "witness 7")
	_, err := c.Report(patient(t))
	wantError(t, err, "connection is closing")
}

// A question that is given up leaves others alone.
func TestQuestionsDoNotWaitForEachOther(t *testing.T) {
	m, address := serveMute(t, 7)
	c := dial(t, address)
	first, give := context.WithCancel(context.Background())
	defer give()
	second, cancel := context.WithCancel(context.Background())
	gaveUp, ended := make(chan error, 1), make(chan error, 1)
	go func() { gaveUp <- c.End(first, 3, 5) }()
	<-m.asked
	go func() { ended <- c.End(second, 3, 6) }()
	<-m.asked
	give()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the other one ended, too: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWhoAnswersIsLookedAt(t *testing.T) {
	_, address := serveMute(t, 8)
	_, err := dial(t, address).Report(patient(t))
	wantError(t, err, `witness 8 of cluster "c" answered, not witness 7`, "correct the address")
}
