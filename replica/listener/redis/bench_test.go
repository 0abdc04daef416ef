package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/listener/listenertest"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
)

// echo answers every operation from one other goroutine, as a shard's loop does, and costs next to nothing.
type echo struct{ work chan func() }

func newEcho(b *testing.B) *echo {
	e := &echo{work: make(chan func(), 4096)}
	go func() {
		for f := range e.work {
			f()
		}
	}()
	b.Cleanup(func() { close(e.work) })
	return e
}

func (e *echo) Submit(op register.Operation, _ time.Duration, done func(register.Result)) {
	e.work <- func() { done(register.Result{Status: register.OK, Value: op.Value}) }
}

// BenchmarkRedis sends SETs of 16 bytes over loopback: one at a time on each of many connections, or in
// pipelines. The client's own allocations are none.
func BenchmarkRedis(b *testing.B) {
	for _, shape := range []struct{ connections, pipeline int }{{1, 1}, {16, 1}, {128, 1}, {16, 16}} {
		b.Run(fmt.Sprintf("connections=%d/pipeline=%d", shape.connections, shape.pipeline), func(b *testing.B) {
			r, err := New(Options{Options: operation.Options{Store: newEcho(b)}})
			if err != nil {
				b.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- r.Serve(listener) }()
			b.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), listenertest.Bound)
				defer cancel()
				if err := r.Shutdown(ctx); err != nil {
					b.Error(err)
				}
				if err := <-served; err != nil {
					b.Error(err)
				}
			})
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			ended := make(chan error, shape.connections)
			for id := range shape.connections {
				go func() { ended <- setMany(listener.Addr().String(), id, shape.pipeline, &left) }()
			}
			for range shape.connections {
				if err := <-ended; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

func setMany(address string, id, pipeline int, left *atomic.Int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	var batch strings.Builder
	for i := range pipeline {
		fmt.Fprintf(&batch, "*3\r\n$3\r\nSET\r\n$8\r\nk%03d-%03d\r\n$16\r\n0123456789abcdef\r\n", id, i)
	}
	request := []byte(batch.String())
	in := bufio.NewReader(conn)
	for left.Add(-int64(pipeline)) > -int64(pipeline) {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		for range pipeline {
			if line, err := in.ReadSlice('\n'); err != nil || string(line) != "+OK\r\n" {
				return fmt.Errorf("answered %q: %w", line, err)
			}
		}
	}
	return nil
}
