package bench

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
)

// answering accepts one connection, and returns what a client sent once it has got an answer.
func answering(t *testing.T, answer string) (address string, sent chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	sent = make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		_, _ = io.WriteString(conn, answer) // the client reads it once it has sent
		all, _ := io.ReadAll(conn)
		sent <- string(all)
	}()
	return listener.Addr().String(), sent
}

// A change is answered when a replica of Redis has it; what only reads waits for none.
func TestChangesWaitForAReplica(t *testing.T) {
	write := register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}
	read := register.Operation{Kind: register.Read, Key: "k"}
	for name, c := range map[string]struct {
		operations []register.Operation
		answer     string
		waits, ok  bool
	}{
		"one has it":  {[]register.Operation{write}, "+OK\r\n:1\r\n", true, true},
		"none has it": {[]register.Operation{write}, "+OK\r\n:0\r\n", true, false},
		"refused":     {[]register.Operation{write}, "+OK\r\n-ERR WAIT cannot be used\r\n", true, false},
		"with a read": {[]register.Operation{read, write}, "$1\r\nv\r\n+OK\r\n:2\r\n", true, true},
		"a read":      {[]register.Operation{read}, "$-1\r\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			dialer, err := FindDialer("WAIT")
			if err != nil {
				t.Fatal(err)
			}
			address, sent := answering(t, c.answer)
			conn, err := dialer.Dial(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Do(t.Context(), c.operations); (err == nil) != c.ok {
				t.Errorf("answered %q: %v", c.answer, err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			if commands := <-sent; strings.Contains(commands, "WAIT\r\n$1\r\n1\r\n") != c.waits {
				t.Errorf("sent %q", commands)
			}
		})
	}
}
