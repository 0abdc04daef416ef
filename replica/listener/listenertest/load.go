package listenertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

// Server is a listener that a benchmark puts under load.
type Server interface {
	Serve(listener net.Listener) error
	Shutdown(ctx context.Context) error
}

// Load measures a server of connections over loopback: how fast b.N operations are answered, and what is allocated for
// them. Each connection sends so many operations together, and the next ones once all are answered. Send is called on a
// goroutine of each connection: it repeats that while more returns true, and should allocate nothing meanwhile, so that
// what is counted is the listener's.
func Load(b *testing.B, server Server, connections, pipeline int, send func(conn net.Conn, id int, more func() bool) error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Bound)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), <-served); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	more := func() bool { return left.Add(-int64(pipeline)) > -int64(pipeline) }
	ended := make(chan error, connections)
	for id := range connections {
		go func() {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err == nil {
				err = errors.Join(send(conn, id, more), conn.Close())
			}
			ended <- err
		}()
	}
	for id := range connections {
		if err := <-ended; err != nil {
			b.Error(fmt.Errorf("connection %d: %w", id, err))
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
