package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/georegister/georegister/client"
	grpclistener "github.com/georegister/georegister/replica/listener/grpc"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// startReplica serves an in-memory store in the place of a cluster.
func startReplica() (address string, stop func()) {
	s, err := grpclistener.New(operation.Options{Store: &listenertest.Memory{}})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve(listener)
	return listener.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			log.Fatal(err)
		}
	}
}

func Example() {
	address, stop := startReplica()
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Endpoints: []client.Endpoint{
		{Site: "california", Address: address}, // list one replica for each site; the nearest is found
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if err := c.Set(ctx, "greeting", []byte("hello")); err != nil {
		log.Fatal(err)
	}
	value, err := c.Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", value)

	visits, err := c.Add(ctx, "visits", 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(visits)
	// Output:
	// hello
	// 2
}

// What to do with each kind of error.
func ExampleClient_errors() {
	address, stop := startReplica()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Endpoints: []client.Endpoint{{Address: address}}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if err := c.Set(ctx, "k", []byte("text")); errors.Is(err, client.ErrOutcomeUnknown) {
		// It may have taken effect, or may yet: read, and decide.
	} else if errors.Is(err, client.ErrUnavailable) {
		// It has no effect: try again later.
	}
	_, err = c.Add(ctx, "k", 1)
	var refused *client.Refused
	if errors.As(err, &refused) {
		fmt.Println(refused.Reason == register.RefusedNotInteger)
	}
	// Output: true
}

// A lock by compare-and-swap: the rmw is executed at most once, even when it is retried through another
// replica.
func ExampleSession_CompareAndSwap() {
	address, stop := startReplica()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Endpoints: []client.Endpoint{{Address: address}}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	session, err := c.NewSession() // its ids are its own, apart from those of c
	if err != nil {
		log.Fatal(err)
	}
	taken, err := session.SetIfAbsent(ctx, "lock", []byte("me"))
	fmt.Println(taken, err)
	released, err := session.CompareAndSwap(ctx, "lock", []byte("me"), []byte(""))
	fmt.Println(released, err)
	// Output:
	// true <nil>
	// true <nil>
}
