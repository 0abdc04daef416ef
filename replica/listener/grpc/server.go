// Package grpc is the gRPC listener of a replica: it serves api/register/v1.
package grpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/transport/codec"
)

// Server serves api/register/v1. Whatever is wrong with an operation is a status in its response; a message
// that can't be decoded fails its call alone, and the connection goes on.
type Server struct {
	registerv1.UnimplementedRegisterServer
	options  operation.Options
	metrics  operation.ListenerMetrics
	server   *grpc.Server
	counters map[register.Kind]operation.Counters
	invalid  operation.Counters // requests that are no operations
	answers  sync.Pool          // of *answer
	stopping chan struct{}      // closed by Shutdown
	stop     sync.Once
}

// New returns a listener that serves once Serve is called.
func New(options operation.Options) (*Server, error) {
	var err error
	if options, err = options.WithDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		options: options, metrics: options.Metrics.Listener("grpc"), counters: map[register.Kind]operation.Counters{},
		answers: sync.Pool{New: func() any { return new(answer) }}, stopping: make(chan struct{}),
	}
	s.invalid = s.metrics.Command("other")
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW, register.Fence} {
		s.counters[kind] = s.metrics.Command(kind.String())
	}
	s.server = grpc.NewServer(
		grpc.ForceServerCodecV2(codec.Codec{}),
		grpc.MaxRecvMsgSize(maxMessageBytes(options.Limits)),
		grpc.MaxHeaderListSize(codec.MaxHeaderBytes),
		grpc.MaxConcurrentStreams(uint32(options.MaxInFlight)),
		// Calls reuse goroutines whose stacks have grown already; when all are taken, they get new ones.
		grpc.NumStreamWorkers(128),
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(4<<20),
		// Clients may ask often whether a silent connection still stands: behind a partition nothing else tells.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// The connection has a buffer of its own, and what the library reads of it is the frame that it acts on.
		grpc.ReadBufferSize(0),
		grpc.InTapHandle(tagCall),
	)
	registerv1.RegisterRegisterServer(s.server, s)
	return s, nil
}

// maxMessageBytes leaves room for a batch, and for values that are over the limit but not absurd, so that
// they get an answer that says the limit.
func maxMessageBytes(l register.Limits) int { return max(16<<20, 4*(l.KeyBytes+2*l.ValueBytes)) }

// Serve accepts connections until Shutdown, then returns nil, or until the listener fails.
func (s *Server) Serve(listener net.Listener) error {
	err := s.server.Serve(&countingListener{Listener: listener, options: &s.options, metrics: &s.metrics})
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC: %w", err)
	}
	return nil
}

// Shutdown stops to accept connections and requests, answers those in flight, and ends the Pipeline streams
// with the code Unavailable; when ctx ends it breaks off what is left and returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() { close(s.stopping) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.server.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.server.Stop()
		<-ended
		return fmt.Errorf("stopping the gRPC listener: %w", ctx.Err())
	}
}

// unary is a call of Do.
type unary struct {
	answer
	caller *caller
	done   chan struct{} // capacity 1
}

func (u *unary) answered(_ *answer, asked int) {
	u.caller.hold(-asked)
	u.caller.gate.leave()
	u.done <- struct{}{}
}

// Do serves one operation.
func (s *Server) Do(ctx context.Context, r *registerv1.Request) (*registerv1.Response, error) {
	asked, call := requestBytes(r), callOf(ctx)
	u := &unary{caller: callerOf(ctx), done: make(chan struct{}, 1)}
	u.caller.hold(asked)
	call.taken()
	if err := u.caller.gate.enter(ctx); err != nil {
		u.caller.hold(-asked)
		return nil, status.FromContextError(err).Err()
	}
	timeout := s.options.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	s.submit(r, timeout, &u.answer, asked, u)
	select {
	case <-u.done:
		call.answer(len(u.Value))
		return &u.Response, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// answerer is who a request came from. It is told once the request, which holds so many bytes, is answered; it must not
// block.
type answerer interface{ answered(a *answer, asked int) }

// submit has a request answered that came from a client, within timeout at most.
func (s *Server) submit(r *registerv1.Request, timeout time.Duration, a *answer, asked int, from answerer) {
	tag := r.GetTag()
	op, err := operationOf(&s.options, r)
	if err != nil {
		s.invalid[operation.Refused].Inc()
		a.fill(tag, register.Result{Status: register.Invalid, Message: err.Error()})
		a.TooLarge = errors.Is(err, register.ErrTooLarge)
		from.answered(a, asked)
		return
	}
	if len(op.After) > 0 {
		s.metrics.Dependencies.Add(float64(len(op.After)))
	}
	kind, key := op.Kind, op.Key
	s.options.Store.Submit(op, timeoutOf(r, timeout), func(result register.Result) {
		s.counters[kind][operation.OutcomeOf(result)].Inc()
		a.fill(tag, s.options.Prove(key, result))
		from.answered(a, asked)
	})
}

// GetInfo describes the replica.
func (s *Server) GetInfo(context.Context, *registerv1.InfoRequest) (*registerv1.Info, error) {
	o := &s.options
	return &registerv1.Info{
		Cluster: o.Identity.Cluster, Member: uint32(o.Identity.Member), Site: o.Identity.Site,
		Protocol: o.Identity.Protocol,
		KeyBytes: uint32(o.Limits.KeyBytes), ValueBytes: uint32(o.Limits.ValueBytes),
		MaxInFlight: uint32(o.MaxInFlight), Functions: o.Functions.Names(),
	}, nil
}
