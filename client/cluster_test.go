package client

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	grpclistener "github.com/georegister/georegister/replica/listener/grpc"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
)

const bound = 20 * time.Second // on everything that a test waits for

// replica is a gRPC listener on loopback that a test may kill.
type replica struct {
	address string
	server  *grpclistener.Server
	stop    sync.Once
}

// kill breaks all connections at once.
func (r *replica) kill() {
	r.stop.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		// The cancelled context makes it abrupt, which is its error.
		_ = r.server.Shutdown(ctx)
	})
}

func serve(t testing.TB, store operation.Store) *replica {
	t.Helper()
	s, err := grpclistener.New(
		operation.Options{Store: store, Identity: operation.Identity{Member: 1, Protocol: "Gryff"}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{address: listener.Addr().String(), server: s}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		r.kill()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

// dial connects to replicas, the first of which is the nearest.
func dial(t testing.TB, replicas ...*replica) *Client {
	t.Helper()
	options := Options{InOrder: true}
	for _, r := range replicas {
		options.Endpoints = append(options.Endpoints, Endpoint{Address: r.address})
	}
	return dialWith(t, options)
}

func dialWith(t testing.TB, options Options) *Client {
	t.Helper()
	ctx := within(t, bound)
	c, err := Dial(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	waitUntil(t, "all replicas answer", func() bool {
		for i, r := range c.Replicas() {
			if r.Err != nil || options.InOrder && r.Endpoint != options.Endpoints[i] {
				return false
			}
		}
		return true
	})
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// script is a store that notes what it gets, and answers as a test says.
type script struct {
	inner operation.Store
	// answer decides what becomes of an operation: the status to answer instead of the truth, 0 for the
	// truth, and silent for no answer at all; and whether it takes effect.
	answer func(op register.Operation) (status register.Status, effect bool)

	mu  sync.Mutex
	got []register.Operation
}

const silent register.Status = 99

func (s *script) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	s.mu.Lock()
	s.got = append(s.got, op)
	s.mu.Unlock()
	status, effect := register.Status(0), true
	if s.answer != nil {
		status, effect = s.answer(op)
	}
	instead := func(register.Result) {
		if status != silent {
			done(register.Result{Status: status, Message: "as the test says"})
		}
	}
	switch {
	case status == 0:
		s.inner.Submit(op, timeout, done)
	case effect:
		s.inner.Submit(op, timeout, instead)
	default:
		go instead(register.Result{})
	}
}

// operations are those that reached the store.
func (s *script) operations() []register.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]register.Operation(nil), s.got...)
}

// always gives every operation the same end.
func always(status register.Status, effect bool) func(register.Operation) (register.Status, bool) {
	return func(register.Operation) (register.Status, bool) { return status, effect }
}
