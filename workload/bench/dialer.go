package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/georegister/georegister/replica/register"
)

// Dialer opens connections to one kind of listener of a store.
type Dialer interface {
	// Dial opens one connection, which is not shared with others.
	Dial(ctx context.Context, address string) (Conn, error)
}

// Conn is one client's connection. It serves one call at a time.
type Conn interface {
	// Do sends operations together and returns when all are answered. It fails if one of them did not
	// take effect, or if the listener can't take so many together.
	Do(ctx context.Context, ops []register.Operation) error
	Close() error
}

func dialers() map[string]Dialer {
	return map[string]Dialer{
		"grpc":   unaryDialer{},
		"stream": streamDialer{},
		"redis":  redisDialer{},
		"etcd":   etcdDialer{},
		"WAIT":   redisDialer{replicas: 1},
	}
}

// FindDialer returns the dialer of a listener by its name.
func FindDialer(name string) (Dialer, error) {
	dialer, ok := dialers()[name]
	if !ok {
		return nil, fmt.Errorf("unknown listener %q; use one of %s", name, strings.Join(DialerNames(), ", "))
	}
	return dialer, nil
}

// DialerNames lists the names of the listeners: grpc sends one call per operation, stream sends batches over one gRPC
// stream, redis speaks the Redis protocol. For comparison, etcd speaks to etcd, and WAIT to a Redis server with
// replicas: a change counts as answered when one of them has it.
func DialerNames() []string { return slices.Sorted(maps.Keys(dialers())) }

func dialGRPC(address string, codec grpc.CallOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(codec),
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// one returns the only operation of a batch, for listeners that take no batches.
func one(ops []register.Operation) (register.Operation, error) {
	if len(ops) != 1 {
		return register.Operation{}, fmt.Errorf("this listener takes one operation at a time, not %d", len(ops))
	}
	return ops[0], nil
}
