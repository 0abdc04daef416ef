// Package members talks to the members of clusters through their admin ports (api/admin/v1), and to their witnesses.
package members

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
	"github.com/georegister/georegister/witness/manage"
)

// Target is a member, or a witness, as it can be called.
type Target struct {
	ID        view.MemberID
	ClusterID string // the identity of its data: a member of another cluster refuses the call
	Address   string // of a member's admin port, or of a witness's port, host:port
}

// Reply is what one who was asked said, or why it said nothing.
type Reply[T any] struct {
	Report T
	Err    error
}

// Answer is a member's word, or why there is none.
type Answer = Reply[*world.Report]

// Members talks to the members of clusters, and to their witnesses. A cluster is named by its resource, namespace/name;
// the names tell connections apart and nothing else.
type Members interface {
	// Ask asks all members of a cluster at the same time. The answers are in the order of the targets. A member that
	// says nothing within about a second counts as silent, and the next times no one waits for it, until it has
	// answered. Connections of the cluster to others than the targets are closed: their pods are gone.
	Ask(ctx context.Context, cluster string, targets []Target) []Answer
	// Configure gives members a view, all at the same time. The error joins those of the members that did
	// not take it.
	Configure(ctx context.Context, cluster string, targets []Target, v view.View) error
	// AskWitnesses asks all witnesses of a cluster at the same time; it is otherwise like Ask.
	AskWitnesses(ctx context.Context, cluster string, targets []Target) []WitnessAnswer
	// Live has witnesses begin lives on the disks that a view names, and end others. All of it may be repeated. The
	// error joins what was not done.
	Live(ctx context.Context, cluster string, targets []Target, v view.View, start, end []membership.Life) error
	// Forget closes what is open to a cluster.
	Forget(cluster string)
}

// Bounds of a call. A view is written to disk before it is answered.
const (
	askWithin       = time.Second
	configureWithin = 5 * time.Second
)

// Client is Members over gRPC. Its connections are used again from one call to the next.
type Client struct {
	members   links[*grpc.ClientConn]
	witnesses links[*manage.Conn]
}

// NewClient returns a client without connections. Close it.
func NewClient() *Client {
	return &Client{
		members: links[*grpc.ClientConn]{dial: dial},
		witnesses: links[*manage.Conn]{dial: func(t Target) (*manage.Conn, error) {
			return manage.Dial(t.ClusterID, t.ID, "passthrough:///"+t.Address), nil
		}},
	}
}

// Ask implements Members.
func (c *Client) Ask(ctx context.Context, cluster string, targets []Target) []Answer {
	return survey(ctx, &c.members, cluster, targets, ask)
}

func ask(ctx context.Context, conn *grpc.ClientConn, target Target) (*world.Report, error) {
	response, err := adminv1.NewAdminClient(conn).Status(ctx,
		&adminv1.StatusRequest{Cluster: target.ClusterID, Member: uint32(target.ID)})
	if err != nil {
		return nil, err
	}
	return report(response)
}

// Configure implements Members.
func (c *Client) Configure(ctx context.Context, cluster string, targets []Target, v view.View) error {
	ctx, cancel := context.WithTimeout(ctx, configureWithin)
	defer cancel()
	return c.members.call(cluster, targets, func(conn *grpc.ClientConn, target Target) error {
		_, err := adminv1.NewAdminClient(conn).Configure(ctx, &adminv1.ConfigureRequest{
			Cluster: target.ClusterID, Member: uint32(target.ID), View: wire.ToProto(v),
		})
		if err != nil {
			return fmt.Errorf("member %d: %w", target.ID, err)
		}
		return nil
	})
}

// Forget implements Members.
func (c *Client) Forget(cluster string) {
	c.members.keep(cluster, nil)
	c.witnesses.keep(cluster, nil)
}

// Close closes all connections. Calls that are under way fail.
func (c *Client) Close() {
	c.members.close()
	c.witnesses.close()
}

// dial returns the admin port of a member. Nothing is sent before the first call.
func dial(target Target) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+target.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A member that restarts is asked again soon; gRPC's own bound is two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: askWithin,
		}),
		// A report is small, and an operator may have a thousand connections.
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, fmt.Errorf("admin port %s: %w", target.Address, err)
	}
	return conn, nil
}

// report is the snapshot's form of a member's status.
func report(s *adminv1.StatusResponse) (*world.Report, error) {
	role, known := roles[s.Role]
	if !known {
		return nil, fmt.Errorf("it told the role %v, which this operator does not know: upgrade the operator", s.Role)
	}
	r := &world.Report{
		ClusterID: s.Cluster, Role: role, View: wire.FromProto(s.View), Digest: s.Digest, Disk: s.Disk,
		Incarnation: view.Incarnation(s.Incarnation), Version: s.Version, Quorum: s.Quorum,
		Shards: int(s.Shards), Voting: int(s.VotingShards),
	}
	if l := s.Loss; l != nil {
		r.Loss = &world.Loss{Cause: l.Cause, Aside: l.Aside, Over: l.Over}
	}
	if c := s.Change; c != nil {
		r.Change = world.Change{Settled: c.Settled, Fetched: c.Fetched,
			Bytes: int64(c.Bytes), SameBytes: int64(c.SameBytes), Remaining: int64(c.RemainingBytes)}
	}
	if r.View.Epoch > 0 {
		if err := r.View.Validate(); err != nil {
			return nil, fmt.Errorf("it told a view that can't be: %w", err)
		}
	}
	r.Peers, r.Witnesses = peers(s.Peers), peers(s.Witnesses)
	for _, p := range s.Partitions {
		r.Partitions = append(r.Partitions, world.Part{
			Part: membership.Part{Term: p.Term, Lost: p.Lost, Recovered: p.Recovered, Restarted: p.Restarted,
				CaughtUp: wire.IDs(p.CaughtUp), Copying: p.Copying, WholeTerm: p.WholeTerm,
				NotedTerm: p.NotedTerm, Length: p.Length},
			Serving: p.Serving, Unsynced: p.Unsynced, Fast: p.Fast, Slow: p.Slow, Waits: p.Waits,
		})
	}
	return r, nil
}

func peers(all []*adminv1.Peer) (seen []world.Peer) {
	for _, p := range all {
		seen = append(seen, world.Peer{
			ID: view.MemberID(p.Member), Reachable: p.Reachable,
			RTT:    time.Duration(p.RttMicroseconds) * time.Microsecond,
			MinRTT: time.Duration(p.MinRttMicroseconds) * time.Microsecond,
		})
	}
	return seen
}

// roles are the roles by their names in the protocol.
var roles = map[adminv1.Role]world.Role{
	adminv1.Role_WAITING: world.Waiting,
	adminv1.Role_LEARNER: world.Learner,
	adminv1.Role_VOTER:   world.Voter,
	adminv1.Role_REMOVED: world.Removed,
}
