package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/listener/grpc"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis"
	"github.com/georegister/georegister/test/listenertest"
)

// serveEcho is a process of startEchoes: the listeners of a replica, over a store that answers at once.
func serveEcho(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("echo", flag.ContinueOnError)
	onGRPC := set.String("grpc", "", "the address of the gRPC listener")
	onRedis := set.String("redis", "", "the address of the Redis listener")
	if err := set.Parse(args); err != nil {
		return err
	}
	echo := listenertest.StartEcho()
	grpcServer, err := grpc.New(operation.Options{Store: echo})
	if err != nil {
		return err
	}
	redisServer, err := redis.New(redis.Options{Options: operation.Options{Store: echo}})
	if err != nil {
		return err
	}
	var group errgroup.Group
	for address, serve := range map[string]func(net.Listener) error{
		*onGRPC: grpcServer.Serve, *onRedis: redisServer.Serve,
	} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		group.Go(func() error { return serve(listener) })
	}
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	return errors.Join(grpcServer.Shutdown(ctx), redisServer.Shutdown(ctx), group.Wait())
}

// startEchoes starts as many processes as there are members, which serve clients as replicas do and store nothing: what
// an operation costs there is the floor of its listener and of the clients.
func startEchoes(ctx context.Context, f flags) (*cluster, error) {
	return startCluster(f, "echo", func(c *cluster) error { return c.startEchoServers(ctx) })
}

func (c *cluster) startEchoServers(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ports, err := freePorts(2 * members)
	if err != nil {
		return err
	}
	grpc, redis := ports[:members], ports[members:]
	c.addresses["grpc"], c.addresses["stream"], c.addresses["redis"] = grpc, grpc, redis
	for i := range members {
		if err := c.spawn(fmt.Sprintf("m%d", i), program, "echo", "--grpc", grpc[i], "--redis", redis[i]); err != nil {
			return err
		}
	}
	return c.answers(ctx, "the echo", "redis")
}
