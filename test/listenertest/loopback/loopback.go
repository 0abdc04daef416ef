// Package loopback serves a Store to clients on this machine, for tests of what connects to one.
package loopback

import (
	"testing"

	"github.com/georegister/georegister/replica/listener/grpc"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/test/listenertest"
)

// Serve opens a gRPC listener over a store that speaks for a member of a Gryff cluster, and returns its address. The
// listener is open until stop is called, which must be once, before the test ends.
func Serve(t testing.TB, store operation.Store) (address string, stop func(), err error) {
	return ServeOptions(t, operation.Options{Store: store, Identity: operation.Identity{Protocol: "Gryff"}})
}

// ServeOptions is as Serve, with options of the caller's.
func ServeOptions(t testing.TB, options operation.Options) (address string, stop func(), err error) {
	s, err := grpc.New(options)
	if err != nil {
		return "", nil, err
	}
	return listenertest.Serve(t, s)
}
