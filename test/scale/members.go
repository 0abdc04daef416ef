package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// shards is what every member says it has: the default of the resource.
const shards = 4

// members stand in for the members of all clusters: one gRPC server that answers at one loopback address per
// member. A member waits, with an empty disk, until it is given a view; then it votes.
type members struct {
	adminv1.UnimplementedAdminServer
	server *grpc.Server
	told   func(set types.NamespacedName) // called when the member of a StatefulSet has taken a view

	mu    sync.Mutex
	mute  bool // the first member of every cluster takes calls, and never answers
	byIP  map[string]*member
	bySet map[types.NamespacedName]string // the address
	work  sync.WaitGroup
}

type member struct {
	set  types.NamespacedName
	id   view.MemberID
	disk string
	view view.View // epoch 0: it waits
}

func newMembers(told func(types.NamespacedName)) *members {
	m := &members{told: told, byIP: map[string]*member{}, bySet: map[types.NamespacedName]string{}}
	// A connection per member, and little to say on each.
	m.server = grpc.NewServer(grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10))
	adminv1.RegisterAdminServer(m.server, m)
	return m
}

// start has the member of a StatefulSet answer at an address of its own, which it returns. A second time it returns
// the same address.
func (m *members) start(set types.NamespacedName, id view.MemberID, disk string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ip := m.bySet[set]; ip != "" {
		return ip, nil
	}
	n := len(m.byIP)
	ip := fmt.Sprintf("127.77.%d.%d", n/250, n%250+1)
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(build.AdminPort)))
	if err != nil {
		return "", fmt.Errorf("member %d in %s: %w", id, set.Namespace, err)
	}
	m.bySet[set] = ip
	m.byIP[ip] = &member{set: set, id: id, disk: disk}
	m.work.Go(func() { _ = m.server.Serve(listener) }) // it ends when the server is stopped
	return ip, nil
}

// votes reports whether the member at an address has a view.
func (m *members) votes(ip string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byIP[ip] != nil && m.byIP[ip].view.Epoch > 0
}

// silence has the first member of every cluster take calls from now on, and never answer.
func (m *members) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = true
}

func (m *members) stop() {
	m.server.Stop()
	m.work.Wait()
}

// called is the member that a call came to.
func (m *members) called(ctx context.Context, id uint32) (*member, error) {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "the call has no address")
	}
	ip, _, err := net.SplitHostPort(caller.LocalAddr.String())
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	of := m.byIP[ip]
	if of == nil || of.id != view.MemberID(id) {
		return nil, status.Errorf(codes.FailedPrecondition, "member %d is not at %s", id, ip)
	}
	return of, nil
}

// Status implements adminv1.AdminServer. What varies at a real member varies here: nothing must come of it.
func (m *members) Status(ctx context.Context, r *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	m.mu.Lock()
	if m.mute && r.Member == 1 {
		m.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	defer m.mu.Unlock()
	of, err := m.called(ctx, r.Member)
	if err != nil {
		return nil, err
	}
	response := &adminv1.StatusResponse{
		Cluster: r.Cluster, Member: r.Member, Protocol: "Gryff", Version: "scale", Disk: of.disk, Boot: 1,
		Role: adminv1.Role_WAITING, Shards: shards,
	}
	if of.view.Epoch == 0 {
		return response, nil
	}
	response.Role, response.VotingShards, response.Incarnation, response.Quorum = adminv1.Role_VOTER, shards, 1, true
	response.Epoch, response.View, response.Digest = of.view.Epoch, wire.ToProto(of.view), of.view.Digest()
	for _, p := range of.view.Members {
		if p.ID != of.id {
			response.Peers = append(response.Peers, &adminv1.Peer{
				Member: uint32(p.ID), Site: p.Site, Connected: true, Reachable: true,
				RttMicroseconds: 1000 + rand.Int64N(100_000),
			})
		}
	}
	for _, kind := range []string{"read", "write", "rmw"} {
		response.Operations = append(response.Operations,
			&adminv1.Operations{Kind: kind, Answered: rand.Uint64N(1 << 20)})
	}
	return response, nil
}

// Configure implements adminv1.AdminServer.
func (m *members) Configure(ctx context.Context, r *adminv1.ConfigureRequest) (*adminv1.ConfigureResponse, error) {
	given := wire.FromProto(r.View)
	if err := given.Validate(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of, err := m.called(ctx, r.Member)
	if err != nil {
		return nil, err
	}
	if given.Epoch < of.view.Epoch {
		return nil, status.Errorf(codes.Aborted, "it holds epoch %d already", of.view.Epoch)
	}
	of.view = given
	m.told(of.set)
	return &adminv1.ConfigureResponse{}, nil
}
