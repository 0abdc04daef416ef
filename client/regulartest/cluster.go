// Package regulartest serves regular sequentially consistent registers from memory, in the place of a cluster whose
// protocol is GryffRSC, for tests and examples of its clients.
package regulartest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/register/wire"
	"github.com/georegister/georegister/replica/transport/codec"
)

// Cluster is registers behind two listeners. At the first site one meets writes that are still under way, of which only
// the replica there knows; at the second site one does not, until they are at a quorum. That a read depends on such a
// write is told, and what an operation is after is brought to a quorum first, as the protocol does. The zero value is
// ready.
type Cluster struct {
	mu       sync.Mutex
	keys     map[string]*versions
	requests []*registerv1.Request
}

// versions are those of a key, in the order of their carstamps; the first so many are at a quorum.
type versions struct {
	all     []register.Versioned
	settled int
}

// Begin has a write be under way that only the first site knows of, which tests make as they like: no one sent it. It
// has returned once finish has.
func (c *Cluster) Begin(key string, value register.Value) (finish func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	written := c.append(key, value)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle(key, written)
	}
}

// Requests are those of a kind that were received so far, in their order.
func (c *Cluster) Requests(kind registerv1.Kind) (all []*registerv1.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.GetKind() == kind {
			all = append(all, r)
		}
	}
	return all
}

// Serve opens both listeners on this machine until stop is called.
func (c *Cluster) Serve() (first, second string, stop func(), err error) {
	var addresses []string
	var servers []*grpc.Server
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
	}
	for _, ahead := range []bool{true, false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return "", "", nil, fmt.Errorf("open a listener: %w", err)
		}
		s := grpc.NewServer(grpc.ForceServerCodecV2(codec.Codec{}))
		registerv1.RegisterRegisterServer(s, &siteServer{cluster: c, ahead: ahead})
		go func() { _ = s.Serve(listener) }() // it ends with Stop
		servers, addresses = append(servers, s), append(addresses, listener.Addr().String())
	}
	return addresses[0], addresses[1], stop, nil
}

// siteServer serves the clients of one site.
type siteServer struct {
	registerv1.UnimplementedRegisterServer
	cluster *Cluster
	ahead   bool
}

// GetInfo implements registerv1.RegisterServer.
func (s *siteServer) GetInfo(context.Context, *registerv1.InfoRequest) (*registerv1.Info, error) {
	limits := register.DefaultLimits()
	return &registerv1.Info{Member: 1, Protocol: "GryffRSC", KeyBytes: uint32(limits.KeyBytes),
		ValueBytes: uint32(limits.ValueBytes)}, nil
}

// Do implements registerv1.RegisterServer.
func (s *siteServer) Do(_ context.Context, r *registerv1.Request) (*registerv1.Response, error) {
	return s.cluster.do(r, s.ahead), nil
}

// Pipeline implements registerv1.RegisterServer.
func (s *siteServer) Pipeline(stream grpc.BidiStreamingServer[registerv1.Requests, registerv1.Responses]) error {
	for {
		batch, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerror // the client has closed its side
		}
		answers := &registerv1.Responses{}
		for _, r := range batch.GetRequests() {
			answers.Responses = append(answers.Responses, s.cluster.do(r, s.ahead))
		}
		if err := stream.Send(answers); err != nil {
			return err
		}
	}
}

// do serves one request where the newest writes are known, or only those at a quorum.
func (c *Cluster) do(r *registerv1.Request, ahead bool) *registerv1.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	answer := &registerv1.Response{Tag: r.GetTag()}
	wire.SetResponse(answer, &registerv1.Carstamp{}, c.result(r, ahead))
	return answer
}

func (c *Cluster) result(r *registerv1.Request, ahead bool) register.Result {
	if err := c.carry(r.GetAfter()); err != nil {
		return register.Result{Status: register.Invalid, Message: err.Error()}
	}
	key, result := string(r.GetKey()), register.Result{Status: register.OK}
	switch r.GetKind() {
	case registerv1.Kind_READ:
		v := c.versions(key)
		known := v.settled
		if ahead {
			known = len(v.all)
		}
		if known > 0 {
			result.Value, result.Carstamp = v.all[known-1].Value, v.all[known-1].Carstamp
		}
		if result.Depends = known > v.settled && r.GetRegular(); !result.Depends {
			v.settled = known
		}
	case registerv1.Kind_WRITE:
		written := c.append(key, register.ValueOf(r.GetPresent(), r.GetValue()))
		c.settle(key, written)
		result.Carstamp = written.Carstamp
	case registerv1.Kind_FENCE:
	default:
		return register.Result{Status: register.Unsupported, Message: "there are reads, writes and fences only"}
	}
	return result
}

// carry brings what a request is after to a quorum.
func (c *Cluster) carry(after []*registerv1.Dependency) error {
	if len(after) > register.MaxDependencies {
		return fmt.Errorf("after has %d dependencies, and %d are allowed", len(after), register.MaxDependencies)
	}
	for _, d := range after {
		if d.GetCarstamp() == nil {
			return errors.New("a dependency has no carstamp")
		}
		c.settle(string(d.GetKey()), wire.Dependency(d).Versioned)
	}
	return nil
}

func (c *Cluster) versions(key string) *versions {
	if c.keys == nil {
		c.keys = map[string]*versions{}
	}
	if c.keys[key] == nil {
		c.keys[key] = &versions{}
	}
	return c.keys[key]
}

// append adds a version that no quorum holds.
func (c *Cluster) append(key string, value register.Value) register.Versioned {
	v := c.versions(key)
	next := register.Versioned{Value: value, Carstamp: register.Carstamp{Timestamp: 1, Writer: 1}}
	if n := len(v.all); n > 0 {
		next.Carstamp.Timestamp = v.all[n-1].Carstamp.Timestamp + 1
	}
	v.all = append(v.all, next)
	return next
}

// settle brings a version to a quorum, and with it those before it.
func (c *Cluster) settle(key string, version register.Versioned) {
	v := c.versions(key)
	i, found := slices.BinarySearchFunc(v.all, version.Carstamp,
		func(v register.Versioned, stamp register.Carstamp) int {
			return cmp.Compare(v.Carstamp.Timestamp, stamp.Timestamp)
		})
	if !found {
		v.all = slices.Insert(v.all, i, version)
	}
	v.settled = max(v.settled, i+1)
}
