package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/transport/codec"
)

// GRPC serves api/register/v1. Whatever is wrong with an operation is a status in its response; a message
// that can't be decoded fails its call alone, and the connection lives on.
type GRPC struct {
	registerv1.UnimplementedRegisterServer
	options  Options
	server   *grpc.Server
	counters map[register.Kind]counters
	invalid  counters
	carried  prometheus.Counter
	answers  sync.Pool     // of *answer
	stopping chan struct{} // closed by Shutdown
	stop     sync.Once
}

// NewGRPC returns a listener that serves once Serve is called.
func NewGRPC(options Options) (*GRPC, error) {
	var err error
	if options, err = options.withDefaults(); err != nil {
		return nil, err
	}
	g := &GRPC{options: options, counters: map[register.Kind]counters{}, stopping: make(chan struct{}),
		invalid: options.Metrics.command("grpc", "other"), carried: options.Metrics.carried.WithLabelValues("grpc"),
		answers: sync.Pool{New: func() any { return new(answer) }}}
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW, register.Fence} {
		g.counters[kind] = options.Metrics.command("grpc", kind.String())
	}
	g.server = grpc.NewServer(
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
	registerv1.RegisterRegisterServer(g.server, g)
	return g, nil
}

// maxMessageBytes leaves room for a batch, and for values that are over the limit but not absurd, so that
// they get an answer that says the limit.
func maxMessageBytes(l register.Limits) int { return max(16<<20, 4*(l.KeyBytes+2*l.ValueBytes)) }

// Serve accepts connections until Shutdown, then returns nil, or until the listener fails.
func (g *GRPC) Serve(listener net.Listener) error {
	err := g.server.Serve(&countingListener{Listener: listener, options: &g.options})
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC: %w", err)
	}
	return nil
}

// Shutdown stops to accept connections and requests, answers those in flight, and ends the Pipeline streams
// with the code Unavailable; when ctx ends it breaks off what is left and returns its error.
func (g *GRPC) Shutdown(ctx context.Context) error {
	g.stop.Do(func() { close(g.stopping) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.server.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		g.server.Stop()
		<-ended
		return fmt.Errorf("stopping the gRPC listener: %w", ctx.Err())
	}
}

// Do serves one operation.
func (g *GRPC) Do(ctx context.Context, r *registerv1.Request) (*registerv1.Response, error) {
	caller := g.caller(ctx)
	asked, call := requestBytes(r), callOf(ctx)
	caller.hold(asked)
	call.taken()
	if err := caller.gate.enter(ctx); err != nil {
		caller.hold(-asked)
		return nil, status.FromContextError(err).Err()
	}
	a := &answer{}
	op, err := g.options.operation(r)
	if err != nil {
		caller.hold(-asked)
		caller.gate.leave()
		g.refuse(a, r.GetTag(), err)
		return &a.Response, nil
	}
	timeout := g.options.timeout(r)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	g.carry(op.After)
	kind, key, done := op.Kind, op.Key, make(chan register.Result, 1)
	g.options.Store.Submit(op, timeout, func(result register.Result) {
		caller.hold(-asked)
		caller.gate.leave()
		g.count(kind, result)
		done <- result
	})
	select {
	case result := <-done:
		a.fill(r.GetTag(), g.options.proven(key, result))
		call.answer(len(a.Value))
		return &a.Response, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// GetInfo describes the replica.
func (g *GRPC) GetInfo(context.Context, *registerv1.InfoRequest) (*registerv1.Info, error) {
	o := &g.options
	return &registerv1.Info{
		Cluster: o.Identity.Cluster, Member: uint32(o.Identity.Member), Site: o.Identity.Site, Protocol: o.Identity.Protocol,
		KeyBytes: uint32(o.Limits.KeyBytes), ValueBytes: uint32(o.Limits.ValueBytes), MaxInFlight: uint32(o.MaxInFlight),
		Functions: o.Functions.Names(),
	}, nil
}

// refuse makes the response to a request that can't be served as it is.
func (g *GRPC) refuse(a *answer, tag uint64, err error) {
	g.invalid[outcomeRefused].Inc()
	a.fill(tag, register.Result{Status: register.Invalid, Message: err.Error()})
	a.TooLarge = errors.Is(err, register.ErrTooLarge)
}

func (g *GRPC) count(kind register.Kind, r register.Result) { g.counters[kind][outcomeOf(r)].Inc() }

// carry counts what an operation comes after.
func (g *GRPC) carry(after []register.Dependency) {
	if len(after) > 0 {
		g.carried.Add(float64(len(after)))
	}
}

// gate bounds the operations in flight of one connection, over all of its calls.
type gate chan struct{}

// enter waits for a place.
func (t gate) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives a place back.
func (t gate) leave() { <-t }

// caller is the call's connection.
func (g *GRPC) caller(ctx context.Context) *caller {
	if c := callerOf(ctx); c != nil {
		return c
	}
	return newCaller(g.options.MaxInFlight)
}

// requestBytes is how much memory a request takes until it is answered, about.
func requestBytes(r *registerv1.Request) int {
	n := requestOverhead + len(r.GetKey()) + len(r.GetValue()) + len(r.GetFunction())
	for _, argument := range r.GetArguments() {
		n += len(argument) + 24
	}
	for _, d := range r.GetAfter() {
		n += requestOverhead + len(d.GetKey()) + len(d.GetValue())
	}
	return n
}

const requestOverhead = 512
