package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/georegister/georegister/replica/server/resp"
)

// RedisOptions configure the Redis listener.
type RedisOptions struct {
	Options
	// Password is what AUTH asks for; empty: no authentication.
	Password string
	// Ordered makes the commands of a connection take effect one after another. Without it, pipelined
	// commands on different keys overlap: each is linearizable, and those on the same key keep their
	// order, but another client may see the second of two pipelined SETs on different keys first. A client
	// that awaits a reply before it sends on is ordered in any case. With it, a pipeline takes as
	// many wide-area waits as it has commands.
	Ordered bool
	// MaxOutputBytes bounds the replies that wait for a client to read them. Over it, the connection is
	// read no further. Beside it, every operation in flight may hold one value. Default: 32 MiB.
	MaxOutputBytes int
	// WriteTimeout is how long a client may leave its replies unread before it is disconnected.
	// Default: 60 s.
	WriteTimeout time.Duration
}

// Redis serves the Redis protocol, RESP2 and RESP3. The commands are those of the table in commands.go;
// docs/redis.md says where they differ from Redis.
type Redis struct {
	options  RedisOptions
	limits   resp.Limits
	commands map[string]*command
	other    counters
	started  time.Time
	regular  bool // connections are sessions, see session

	carried   prometheus.Counter
	fences    prometheus.Counter
	open      prometheus.Gauge
	served    atomic.Int64 // commands
	connected atomic.Int64 // connections, ever
	unheard   atomic.Int64 // attacks that no line was logged of
	attacks   rate.Sometimes
	buffers   sync.Pool // of *[]byte, for replies that are being written

	mu          sync.Mutex
	listeners   map[net.Listener]struct{}
	connections map[*connection]struct{}
	stopping    bool
	running     sync.WaitGroup
}

// NewRedis returns a listener that serves once Serve is called.
func NewRedis(options RedisOptions) (*Redis, error) {
	var err error
	if options.Options, err = options.Options.withDefaults(); err != nil {
		return nil, err
	}
	if options.MaxOutputBytes <= 0 {
		options.MaxOutputBytes = 32 << 20
	}
	if options.WriteTimeout <= 0 {
		options.WriteTimeout = time.Minute
	}
	argument := max(options.Limits.KeyBytes, options.Limits.ValueBytes, 4<<10)
	r := &Redis{
		options:     options,
		limits:      resp.Limits{ArgumentBytes: argument, CommandBytes: max(int(min(64<<20, options.Memory.limit/2)), 4*argument)},
		commands:    map[string]*command{},
		other:       options.Metrics.command("redis", "other"),
		open:        options.Metrics.connections.WithLabelValues("redis"),
		started:     time.Now(),
		regular:     options.regular(),
		carried:     options.Metrics.carried.WithLabelValues("redis"),
		fences:      options.Metrics.fences,
		listeners:   map[net.Listener]struct{}{},
		connections: map[*connection]struct{}{},
		buffers:     sync.Pool{New: func() any { return new([]byte) }},
		attacks:     rate.Sometimes{Interval: time.Minute},
	}
	for _, c := range table() {
		c.counters = options.Metrics.command("redis", c.name)
		r.commands[c.name] = &c
	}
	return r, nil
}

// Serve accepts connections until Shutdown, then returns nil, or until the listener fails. It closes the
// listener.
func (r *Redis) Serve(listener net.Listener) error {
	defer listener.Close()
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return nil
	}
	r.listeners[listener] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.listeners, listener)
		r.mu.Unlock()
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			r.mu.Lock()
			stopping := r.stopping
			r.mu.Unlock()
			if stopping && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accepting Redis connections: %w", err)
		}
		r.accept(conn)
	}
}

func (r *Redis) accept(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		conn.Close()
		return
	}
	if len(r.connections) >= r.options.MaxConnections {
		r.options.Metrics.refused.WithLabelValues("redis").Inc()
		r.running.Go(func() {
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(time.Second)) == nil {
				_, _ = conn.Write(resp.AppendError(nil, "ERR max number of clients reached"))
			}
		})
		return
	}
	r.options.Metrics.accepted.WithLabelValues("redis").Inc()
	c := newConnection(r, conn, r.connected.Add(1))
	r.connections[c] = struct{}{}
	r.open.Inc()
	r.running.Go(func() {
		c.serve()
		r.mu.Lock()
		delete(r.connections, c)
		r.mu.Unlock()
		r.open.Dec()
	})
}

// Shutdown stops to accept and to read, answers what is in flight, and closes the connections; at the
// latest when ctx ends, whose error it then returns.
func (r *Redis) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.stopping = true
	for listener := range r.listeners {
		listener.Close()
	}
	for c := range r.connections {
		c.stopReading()
	}
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	for c := range r.connections {
		c.abandon()
	}
	r.mu.Unlock()
	<-ended
	return fmt.Errorf("stopping the Redis listener: %w", ctx.Err())
}

// attacked notes that a client speaks another protocol. What it said is not told: it is chosen by whoever attacks.
func (r *Redis) attacked(client net.Addr, what resp.ForeignError) {
	r.options.Metrics.foreign.Inc()
	r.unheard.Add(1)
	r.attacks.Do(func() {
		r.options.Log.Warn("Possible attack on the Redis port: connection closed", zap.Stringer("client", client),
			zap.String("cause", what.Error()), zap.Int64("connections", r.unheard.Swap(0)))
	})
}

// clients is how many connections are open.
func (r *Redis) clients() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.connections)
}
