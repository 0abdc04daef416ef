package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/transport/codec"
)

// endpoint is one replica: its connection, its stream and what is known of it.
type endpoint struct {
	Endpoint
	conn   *grpc.ClientConn
	stream *stream

	mu      sync.Mutex
	info    *registerv1.Info // nil until it has answered
	ping    time.Duration    // smoothed; 0 until it has answered
	trouble error            // why others are preferred to it, or nil
	strikes int              // operations failed since one succeeded
	until   time.Time        // the trouble lasts at least until then, whatever pings say
}

const (
	// silence is for how long no one may answer before a connection counts as lost: above what TCP takes to send a lost
	// packet three times over any distance. Clients of a replica that comes back with another address wait for it once
	// or twice, for the connection that they had and for one to the address that the name still had.
	silence = 3 * time.Second
	// reconnect bounds the pause between two attempts to connect.
	reconnect = time.Second
)

// target has a name resolved anew whenever it is dialled, unless the user chose a resolver: gRPC's own asks again
// after half a minute only, and a pod that starts again has another address at once.
func target(address string) string {
	if strings.Contains(address, ":///") {
		return address
	}
	return "passthrough:///" + address
}

func newEndpoint(e Endpoint, options []grpc.DialOption) (*endpoint, error) {
	conn, err := grpc.NewClient(target(e.Address), append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{}), grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithInitialWindowSize(1 << 20),
		grpc.WithInitialConnWindowSize(4 << 20),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnect,
			},
			MinConnectTimeout: silence,
		}),
		// A connection through a partition, or to a pod that is gone with its address, is silent, not closed. What
		// waits to be acknowledged ends it sooner than the ping, whose pause can't be shorter: gRPC has the kernel see
		// to that.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: silence}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", e.Address, err)
	}
	return &endpoint{Endpoint: e, conn: conn, stream: newStream(conn), trouble: errors.New("not answered yet")}, nil
}

// measure asks the replica for its description and takes the time. Its error is why it did not answer.
func (e *endpoint) measure(ctx context.Context) (*registerv1.Info, error) {
	start := time.Now()
	info, err := e.stream.replica.GetInfo(ctx, &registerv1.InfoRequest{})
	elapsed := time.Since(start)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.trouble = err
		return nil, err
	}
	switch {
	case e.info == nil || e.ping == 0:
		e.ping = elapsed
	case elapsed < e.ping:
		// The least is the distance; the rest is waiting, such as for the connection to be set up.
		e.ping = (e.ping + 3*elapsed) / 4
	default:
		e.ping = (7*e.ping + elapsed) / 8
	}
	e.info = info
	if time.Now().After(e.until) {
		e.trouble = nil
	}
	return info, nil
}

// failed records that an operation got no outcome here, so that others are preferred for a while: the
// longer, the more often in a row. A replica without a quorum still answers pings.
func (e *endpoint) failed(err error, interval time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trouble = err
	e.until = time.Now().Add(interval << min(e.strikes, 4))
	e.strikes++
}

// served records that an operation got its outcome here. It reports whether that changes anything.
func (e *endpoint) served() (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	news = e.trouble != nil
	e.trouble, e.strikes, e.until = nil, 0, time.Time{}
	return news
}

func (e *endpoint) snapshot() Replica {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Replica{
		Endpoint: e.Endpoint, Member: e.info.GetMember(), Protocol: e.info.GetProtocol(), Ping: e.ping, Err: e.trouble,
	}
}

// byPreference sorts endpoints: first those without trouble, then by distance, measured or as given.
func byPreference(endpoints []*endpoint, inOrder bool) []*endpoint {
	var well, troubled []*endpoint
	distance := make(map[*endpoint]time.Duration, len(endpoints))
	for _, e := range endpoints {
		known := e.snapshot()
		if !inOrder {
			distance[e] = cmp.Or(known.Ping, math.MaxInt64) // never measured: last
		}
		if known.Err == nil {
			well = append(well, e)
		} else {
			troubled = append(troubled, e)
		}
	}
	byDistance := func(a, b *endpoint) int { return cmp.Compare(distance[a], distance[b]) }
	slices.SortStableFunc(well, byDistance)
	slices.SortStableFunc(troubled, byDistance)
	return append(well, troubled...)
}
