package redis

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/test/listenertest"
)

// BenchmarkRedis sends SETs of 16 bytes over loopback: one at a time on each of many connections, or in
// pipelines. The client's own allocations are none.
func BenchmarkRedis(b *testing.B) {
	for _, shape := range []struct{ connections, pipeline int }{{1, 1}, {16, 1}, {128, 1}, {16, 16}} {
		b.Run(fmt.Sprintf("connections=%d/pipeline=%d", shape.connections, shape.pipeline), func(b *testing.B) {
			r, err := New(Options{Options: operation.Options{Store: listenertest.NewEcho(b)}})
			if err != nil {
				b.Fatal(err)
			}
			listenertest.Load(b, r, shape.connections, shape.pipeline,
				func(conn net.Conn, id int, more func() bool) error {
					return setMany(conn, id, shape.pipeline, more)
				})
		})
	}
}

func setMany(conn net.Conn, id, pipeline int, more func() bool) error {
	var batch strings.Builder
	for i := range pipeline {
		fmt.Fprintf(&batch, "*3\r\n$3\r\nSET\r\n$8\r\nk%03d-%03d\r\n$16\r\n0123456789abcdef\r\n", id, i)
	}
	request := []byte(batch.String())
	in := bufio.NewReader(conn)
	for more() {
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
