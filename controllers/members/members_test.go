package members

import (
	"context"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

const (
	resource = "shop/first"
	data     = "first.x"
	// bound is how long a test waits for what must come.
	bound = 10 * time.Second
)

// second is a view that members are given.
var second = view.View{Cluster: data, Epoch: 2, Issued: 3, Members: []view.Member{
	{ID: 1, Site: "a", Address: "a:7000", Disk: "d1"}, {ID: 3, Site: "b", Address: "b:7000"},
}}

// member is the admin port of one member.
type member struct {
	adminv1.UnimplementedAdminServer
	id     uint32
	silent bool // it takes calls and never answers
	status *adminv1.StatusResponse

	address     string
	connections atomic.Int64 // that are open
	configured  atomic.Pointer[adminv1.ConfigureRequest]
}

func (m *member) meant(cluster string, id uint32) error {
	if cluster != data || id != m.id {
		return status.Errorf(codes.FailedPrecondition, "this is member %d of cluster %s", m.id, data)
	}
	return nil
}

func (m *member) Status(ctx context.Context, r *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	if m.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := m.meant(r.Cluster, r.Member); err != nil {
		return nil, err
	}
	if m.status != nil {
		return m.status, nil
	}
	return &adminv1.StatusResponse{Cluster: data, Member: m.id, Role: adminv1.Role_WAITING}, nil
}

// Configure takes epochs from 2 on.
func (m *member) Configure(_ context.Context, r *adminv1.ConfigureRequest) (*adminv1.ConfigureResponse, error) {
	if err := m.meant(r.Cluster, r.Member); err != nil {
		return nil, err
	}
	if r.View.GetEpoch() < 2 {
		return nil, status.Error(codes.Aborted, "it holds epoch 2")
	}
	m.configured.Store(r)
	return &adminv1.ConfigureResponse{}, nil
}

func (m *member) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (m *member) HandleRPC(context.Context, stats.RPCStats)                         {}
func (m *member) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (m *member) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		m.connections.Add(1)
	case *stats.ConnEnd:
		m.connections.Add(-1)
	}
}

// serve opens the port of a member until the test ends.
func serve(t *testing.T, m *member) *member {
	t.Helper()
	listener := listen(t)
	m.address = listener.Addr().String()
	server := grpc.NewServer(grpc.StatsHandler(m))
	adminv1.RegisterAdminServer(server, m)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (m *member) target() Target {
	return Target{ID: view.MemberID(m.id), ClusterID: data, Address: m.address}
}

func newTestClient(t *testing.T) *Client {
	c := NewClient()
	t.Cleanup(c.Close)
	return c
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", bound, what)
		}
	}
}

func TestAskTellsWhatMembersSay(t *testing.T) {
	m := serve(t, &member{id: 3, status: &adminv1.StatusResponse{
		Cluster: data, Member: 3, Role: adminv1.Role_LEARNER, View: wire.ToProto(second),
		Digest: second.Digest(), Disk: "d", Incarnation: 2, Version: "v1", Quorum: true, Shards: 8, VotingShards: 5,
		Peers: []*adminv1.Peer{{Member: 1, Reachable: true, RttMicroseconds: 1500, MinRttMicroseconds: 1200}},
		Change: &adminv1.Change{
			Settled: true, Transfers: true, Fetched: true, Bytes: 10, SameBytes: 20, RemainingBytes: 30,
		},
		Partitions: []*adminv1.Part{
			{},
			{Term: 4, Lost: true, Serving: true, Recovered: true, Restarted: true, CaughtUp: []uint32{5}, Length: 6,
				Unsynced: 7, Fast: 8, Slow: 9, Waits: "w",
				Copying: true, WholeTerm: 3, NotedTerm: 2},
		},
		Witnesses: []*adminv1.Peer{{Member: 2}, {Member: 4, Reachable: true}},
	}})
	want := &world.Report{
		ClusterID: data, Role: world.Learner, View: second, Digest: second.Digest(), Disk: "d",
		Incarnation: 2, Version: "v1", Quorum: true, Shards: 8, Voting: 5,
		Peers:  []world.Peer{{ID: 1, Reachable: true, RTT: 1500 * time.Microsecond, MinRTT: 1200 * time.Microsecond}},
		Change: world.Change{Settled: true, Fetched: true, Bytes: 10, SameBytes: 20, Remaining: 30},
		Partitions: []world.Part{{}, {Serving: true, Unsynced: 7, Fast: 8, Slow: 9, Waits: "w", Part: membership.Part{
			Term: 4, Lost: true, Recovered: true, Restarted: true, CaughtUp: []view.MemberID{5}, Length: 6,
			Copying: true, WholeTerm: 3, NotedTerm: 2,
		}}},
		Witnesses: []world.Peer{{ID: 2}, {ID: 4, Reachable: true}},
	}
	answer := newTestClient(t).Ask(t.Context(), resource, []Target{m.target()})[0]
	if answer.Err != nil || !reflect.DeepEqual(answer.Report, want) {
		t.Errorf("got %+v, %v\nwant %+v", answer.Report, answer.Err, want)
	}
}

