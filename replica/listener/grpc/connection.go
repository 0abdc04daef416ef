package grpc

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/georegister/georegister/replica/listener/operation"
)

// countingListener counts connections, refuses those over the bound, and gives each its gate.
type countingListener struct {
	net.Listener
	options *operation.Options
	metrics *operation.ListenerMetrics
	open    atomic.Int64
}

// Accept returns the next connection within the bound; others are closed.
func (l *countingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Load() >= int64(l.options.MaxConnections) {
			l.metrics.Refused.Inc()
			conn.Close()
			continue
		}
		l.open.Add(1)
		l.metrics.Accepted.Inc()
		l.metrics.Open.Inc()
		c := &countedConn{
			Conn: conn, in: bufio.NewReaderSize(conn, readBytes), caller: newCaller(l.options.MaxInFlight),
		}
		c.caller.memory = l.options.Memory.Open("grpc", conn.RemoteAddr(), c.evict)
		c.caller.hold(callerOverhead)
		c.closed = func() {
			c.caller.calls.close()
			c.caller.end()
			l.open.Add(-1)
			l.metrics.Open.Dec()
		}
		return c, nil
	}
}

// countedConn carries its caller in its remote address, which is what gRPC shows of a connection to a call.
type countedConn struct {
	net.Conn
	in      *bufio.Reader
	caller  *caller
	writing sync.Mutex
	refusal sync.Once
	once    sync.Once
	closed  func()
}

// readBytes is how much is read of a connection at once. The library reads from that, a frame at a time.
const readBytes = 32 << 10

type callerAddress struct {
	net.Addr
	caller *caller
}

func (c *countedConn) RemoteAddr() net.Addr { return callerAddress{c.Conn.RemoteAddr(), c.caller} }

// Read reads nothing while clients hold more than they may.
func (c *countedConn) Read(p []byte) (int, error) {
	if !c.caller.memory.Wait() {
		c.evict()
		return 0, net.ErrClosed
	}
	n, err := c.in.Read(p)
	c.caller.calls.received(p[:n])
	return n, err
}

// Write follows what the library sends.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	c.caller.calls.sent(p[:n])
	return n, err
}

// evict closes the connection and tells calls whose message has not ended why, unless the client reads nothing.
func (c *countedConn) evict() {
	c.refusal.Do(func() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Second)) // also ends a Write that waits
		c.writing.Lock()
		defer c.writing.Unlock()
		_, _ = c.Conn.Write(c.caller.calls.refusal())
	})
	_ = c.Close()
}

// caller is one connection of gRPC, with all of its calls.
type caller struct {
	gate   gate
	mu     sync.Mutex
	memory *operation.Account
	calls  *calls
	held   int // by operations under way and answers that are not sent
}

// callerOf is the call's connection: all of them come from the countingListener.
func callerOf(ctx context.Context) *caller {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(callerAddress).caller
}

// callerOverhead is what a connection of gRPC holds that does nothing: buffers, goroutines with their stacks, and
// itself.
const callerOverhead = 128 << 10

func newCaller(inFlight int) *caller {
	c := &caller{gate: make(gate, inFlight)}
	c.calls = newCalls(c)
	return c
}

// hold notes that the connection holds n bytes more, or less.
func (c *caller) hold(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
	c.memory.Hold(n)
}

// end notes that the connection is closed: what is under way is held until it ends.
func (c *caller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= callerOverhead
	c.memory.End(c.held)
}

func (c *countedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// gate bounds the operations in flight of one connection, over all of its calls.
type gate chan struct{}

// enter waits for a place.
func (t gate) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives a place back.
func (t gate) leave() { <-t }
