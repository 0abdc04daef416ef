// Package redis is the Redis listener of a replica: it serves the commands of Redis that concern one key, over RESP2
// and RESP3.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis/resp"
)

// Options configure the Redis listener.
type Options struct {
	operation.Options
	// Password is what AUTH asks for; empty: no authentication.
	Password string
	// MaxOutputBytes bounds the replies that wait for a client to read them. Over it, the connection is
	// read no further. Beside it, every operation in flight may hold one value. Default: 32 MiB.
	MaxOutputBytes int
	// WriteTimeout is how long a client may leave its replies unread before it is disconnected.
	// Default: 60 s.
	WriteTimeout time.Duration
}

// Server serves the Redis protocol, RESP2 and RESP3. The commands are those of the table in commands.go;
// docs/redis.md says where they differ from Redis.
type Server struct {
	options  Options
	limits   resp.Limits
	commands map[string]*command
	other    operation.Counters // commands that are not served
	metrics  operation.ListenerMetrics
	started  time.Time

	served    atomic.Int64 // commands
	connected atomic.Int64 // connections, ever
	unheard   atomic.Int64 // attacks that no line was logged of
	attacks   rate.Sometimes
	buffers   sync.Pool // of *[]byte, for replies that are being written

	mu          sync.Mutex
	listeners   []net.Listener
	connections map[*connection]struct{}
	stopping    bool
	running     sync.WaitGroup
}

// New returns a listener that serves once Serve is called.
func New(options Options) (*Server, error) {
	var err error
	if options.Options, err = options.Options.WithDefaults(); err != nil {
		return nil, err
	}
	options.MaxOutputBytes = cmp.Or(max(options.MaxOutputBytes, 0), 32<<20)
	options.WriteTimeout = cmp.Or(max(options.WriteTimeout, 0), time.Minute)
	argument := max(options.Limits.KeyBytes, options.Limits.ValueBytes, 4<<10)
	s := &Server{
		options: options,
		limits: resp.Limits{
			ArgumentBytes: argument, CommandBytes: max(int(min(64<<20, options.Memory.Limit()/2)), 4*argument),
		},
		commands:    map[string]*command{},
		metrics:     options.Metrics.Listener("redis"),
		started:     time.Now(),
		connections: map[*connection]struct{}{},
		buffers:     sync.Pool{New: func() any { return new([]byte) }},
		attacks:     rate.Sometimes{Interval: time.Minute},
	}
	s.other = s.metrics.Command("other")
	for _, c := range table() {
		c.counters = s.metrics.Command(c.name)
		s.commands[c.name] = &c
	}
	return s, nil
}

// Serve accepts connections until Shutdown, then returns nil, or until the listener fails. It closes the
// listener.
func (s *Server) Serve(listener net.Listener) error {
	defer listener.Close()
	s.mu.Lock()
	stopping := s.stopping
	s.listeners = append(s.listeners, listener)
	s.mu.Unlock()
	for !stopping {
		conn, err := listener.Accept()
		if err == nil {
			s.accept(conn)
			continue
		}
		s.mu.Lock()
		stopping = s.stopping
		s.mu.Unlock()
		if !stopping || !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting Redis connections: %w", err)
		}
	}
	return nil
}

func (s *Server) accept(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		conn.Close()
		return
	}
	if len(s.connections) >= s.options.MaxConnections {
		s.metrics.Refused.Inc()
		s.running.Go(func() {
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(time.Second)) == nil {
				_, _ = conn.Write(resp.AppendError(nil, "ERR max number of clients reached"))
			}
		})
		return
	}
	s.metrics.Accepted.Inc()
	c := newConnection(s, conn, s.connected.Add(1))
	s.connections[c] = struct{}{}
	s.metrics.Open.Inc()
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.connections, c)
		s.mu.Unlock()
		s.metrics.Open.Dec()
	})
}

// Shutdown stops to accept and to read, answers what is in flight, and closes the connections; at the
// latest when ctx ends, whose error it then returns.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for _, listener := range s.listeners {
		listener.Close()
	}
	for c := range s.connections {
		c.stopReading()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.connections {
		c.abandon()
	}
	s.mu.Unlock()
	<-ended
	return fmt.Errorf("stopping the Redis listener: %w", ctx.Err())
}

// attacked notes that a client speaks another protocol. What it said is not logged: it is chosen by whoever attacks.
func (s *Server) attacked(client net.Addr, what resp.ForeignError) {
	s.options.Metrics.WrongProtocol.Inc()
	s.unheard.Add(1)
	s.attacks.Do(func() {
		s.options.Log.Warn("Possible attack on the Redis port: connection closed", zap.Stringer("client", client),
			zap.String("reason", what.Error()), zap.Int64("connections", s.unheard.Swap(0)))
	})
}

// count counts a command that is answered; nil: one that is not served.
func (s *Server) count(c *command, outcome operation.Outcome) {
	s.served.Add(1)
	if c == nil {
		s.other[outcome].Inc()
		return
	}
	c.counters[outcome].Inc()
}

// clients is how many connections are open.
func (s *Server) clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}
