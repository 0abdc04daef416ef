package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// countingListener counts connections, refuses those over the bound, and gives each its gate.
type countingListener struct {
	net.Listener
	options *Options
	open    atomic.Int64
}

// Accept returns the next connection within the bound; others are closed.
func (l *countingListener) Accept() (net.Conn, error) {
	metrics := l.options.Metrics
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Load() >= int64(l.options.MaxConnections) {
			metrics.refused.WithLabelValues("grpc").Inc()
			conn.Close()
			continue
		}
		l.open.Add(1)
		metrics.accepted.WithLabelValues("grpc").Inc()
		metrics.connections.WithLabelValues("grpc").Inc()
		c := &countedConn{Conn: conn, caller: newCaller(l.options.MaxInFlight)}
		c.caller.memory = l.options.Memory.open("grpc", conn.RemoteAddr(), func() { _ = c.Close() })
		c.caller.hold(callerOverhead)
		c.closed = func() {
			c.caller.end()
			l.open.Add(-1)
			metrics.connections.WithLabelValues("grpc").Dec()
		}
		return c, nil
	}
}

// countedConn carries its caller in its remote address, which is what gRPC shows of a connection to a call.
type countedConn struct {
	net.Conn
	caller *caller
	once   sync.Once
	closed func()
}

type callerAddress struct {
	net.Addr
	caller *caller
}

func (c *countedConn) RemoteAddr() net.Addr { return callerAddress{c.Conn.RemoteAddr(), c.caller} }

// Read reads nothing while clients hold more than they may.
func (c *countedConn) Read(p []byte) (int, error) {
	if !c.caller.memory.wait() {
		return 0, net.ErrClosed
	}
	return c.Conn.Read(p)
}

// caller is one connection of gRPC, with all of its calls.
type caller struct {
	gate   gate
	mu     sync.Mutex
	memory *account // nil: nobody counts
	held   int      // by operations under way and answers that are not sent
}

// callerOverhead is what a connection of gRPC holds that does nothing: buffers, goroutines with their stacks, and itself.
const callerOverhead = 128 << 10

func newCaller(inFlight int) *caller { return &caller{gate: make(gate, inFlight)} }

// hold notes that the connection holds n bytes more, or less.
func (c *caller) hold(n int) {
	if c.memory == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
	c.memory.hold(n)
}

// end notes that the connection is closed: what is under way is held until it ends.
func (c *caller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= callerOverhead
	c.memory.end(c.held)
}

func (c *countedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}
