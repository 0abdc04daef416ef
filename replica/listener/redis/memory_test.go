package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

const mib = 1 << 20

// grain is in which steps connections are charged, in bytes.
const grain = 16 << 10

// boundedMemory is the memory of clients with its metrics.
type boundedMemory struct {
	*operation.Memory
	registry *prometheus.Registry
}

// evicted is how many connections were closed.
func (m boundedMemory) evicted(t *testing.T) float64 {
	t.Helper()
	return listenertest.Metric(t, m.registry, "georegister_server_evicted_total",
		map[string]string{"listener": "redis"})
}

// serveBounded serves Redis with a bound on what clients hold.
func serveBounded(t *testing.T, limit int64) (memory boundedMemory, address string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	memory = boundedMemory{operation.NewMemory(limit, operation.NewMetrics(registry), nil), registry}
	_, address = serveRedis(t,
		Options{
			Options: operation.Options{
				Memory: memory.Memory, Limits: register.Limits{KeyBytes: 64, ValueBytes: 8 * mib},
			},
		})
	return memory, address
}

// hungUp reports whether the server closed the connection.
func (w *speaker) hungUp() bool {
	w.t.Helper()
	if err := w.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.in.Peek(1)
	if err := w.SetDeadline(time.Now().Add(listenertest.Bound)); err != nil {
		w.t.Fatal(err)
	}
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// unfinished is the beginning of a command, of about so many bytes.
func unfinished(bytes int) string {
	return fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s", bytes+1, strings.Repeat("a", bytes))
}

func TestTheLargestGoesFirst(t *testing.T) {
	t.Parallel()
	memory, address := serveBounded(t, 11*mib)
	sent := int64(0)
	var all []*speaker
	for _, size := range []int{6 * mib, 1 * mib, 2 * mib, mib / 2} {
		w := dialWire(t, address)
		w.send(unfinished(size))
		sent += int64(size)
		listenertest.WaitUntil(t, fmt.Sprintf("the server holds what was sent, %d", sent), func() bool {
			return memory.Used() >= sent && memory.Used() < sent+mib/2
		})
		all = append(all, w)
	}
	final := dialWire(t, address)
	final.send(unfinished(3 * mib))
	listenertest.WaitUntil(t, "the largest is gone", all[0].hungUp)
	listenertest.WaitUntil(t, "what it held is free", func() bool { return memory.Used() <= 11*mib })
	for _, w := range append(all[1:], final) {
		w.send("a\r\nPING\r\n")
		w.expect("+OK\r\n+PONG\r\n")
	}
	if n := memory.evicted(t); n != 1 {
		t.Errorf("%v connections were closed", n)
	}
	listenertest.WaitUntil(t, "commands that are done hold nothing", func() bool { return memory.Used() < mib })
}

// Many clients send halves of commands: what they hold stays within the limit, and others are served.
func TestUnfinishedCommandsAreBounded(t *testing.T) {
	t.Parallel()
	const limit, each, count = 8 * mib, mib / 2, 100
	memory, address := serveBounded(t, limit)
	user := dialWire(t, address)
	for range count {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, unfinished(each)) // it may be closed meanwhile
		user.send("SET k v\r\nGET k\r\n")
		user.expect("+OK\r\n$1\r\nv\r\n")
		// At most one step of one connection is over, until someone is closed for it.
		if used := memory.Used(); used > limit+2*each {
			t.Fatalf("clients hold %d bytes", used)
		}
	}
	least := float64(count - limit/each)
	listenertest.WaitUntil(t, "enough are gone", func() bool { return memory.evicted(t) >= least })
	listenertest.WaitUntil(t, "the rest is within the limit", func() bool { return memory.Used() <= limit })
}

// Idle connections count too: of those that hold half a command each, as many stay as there is room for, and can finish
// it.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const count = 300
	const limit = count / 2 * 2 * grain
	memory, address := serveBounded(t, limit)
	var all []*speaker
	for range count {
		w := dialWire(t, address)
		_, _ = io.WriteString(w.Conn, "*2\r\n$4\r\nECHO\r\n$1")
		all = append(all, w)
	}
	listenertest.WaitUntil(t, "half of them are gone", func() bool {
		return memory.evicted(t) >= count/2 && memory.Used() <= limit
	})
	served := 0
	for _, w := range all {
		if !w.hungUp() {
			w.send("\r\na\r\n")
			if _, err := w.in.Peek(1); errors.Is(err, io.EOF) {
				continue // its end was on the way
			}
			w.expect("$1\r\na\r\n")
			served++
		}
	}
	if served < count/3 || served > count/2 {
		t.Errorf("%d of %d are left", served, count)
	}
}

