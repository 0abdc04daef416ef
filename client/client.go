// Package client is the Go client of a replicated register store.
//
// A Client keeps one stream to each replica and sends operations of any number of goroutines to the nearest one,
// failing over to the next. Every operation is linearizable, but for reads that may be stale (Stale), and for reads
// under GryffRSC. What is retried:
//
//   - reads and fences, freely;
//   - rmws, under one id (see Session), so that they are executed at most once;
//   - writes only when they certainly had no effect: a register write can't be told from its own repetition,
//     so that one whose answer is lost ends with ErrOutcomeUnknown. Session.SetOnce is a write that is an rmw.
//
// # Sessions under GryffRSC
//
// GryffRSC is regular sequentially consistent: a read takes one round trip, because only those who know of it have to
// see what it saw while the write is still under way. The session that read is who knows. It keeps what it depends on
// and sends it along with its next operation, of whatever key and to whichever replica, until a quorum holds it; that
// costs an rmw, and a read of another key, a round trip more. So:
//
//   - Use one session for each causal thread, such as a user's, a request's or a worker's: what one of its operations
//     saw, all later ones see. A session that many share is right too, and carries what any of them has read.
//   - A new session knows nothing, not even what another one of the same client has read. That one's acknowledged
//     writes everybody sees.
//   - Before telling someone what was read, by a message, an answer or a file, have the knowledge go along:
//     ExportContext here and ImportContext there, which client/compose and client/compose/propagate do for whole
//     processes and gRPC calls. Where nothing can go along, such as to a person who telephones, Fence first.
//   - Between this cluster and another service, fence too: Compose does it.
//
// Under the linearizable protocols sessions depend on nothing: all of this is allowed there, and does nothing.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Endpoint is one replica.
type Endpoint struct {
	Site    string // for people; it may be empty
	Address string // host:port of the gRPC listener, or any target that gRPC resolves
}

// Options configure a client. Endpoints is required; all else has a default.
type Options struct {
	// Endpoints are the replicas to use.
	Endpoints []Endpoint
	// InOrder says that Endpoints lists the nearest first. Without it the distances are measured, at the
	// start and every PingInterval.
	InOrder bool
	// PingInterval is how often replicas are asked whether they are there. Default: 5 s.
	PingInterval time.Duration
	// Timeout bounds an operation whose context has no deadline. Default: 10 s.
	Timeout time.Duration
	// AttemptTimeout is how long one replica may take before the next one is tried; it must be well above
	// the time that an operation takes over the widest quorum. A write that it interrupts may end with
	// ErrOutcomeUnknown. Default: 3 s.
	AttemptTimeout time.Duration
	// DialOptions are added to the client's own, which connect without TLS: grpc.WithTransportCredentials
	// changes that.
	DialOptions []grpc.DialOption
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Endpoints) == 0 {
		return o, errors.New("client: Options.Endpoints is empty; give the address of at least one replica")
	}
	for i, e := range o.Endpoints {
		if e.Address == "" {
			return o, fmt.Errorf("client: Options.Endpoints[%d].Address is empty; give host:port", i)
		}
	}
	o.PingInterval = cmp.Or(max(o.PingInterval, 0), 5*time.Second)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	o.AttemptTimeout = cmp.Or(max(o.AttemptTimeout, 0), 3*time.Second)
	o.DialOptions = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
		o.DialOptions...)
	return o, nil
}

// Client is a connection to a cluster. Its methods may be called by many goroutines at once, which share
// the client's streams. The operations are those of its own session.
type Client struct {
	*Session
	router *router
}

// Dial connects to a cluster. It returns as soon as one replica answers, by that the nearest; when ctx ends
// before, it returns an ErrUnavailable that says what is wrong with each. ctx bounds the dialling only.
func Dial(ctx context.Context, options Options) (*Client, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r, err := newRouter(options)
	if err != nil {
		return nil, err
	}
	if err := r.awaitOne(ctx); err != nil {
		r.close()
		return nil, err
	}
	c := &Client{router: r}
	if c.Session, err = c.NewSession(); err != nil {
		r.close()
		return nil, err
	}
	return c, nil
}

// NewSession returns a session of its own over the client's streams, which depends on nothing yet.
func (c *Client) NewSession() (*Session, error) {
	var id [8]byte
	for binary.LittleEndian.Uint64(id[:]) == 0 { // 0 stands for no session
		if _, err := rand.Read(id[:]); err != nil {
			return nil, fmt.Errorf("drawing a session's id: %w", err)
		}
	}
	return &Session{id: binary.LittleEndian.Uint64(id[:]), next: 1, router: c.router}, nil
}

// Close ends the client's streams. Operations under way fail, with ErrOutcomeUnknown if they may take
// effect.
func (c *Client) Close() error { return c.router.close() }

// Replica is what a client knows of one endpoint.
type Replica struct {
	Endpoint
	Member   uint32        // 0 until it has answered once
	Protocol string        // as the manifest spells it
	Ping     time.Duration // smoothed round trip; 0 until it has answered
	Err      error         // why it is not used at the moment, or nil
}

// Replicas lists the endpoints in the order in which they are tried now.
func (c *Client) Replicas() []Replica { return c.router.replicas() }
