package listenertest

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Server is a listener.
type Server interface {
	Serve(listener net.Listener) error
	Shutdown(ctx context.Context) error
}

// Serve has a server serve at a port of this machine, and returns the address. It is open until stop is called, which
// must be once, before the test ends.
func Serve(t testing.TB, server Server) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() {
		if err := errors.Join(server.Shutdown(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	}, nil
}

// Load measures a server of connections over loopback: how fast b.N operations are answered, and what is allocated for
// them. Each connection sends so many operations together, and the next ones once all are answered. Send is called on a
// goroutine of each connection: it repeats that while more returns true, and should allocate nothing meanwhile, so that
// what is counted is the listener's.
func Load(
	b *testing.B, server Server, connections, pipeline int, send func(conn net.Conn, id int, more func() bool) error,
) {
	address, stop, err := Serve(b, server)
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	more := func() bool { return left.Add(-int64(pipeline)) > -int64(pipeline) }
	var clients errgroup.Group
	for id := range connections {
		clients.Go(func() error {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			return errors.Join(send(conn, id, more), conn.Close())
		})
	}
	if err := clients.Wait(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.StopTimer()
}