func TestAskRefusesNonsense(t *testing.T) {
	twice := wire.ToProto(second)
	twice.Members = append(twice.Members, twice.Members[0])
	for name, c := range map[string]struct {
		status *adminv1.StatusResponse
		says   string
	}{
		"no role":         {&adminv1.StatusResponse{}, "ROLE_UNSPECIFIED"},
		"role of a newer": {&adminv1.StatusResponse{Role: 99}, "upgrade the operator"},
		"view that can't be": {
			&adminv1.StatusResponse{Role: adminv1.Role_VOTER, View: twice}, "member 1 is named twice",
		},
	} {
		m := serve(t, &member{id: 1, status: c.status})
		answer := newTestClient(t).Ask(t.Context(), resource, []Target{m.target()})[0]
		if answer.Report != nil || answer.Err == nil || !strings.Contains(answer.Err.Error(), c.says) {
			t.Errorf("%s: got %+v, %v; want %q", name, answer.Report, answer.Err, c.says)
		}
	}
}

// Whoever does not answer, for whatever cause, leaves the others' answers as they are.
func TestAskTellsSilencesApart(t *testing.T) {
	well := serve(t, &member{id: 1})
	deaf := listen(t) // connections are made, and nothing is ever said
	defer deaf.Close()
	closed := listen(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	targets := []Target{
		{ID: 2, ClusterID: data, Address: deaf.Addr().String()},
		serve(t, &member{id: 3, silent: true}).target(),
		{ID: 4, ClusterID: data, Address: closed.Addr().String()},
		{ID: 1, ClusterID: "first.other", Address: well.address},
		{ID: 7, ClusterID: data, Address: well.address},
		well.target(),
	}
	want := []codes.Code{
		codes.DeadlineExceeded, codes.DeadlineExceeded, codes.Unavailable, codes.FailedPrecondition,
		codes.FailedPrecondition, codes.OK,
	}
	// That it returns at all shows the deadline: two of them never answer, and this context has none.
	answers := newTestClient(t).Ask(t.Context(), resource, targets)
	if status.Code(answers[0].Err) == codes.Unavailable {
		want[0] = codes.Unavailable // the attempt to connect ended before the question did, which have as long
	}
	for i, answer := range answers {
		if code := status.Code(answer.Err); code != want[i] || (answer.Report != nil) != (code == codes.OK) {
			t.Errorf("target %d: got %+v, %v; want %s", i, answer.Report, answer.Err, want[i])
		}
	}
}

func TestConfigure(t *testing.T) {
	m, other := serve(t, &member{id: 1}), serve(t, &member{id: 3})
	c := newTestClient(t)
	if err := c.Configure(t.Context(), resource, []Target{m.target(), other.target()}, second); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{m, other} {
		if got := m.configured.Load(); got == nil || !reflect.DeepEqual(wire.FromProto(got.View), second) {
			t.Errorf("member %d was given %v", m.id, got)
		}
	}
	// Every refusal is told, with whose it is.
	first := second
	first.Epoch = 1
	foreign := other.target()
	foreign.ClusterID = "first.other"
	err := c.Configure(t.Context(), resource, []Target{m.target(), foreign}, first)
	if err == nil {
		t.Fatal("a view that members refuse is no error")
	}
	for _, want := range []string{
		"member 1: ", codes.Aborted.String(), "it holds epoch 2", "member 3: ", codes.FailedPrecondition.String(),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestConnectionsAreKeptAndClosed(t *testing.T) {
	one, two := serve(t, &member{id: 1}), serve(t, &member{id: 2})
	serving := runtime.NumGoroutine()
	open := func(first, second int64) func() bool {
		return func() bool { return one.connections.Load() == first && two.connections.Load() == second }
	}
	c := NewClient()
	for range 3 {
		for _, answer := range c.Ask(t.Context(), resource, []Target{one.target(), two.target()}) {
			if answer.Err != nil {
				t.Fatal(answer.Err)
			}
		}
		if !open(1, 1)() {
			t.Fatalf("%d and %d connections after a call, want one each", one.connections.Load(),
				two.connections.Load())
		}
	}
	// Another cluster with a member at the same address has a connection of its own.
	c.Ask(t.Context(), "shop/second", []Target{two.target()})
	c.Ask(t.Context(), resource, []Target{one.target()})
	eventually(t, "the connection to a target that went is closed, the other cluster's stays", open(1, 1))
	c.Ask(t.Context(), resource, nil)
	eventually(t, "without targets nothing stays", open(0, 1))
	c.Forget("shop/second")
	eventually(t, "a cluster that is forgotten leaves nothing", open(0, 0))

	// A connection that is made to tell a view is one like the others.
	if err := c.Configure(t.Context(), resource, []Target{one.target()}, second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is open again", open(1, 0))
	c.Close()
	eventually(t, "Close closes all", open(0, 0))
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= serving })
	if len(c.members.of) != 0 {
		t.Errorf("%d clusters are remembered", len(c.members.of))
	}
}
