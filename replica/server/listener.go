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
		return &countedConn{Conn: conn, gate: make(gate, l.options.MaxInFlight), closed: func() {
			l.open.Add(-1)
			metrics.connections.WithLabelValues("grpc").Dec()
		}}, nil
	}
}

// countedConn carries its gate in its remote address, which is what gRPC shows of a connection to a call.
type countedConn struct {
	net.Conn
	gate   gate
	once   sync.Once
	closed func()
}

type gatedAddress struct {
	net.Addr
	gate gate
}

func (c *countedConn) RemoteAddr() net.Addr { return gatedAddress{c.Conn.RemoteAddr(), c.gate} }

func (c *countedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}
