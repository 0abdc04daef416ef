package closedloop

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

// Door is a way into a store.
type Door interface {
	// Dial opens one connection, which is not shared with others.
	Dial(ctx context.Context, address string) (Conn, error)
}

// Conn is one client's connection. It serves one call at a time.
type Conn interface {
	// Do sends operations together and returns when all are answered. It fails if one of them did not
	// take effect, or if the door can't send so many together.
	Do(ctx context.Context, ops []register.Operation) error
	Close() error
}

func doors() map[string]Door {
	return map[string]Door{
		"grpc":   unaryDoor{},
		"stream": streamDoor{},
		"redis":  redisDoor{},
		"etcd":   etcdDoor{},
	}
}

// FindDoor returns a door by name.
func FindDoor(name string) (Door, error) {
	door, ok := doors()[name]
	if !ok {
		return nil, fmt.Errorf("unknown door %q; use one of %s", name, strings.Join(DoorNames(), ", "))
	}
	return door, nil
}

// DoorNames lists the doors: grpc sends one call per operation, stream sends batches over one gRPC stream,
// redis speaks the Redis protocol, and etcd speaks to etcd, for comparison.
func DoorNames() []string { return slices.Sorted(maps.Keys(doors())) }

func dialGRPC(address string, codec grpc.CallOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(codec),
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// one is the only operation of a batch, for doors that can't send several.
func one(ops []register.Operation) (register.Operation, error) {
	if len(ops) != 1 {
		return register.Operation{}, fmt.Errorf("this door sends one operation at a time, not %d", len(ops))
	}
	return ops[0], nil
}
