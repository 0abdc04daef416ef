package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/server/servertest"
)

const bound = 20 * time.Second // on everything that a test waits for

// serveRedis starts a Redis door on loopback and returns its address.
func serveRedis(t *testing.T, options RedisOptions) (*Redis, string) {
	t.Helper()
	if options.Store == nil {
		options.Store = &servertest.Memory{}
	}
	r, err := NewRedis(options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r, listener.Addr().String()
}

// wire is a connection on which a test speaks RESP itself.
type wire struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialWire(t *testing.T, address string) *wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	return &wire{t: t, Conn: conn, in: bufio.NewReader(conn)}
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.Conn, text); err != nil {
		w.t.Fatal(err)
	}
}

// expect reads exactly text.
func (w *wire) expect(text string) {
	w.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(w.in, got); err != nil || string(got) != text {
		w.t.Fatalf("got %q, %v\nwant %q", got[:n], err, text)
	}
}

// expectEnd waits until the server closes the connection.
func (w *wire) expectEnd() {
	w.t.Helper()
	if rest, err := io.ReadAll(w.in); err != nil || len(rest) > 0 {
		w.t.Fatalf("instead of the end: %q, %v", rest, err)
	}
}

// waitUntil polls a condition.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