// A client that asks for much and never reads is closed; one that reads is served.
func TestUnreadRepliesAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 8 * mib
	memory, address := serveBounded(t, limit)
	user := dialWire(t, address)
	value := strings.Repeat("v", mib/2)
	set := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n%s\r\n", len(value), value)
	user.send(set)
	user.expect("+OK\r\n")
	mute := dialWire(t, address)
	go func() { _, _ = io.WriteString(mute.Conn, strings.Repeat("GET large\r\n", 1000)) }() // until it is closed
	listenertest.WaitUntil(t, "the one that never reads is gone", func() bool {
		user.send("PING\r\n")
		user.expect("+PONG\r\n")
		if used := memory.Used(); used > limit+2*int64(len(value)) {
			t.Fatalf("clients hold %d bytes", used)
		}
		return memory.evicted(t) == 1
	})
	for range 20 {
		user.send("STRLEN large\r\n")
		user.expect(fmt.Sprintf(":%d\r\n", len(value)))
	}
	listenertest.WaitUntil(t, "what it held is free", func() bool { return memory.Used() < mib })
}

// Operations of a client that is gone count until they end, and with them those that wait for them since they have the
// same key.
func TestOperationsUnderWayCount(t *testing.T) {
	t.Parallel()
	hold, begun := make(chan struct{}), make(chan struct{})
	registry := prometheus.NewRegistry()
	memory := operation.NewMemory(64*mib, operation.NewMetrics(registry), nil)
	store := &listenertest.Memory{Intercept: func(op register.Operation) (r register.Result, applied, answered bool) {
		if op.Kind == register.Write {
			close(begun)
		}
		<-hold
		return register.Result{Status: register.Unavailable}, false, true
	}}
	r, address := serveRedis(t, Options{Options: operation.Options{Memory: memory, Store: blocking{store}}})
	w := dialWire(t, address)
	value := strings.Repeat("v", mib)
	w.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value))
	<-begun
	w.send(strings.Repeat("GET k\r\nMGET k other k\r\n", 20))
	listenertest.WaitUntil(t, "reads wait for the write", func() bool { return r.pending() == 1+20+3*20 })
	w.Close()
	r.mu.Lock()
	for c := range r.connections {
		go c.abandon()
	}
	r.mu.Unlock()
	listenertest.WaitUntil(t, "the connection is over", func() bool { return r.clients() == 0 })
	used := memory.Used()
	if used < mib || listenertest.Metric(t, registry, "georegister_server_client_memory_bytes", nil) != float64(used) {
		t.Errorf("an operation of %d bytes is under way, and %d are counted", mib, used)
	}
	close(hold)
	listenertest.WaitUntil(t, "nothing is counted", func() bool { return memory.Used() == 0 })
}

// pending is how many operations of all connections are not answered.
func (r *Server) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for c := range r.connections {
		c.calls.mu.Lock()
		n += c.calls.pending
		c.calls.mu.Unlock()
	}
	return n
}

// blocking answers from goroutines that may be held.
type blocking struct{ operation.Store }

func (b blocking) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	go b.Store.Submit(op, timeout, done)
}

// A listener that stops waits for no one who waits for memory.
func TestShutdownWithoutMemory(t *testing.T) {
	t.Parallel()
	memory := operation.NewMemory(mib, nil, nil)
	r, address := serveRedis(t, Options{Options: operation.Options{Memory: memory}})
	w := dialWire(t, address)
	w.send("PING\r\n")
	w.expect("+PONG\r\n")
	other := memory.Open("grpc", w.LocalAddr(), func() {})
	other.Leave() // it goes, and takes its time
	other.Hold(2 * mib)
	w.send("PING\r\n")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if r.clients() != 0 {
		t.Error("connections are left")
	}
	other.End(0)
	listenertest.WaitUntil(t, "nothing is counted", func() bool { return memory.Used() == 0 })
}
