package redis

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// serveRedis starts a Redis listener on loopback and returns its address.
func serveRedis(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	if options.Store == nil {
		options.Store = &listenertest.Memory{}
	}
	r, err := New(options)
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
		ctx, cancel := context.WithTimeout(context.Background(), listenertest.Bound)
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

// speaker is a connection on which a test speaks RESP itself.
type speaker struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialWire(t *testing.T, address string) *speaker {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, listenertest.Bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(listenertest.Bound)); err != nil {
		t.Fatal(err)
	}
	return &speaker{t: t, Conn: conn, in: bufio.NewReader(conn)}
}

func (w *speaker) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.Conn, text); err != nil {
		w.t.Fatal(err)
	}
}

// expect reads exactly text.
func (w *speaker) expect(text string) {
	w.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(w.in, got); err != nil || string(got) != text {
		w.t.Fatalf("got %q, %v\nwant %q", got[:n], err, text)
	}
}

// expectEnd waits until the server closes the connection.
func (w *speaker) expectEnd() {
	w.t.Helper()
	if rest, err := io.ReadAll(w.in); err != nil || len(rest) > 0 {
		w.t.Fatalf("instead of the end: %q, %v", rest, err)
	}
}

func TestReadOnlyReadsMayBeStale(t *testing.T) {
	store := &listenertest.Memory{NoRMW: true}
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store}})
	w := dialWire(t, address)
	other := dialWire(t, address)
	for _, c := range []struct {
		from    *speaker
		command string
		want    []bool // of each read that it leads to, whether it may be stale
	}{
		{w, "GET k", []bool{false}}, {w, "READONLY", nil}, {w, "GET k", []bool{true}}, {w, "STRLEN k", []bool{true}},
		{w, "TYPE k", []bool{true}}, {w, "MGET k l", []bool{true, true}}, {w, "GETRANGE k 0 1", []bool{true}},
		{w, "EXISTS k", []bool{true}}, {other, "GET k", []bool{false}}, {w, "DEL k", []bool{false}},
		{w, "READWRITE", nil},
		{w, "GET k", []bool{false}}, {w, "READONLY", nil}, {w, "RESET", nil}, {w, "GET k", []bool{false}},
	} {
		before := len(store.Submitted())
		c.from.send(c.command + "\r\n" + "PING\r\n")
		for line := ""; line != "+PONG\r\n"; {
			var err error
			if line, err = c.from.in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		var got []bool
		for _, op := range store.Submitted()[before:] {
			if op.Kind == register.Read {
				got = append(got, op.Stale)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s leads to reads that may be stale: %t, want %t", c.command, got, c.want)
		}
	}
}
