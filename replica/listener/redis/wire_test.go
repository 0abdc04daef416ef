package redis

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

func TestWireReplies(t *testing.T) {
	for _, test := range []struct{ name, send, want string }{
		{"inline", "SET k 'a b'\r\nGET k\n", "+OK\r\n$3\r\na b\r\n"},
		{"versions in a pipeline", "GET x\r\nHELLO 3 SETNAME me\r\nGET x\r\nRESET\r\nGET x\r\n", "$-1\r\n" +
			"%7\r\n$6\r\nserver\r\n$11\r\ngeoregister\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n" +
			"$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n" +
			"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n" +
			"_\r\n+RESET\r\n$-1\r\n"},
		{"quit", "SET k v\r\nQUIT\r\nSET k w\r\n", "+OK\r\n+OK\r\n"},
		{"malformed", "*1\r\n$4\r\nPING\r\n*1\r\n!\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, address := serveRedis(t, Options{})
			w := dialWire(t, address)
			w.send(test.send)
			w.expect(test.want)
			if test.name == "quit" || test.name == "malformed" {
				w.expectEnd()
			}
		})
	}
}

// TestHalfClose shuts down one direction, as a shell pipe does: what was sent is still answered.
func TestHalfClose(t *testing.T) {
	_, address := serveRedis(t,
		Options{Options: operation.Options{Store: &listenertest.Memory{Delay: 5 * time.Millisecond}}})
	w := dialWire(t, address)
	w.send("SET k v\r\nGET k\r\n")
	if err := w.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	w.expect("+OK\r\n$1\r\nv\r\n")
	w.expectEnd()
}

func TestAuthentication(t *testing.T) {
	_, address := serveRedis(t, Options{Password: "secret"})
	w := dialWire(t, address)
	for _, step := range [][2]string{
		{"GET k", "-NOAUTH Authentication required.\r\n"}, {"FROB", "-NOAUTH Authentication required.\r\n"},
		{"AUTH wrong", "-" + wrongPassword + "\r\n"}, {"AUTH other secret", "-" + wrongPassword + "\r\n"},
		{"HELLO 3 AUTH default wrong", "-" + wrongPassword + "\r\n"}, {"AUTH secret", "+OK\r\n"}, {"GET k", "$-1\r\n"},
		{"RESET", "+RESET\r\n"}, {"GET k", "-NOAUTH Authentication required.\r\n"}, {"AUTH default secret", "+OK\r\n"},
		{"PING", "+PONG\r\n"},
	} {
		w.send(step[0] + "\r\n")
		w.expect(step[1])
	}
	other := dialWire(t, address)
	other.send("HELLO 3\r\n")
	other.expect("-NOAUTH HELLO must be called")
	third := dialWire(t, address)
	third.send("HELLO 2 AUTH default secret\r\nGET k\r\n")
	third.expect("*14\r\n")
}

// reading is the present value of a counter or gauge.
func TestOutcomes(t *testing.T) {
	store := &listenertest.Memory{Intercept: func(op register.Operation) (register.Result, bool, bool) {
		switch {
		case strings.HasPrefix(op.Key, "gone"):
			return register.Result{Status: register.Unavailable, Message: "1 of 3 answered"}, false, true
		case strings.HasPrefix(op.Key, "lost"):
			return register.Result{Status: register.Unknown, Message: "1 of 3 answered"}, false, true
		}
		return register.Result{}, false, false
	}}
	registry := prometheus.NewRegistry()
	metrics := operation.NewMetrics(registry)
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store, Metrics: metrics}})
	w := dialWire(t, address)
	gone := "-TRYAGAIN no quorum answered in time, the command has no effect: 1 of 3 answered\r\n"
	lost := "-UNKNOWN outcome: the command may have taken effect, or may yet: 1 of 3 answered\r\n"
	for _, step := range [][2]string{
		{"GET gone", gone}, {"INCR lost", lost}, {"MSET gone1 x gone2 x", gone}, {"MSET gone x lost x", lost},
		{"MSET a x gone x b x", "-UNKNOWN outcome: 2 of 3 keys were changed, for the others: 1 of 3 answered\r\n"},
		{"MGET a gone", gone}, {"GET a", "$1\r\nx\r\n"},
	} {
		w.send(step[0] + "\r\n")
		w.expect(step[1])
	}
	for labels, want := range map[[2]string]float64{
		{"get", "ok"}: 1, {"get", "unavailable"}: 1, {"mset", "unknown"}: 2, {"mset", "unavailable"}: 1,
	} {
		if got := listenertest.Metric(t, registry, "georegister_server_commands_total",
			map[string]string{"listener": "redis", "command": labels[0], "outcome": labels[1]}); got != want {
			t.Errorf("counted %v %v, want %v", got, labels, want)
		}
	}
	if got := listenertest.Metric(t, registry, "georegister_server_connections",
		map[string]string{"listener": "redis"}); got != 1 {
		t.Errorf("%v connections are open", got)
	}
}

// TestWithoutRMW is the listener of a cluster whose protocol has no rmws.
func TestWithoutRMW(t *testing.T) {
	_, address := serveRedis(t,
		Options{
			Options: operation.Options{
				Store: &listenertest.Memory{NoRMW: true}, Identity: operation.Identity{Protocol: "ABD"},
			},
		})
	w := dialWire(t, address)
	for _, step := range [][2]string{
		{"MSET a 1 b 2", "+OK\r\n"}, {"DEL a x b a", ":2\r\n"}, {"EXISTS a b", ":0\r\n"},
		{"INCR n", "-ERR not supported by protocol ABD: it has no read-modify-writes\r\n"},
		{"SET k v NX", "-ERR not supported by protocol ABD: it has no read-modify-writes\r\n"},
	} {
		w.send(step[0] + "\r\n")
		w.expect(step[1])
	}
}

