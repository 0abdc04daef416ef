package bench

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/georegister/georegister/replica/register"
)

// refusingDialer opens no connection.
type refusingDialer struct{ reason error }

func (d refusingDialer) Dial(context.Context, string) (Conn, error) { return nil, d.reason }

func TestAStoreThatIsDownIsReportedOnce(t *testing.T) {
	o := options(refusingDialer{os.ErrPermission})
	if _, err := Run(t.Context(), o); err != os.ErrPermission {
		t.Errorf("clients: %v", err)
	}
	if err := Fill(t.Context(), o); err != os.ErrPermission {
		t.Errorf("the fill: %v", err)
	}
}

// countingDialer answers at once.
type countingDialer struct {
	dialled, closed, done atomic.Int64
	fail                  error
}

func (d *countingDialer) Dial(context.Context, string) (Conn, error) {
	d.dialled.Add(1)
	return countingConn{d}, nil
}

type countingConn struct{ dialer *countingDialer }

func (c countingConn) Do(_ context.Context, ops []register.Operation) error {
	c.dialer.done.Add(int64(len(ops)))
	return c.dialer.fail
}

func (c countingConn) Close() error {
	c.dialer.closed.Add(1)
	return nil
}

func options(dialer Dialer) Options {
	return Options{
		Dialer: dialer, Addresses: []string{"a", "b"}, Clients: 5, Depth: 3,
		Kinds: []register.Kind{register.Write}, Keys: 10,
		Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Servers: []int{os.Getpid()},
	}
}

func TestRunCountsWhatIsAnsweredInTheWindow(t *testing.T) {
	dialer := &countingDialer{}
	result, err := Run(t.Context(), options(dialer))
	if err != nil {
		t.Fatal(err)
	}
	if result.Operations == 0 || result.Operations > dialer.done.Load() || result.Operations%3 != 0 {
		t.Errorf("counted %d operations of %d, in batches of 3", result.Operations, dialer.done.Load())
	}
	if dialer.dialled.Load() != 5 || dialer.closed.Load() != 5 {
		t.Errorf("%d connections opened and %d closed, want 5", dialer.dialled.Load(), dialer.closed.Load())
	}
}

func TestRunFailsWithItsClients(t *testing.T) {
	dialer := &countingDialer{fail: os.ErrInvalid}
	if _, err := Run(t.Context(), options(dialer)); err != os.ErrInvalid {
		t.Errorf("got %v, want the clients' error", err)
	}
}

func TestRunRefusesWhatItCannotMeasure(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"clients":   func(o *Options) { o.Clients = 0 },
		"depth":     func(o *Options) { o.Depth = 0 },
		"keys":      func(o *Options) { o.Keys = 0 },
		"addresses": func(o *Options) { o.Addresses = nil },
		"duration":  func(o *Options) { o.Duration = 0 },
		"kinds":     func(o *Options) { o.Kinds = nil },
		"rate":      func(o *Options) { o.Rate = -1 },
	} {
		o := options(&countingDialer{})
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error must name it, got: %v", name, err)
		}
	}
}

// A client that waits for what is due sends no more than that.
func TestAnOpenLoopSendsWhatIsDue(t *testing.T) {
	dialer := &countingDialer{}
	o := options(dialer)
	o.Rate, o.Duration = 10_000, 100*time.Millisecond
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := result.Operations; n == 0 || n > 2000 { // 1000 are due
		t.Errorf("%d operations were answered of some 1000 that were due", n)
	}
}

// sluggish is a store that takes the same time for each operation.
type sluggish struct {
	takes time.Duration
	done  atomic.Int64
}

func (d *sluggish) Dial(context.Context, string) (Conn, error) { return d, nil }

func (d *sluggish) Do(context.Context, []register.Operation) error {
	time.Sleep(d.takes)
	d.done.Add(1)
	return nil
}

func (d *sluggish) Close() error { return nil }