// TestOverlap looks at what of a pipeline is submitted at once: everything on different keys, one of each key,
// and no more than the bound.
func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		send    string
		want    int
	}{
		{"different keys", Options{}, "GET a\r\nGET b\r\nSET c 1\r\n", 3},
		{"one key", Options{}, "SET a 1\r\nGET a\r\nINCR a\r\nGET b\r\n", 2},
		{"bound", Options{Options: operation.Options{MaxInFlight: 2}}, "GET a\r\nGET b\r\nGET c\r\nGET d\r\n", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := &listenertest.Held{}
			options := test.options
			options.Store = store
			r, address := serveRedis(t, options)
			w := dialWire(t, address)
			w.send(test.send + "PING\r\n")
			commands := strings.Count(test.send, "\n")
			// When the PING is in line, all before it has been dispatched; with a bound it does not get there.
			listenertest.WaitUntil(t, "the operations are submitted", func() bool {
				calls, steps := r.inLine()
				return calls == commands+1 ||
					options.MaxInFlight > 0 && steps == options.MaxInFlight && store.Count() == steps
			})
			if got := store.Count(); got != test.want {
				t.Errorf("%d operations are under way, want %d", got, test.want)
			}
			for range commands {
				listenertest.WaitUntil(t, "the next one is submitted", func() bool { return store.Count() > 0 })
				store.Release(store.Count() - 1)
			}
			replies := 0
			for {
				line, err := w.in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if line == "+PONG\r\n" {
					break
				}
				if line[0] != '$' || line == "$-1\r\n" {
					replies++
				} else if line != "$3\r\n" {
					replies++
					if _, err := w.in.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
			}
			if replies != commands {
				t.Errorf("%d replies to %d commands", replies, commands)
			}
		})
	}
}

// inLine counts the calls without a sent reply, and the steps under way, of all connections.
func (r *Server) inLine() (calls, steps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.connections {
		c.calls.mu.Lock()
		for k := c.calls.head; k != nil; k = k.next {
			calls++
		}
		steps += c.calls.pending
		c.calls.mu.Unlock()
	}
	return calls, steps
}

// unsent is how many bytes of replies wait for their clients.
func (r *Server) unsent() (bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.connections {
		c.calls.mu.Lock()
		bytes += c.calls.unsent
		c.calls.mu.Unlock()
	}
	return bytes
}

// TestSlowReader sends large replies to a client that does not read: the server must stop reading, and go on
// when the client reads, without losing any.
func TestSlowReader(t *testing.T) {
	memory := &listenertest.Memory{}
	r, address := serveRedis(t,
		Options{MaxOutputBytes: 1 << 20, Options: operation.Options{Store: memory, MaxInFlight: 4}})
	w := dialWire(t, address)
	value := strings.Repeat("v", 256<<10)
	w.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value))
	w.expect("+OK\r\n")
	const reads = 400 // 100 MiB, more than all buffers together
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(w.Conn, strings.Repeat("GET k\r\n", reads))
		sent <- err
	}()
	listenertest.WaitUntil(t, "the output is full", func() bool { return r.unsent() >= 1<<20 })
	most := 0
	for range reads {
		w.expect(fmt.Sprintf("$%d\r\n", len(value)))
		w.expect(value)
		w.expect("\r\n")
		most = max(most, r.unsent())
	}
	// Beside the bound there may be one value for each operation in flight, and the one that crossed it.
	if limit := 1<<20 + 5*(len(value)+callOverhead); most > limit {
		t.Errorf("the server held %d bytes for a client that does not read, over %d", most, limit)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestMaxClients(t *testing.T) {
	_, address := serveRedis(t, Options{Options: operation.Options{MaxConnections: 1}})
	first := dialWire(t, address)
	first.send("PING\r\n")
	first.expect("+PONG\r\n")
	second := dialWire(t, address)
	second.expect("-ERR max number of clients reached\r\n")
	second.expectEnd()
	first.Close()
	listenertest.WaitUntil(t, "there is room again", func() bool {
		third := dialWire(t, address)
		defer third.Close()
		third.send("PING\r\n")
		line, _ := third.in.ReadString('\n')
		return line == "+PONG\r\n"
	})
}

// TestShutdown answers what is in flight, and breaks off what does not end in time.
func TestShutdown(t *testing.T) {
	store := &listenertest.Held{}
	r, address := serveRedis(t, Options{Options: operation.Options{Store: store}})
	w := dialWire(t, address)
	w.send("SET k v\r\n")
	listenertest.WaitUntil(t, "the write is under way", func() bool { return store.Count() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), listenertest.Bound)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- r.Shutdown(ctx) }()
	listenertest.WaitUntil(t, "the listener is closed", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.stopping
	})
	store.Release(0)
	w.expect("+OK\r\n")
	w.expectEnd()
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	r, address = serveRedis(t, Options{Options: operation.Options{Store: &listenertest.Held{}}})
	w = dialWire(t, address)
	w.send("SET k v\r\n")
	over, cancelNow := context.WithCancel(context.Background())
	cancelNow()
	listenertest.WaitUntil(t, "the connection is there", func() bool { return r.clients() == 1 })
	if err := r.Shutdown(over); err == nil {
		t.Error("the write that never ends was not reported")
	}
}