// A store that is offered more than it can do would have all the rest to do after the measured time.
func TestAnOpenLoopEndsInTime(t *testing.T) {
	store := &sluggish{takes: 20 * time.Millisecond}
	o := options(store)
	o.Clients, o.Depth, o.Rate, o.Warmup, o.Duration = 1, 1, 100_000, 0, 100*time.Millisecond
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if most := int64(o.Duration/store.takes) + 1; store.done.Load() > most {
		t.Errorf("%d operations were sent, and no more than %d can have begun in time", store.done.Load(), most)
	}
}

// Whoever asks, operations become due in order, and as many as there should be.
func TestArrivalsAreSharedByClients(t *testing.T) {
	const n = 10_000
	begin := time.Unix(0, 0)
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1)), between: float64(time.Millisecond)}
	latest := begin
	for i := range n {
		due := a.take(begin.Add(time.Duration(i%7) * time.Second))
		if due.Before(latest) {
			t.Fatalf("one is due at %s after one at %s", due, latest)
		}
		latest = due
	}
	if took := latest.Sub(begin); took < n*9/10*time.Millisecond || took > n*11/10*time.Millisecond {
		t.Errorf("%d arrivals took %s", n, took)
	}
}

func TestValuesDiffer(t *testing.T) {
	rng, values := rand.New(rand.NewPCG(1, 1)), newPool(100)
	a, b := values.draw(rng), values.draw(rng)
	if len(a) != 100 || bytes.Equal(a, b) {
		t.Errorf("two values: %x and %x", a, b)
	}
}

func TestFillWritesEveryKeyOnce(t *testing.T) {
	dialer := &countingDialer{}
	o := options(dialer)
	o.Keys = 1000
	if err := Fill(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if dialer.done.Load() != 1000 {
		t.Errorf("%d writes for 1000 keys", dialer.done.Load())
	}
	if err := ReadAll(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := dialer.done.Load() - 1000; n != 2000 {
		t.Errorf("%d reads of 1000 keys at two addresses", n)
	}
}

func TestRedisDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	asked := make(chan string, 1)
	const want = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n" +
		"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\nx\r\n" +
		"*3\r\n$6\r\nINCRBY\r\n$1\r\nc\r\n$1\r\n1\r\n"
	go func() {
		conn, err := l.Accept()
		if err != nil {
			asked <- err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		got := make([]byte, len(want))
		_, err = io.ReadFull(conn, got)
		if err != nil {
			asked <- err.Error()
			return
		}
		_, _ = conn.Write([]byte("$3\r\na\r\n\r\n+OK\r\n-ERR no\r\n"))
		asked <- string(got)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := redisDialer{}.Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Do(ctx, []register.Operation{
		{Kind: register.Read, Key: "a"},
		{Kind: register.Write, Key: "b", Value: register.Value("x")},
		{Kind: register.RMW, Key: "c", Call: register.Call{Args: [][]byte{[]byte("1")}}},
	})
	if err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("the store's error must reach the caller, got: %v", err)
	}
	if got := <-asked; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	_ = conn.Close()
}

// The bytes are those of etcd's rpc.proto: result GREATER, key, version -1; then a request_put.
func TestEtcdTransaction(t *testing.T) {
	txn := appendTxn(nil, "k", []byte("v"))
	number, _, n := protowire.ConsumeTag(txn)
	compare, m := protowire.ConsumeBytes(txn[n:])
	if number != 1 || !bytes.HasPrefix(compare, []byte{0x08, 1, 0x1a, 1, 'k', 0x20, 0xff}) {
		t.Errorf("compare is %x", compare)
	}
	number, _, k := protowire.ConsumeTag(txn[n+m:])
	put, _ := protowire.ConsumeBytes(txn[n+m+k:])
	if number != 2 || !bytes.Equal(put, []byte{0x12, 6, 0x0a, 1, 'k', 0x12, 1, 'v'}) {
		t.Errorf("success is %x", put)
	}
}

func TestParseClock(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0:01.50": 1500 * time.Millisecond, "01:02:03": time.Hour + 2*time.Minute + 3*time.Second,
	} {
		if got, err := parseClock(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	if _, err := parseClock("x"); err == nil {
		t.Error("x must be refused")
	}
}
