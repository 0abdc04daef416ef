package node

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// admin serves api/admin/v1.
type admin struct {
	adminv1.UnimplementedAdminServer
	node *node
}

// check refuses a call for another member; each names the one that it is for.
func (a *admin) check(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	c, to := &a.node.config, r.(interface {
		GetCluster() string
		GetMember() uint32
	})
	if to.GetCluster() != c.Cluster || view.MemberID(to.GetMember()) != c.Self {
		return nil, status.Errorf(codes.FailedPrecondition, "this is member %d of cluster %s, not member %d of %s",
			c.Self, c.Cluster, to.GetMember(), to.GetCluster())
	}
	return handle(ctx, r)
}

// Status implements adminv1.AdminServer.
func (a *admin) Status(context.Context, *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	n := a.node
	c, now := &n.config, n.now.Load()
	response := &adminv1.StatusResponse{
		Cluster: c.Cluster, Member: uint32(c.Self), Site: n.site(), Protocol: c.Protocol, Version: n.options.Version,
		Epoch: now.view.Epoch, View: wire.ToProto(now.view), Disk: n.store.Disk(), Boot: n.store.Boot(),
		Role: now.role, Shards: uint32(max(c.Shards, len(now.view.Partitions))),
	}
	if now.view.Epoch > 0 {
		response.Digest = now.view.Digest()
	}
	if loss := n.store.Loss(); loss != nil {
		response.Loss = &adminv1.Loss{Cause: loss.Cause, Aside: loss.Aside, Over: loss.Over}
	}
	if now.replica != nil {
		addReplica(response, now)
	}
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
		reading := n.meter.Read(kind)
		response.Operations = append(response.Operations, &adminv1.Operations{
			Kind: kind.String(), Answered: reading.Answered, Refused: reading.Refused, Unanswered: reading.Unanswered,
			Fast: reading.Fast, RoundTrips: reading.RoundTrips, LatencyBuckets: reading.Latency,
		})
	}
	return response, nil
}

// addReplica adds what a running replica tells.
func addReplica(response *adminv1.StatusResponse, now *memberState) {
	status := now.replica.Status()
	response.Quorum, response.Role = status.Quorum, adminv1.Role_VOTER
	for _, s := range status.Shards {
		response.Incarnation = max(response.Incarnation, uint32(s.Incarnation))
		if s.Voter {
			response.VotingShards++
		} else {
			response.Role = adminv1.Role_LEARNER
		}
	}
	if c := status.Change; c.Joint || response.Role == adminv1.Role_LEARNER && len(status.Partitions) == 0 {
		response.Change = &adminv1.Change{
			Settled: c.Settled, Transfers: c.Transfers, Fetched: c.Fetched,
			Records: c.Records, Bytes: c.Bytes, SameBytes: c.SameBytes, RemainingBytes: c.Remaining,
		}
	}
	for _, p := range status.Peers {
		response.Peers = append(response.Peers, peer(now, p))
	}
	for _, w := range status.Witnesses {
		response.Witnesses = append(response.Witnesses, peer(now, w))
	}
	counts := now.counted()
	for i, p := range status.Partitions {
		response.Partitions = append(response.Partitions, part(p, counts[i]))
	}
}

func peer(now *memberState, p transport.Peer) *adminv1.Peer {
	return &adminv1.Peer{
		Member: uint32(p.ID), Site: now.site(p.ID), Connected: p.Connected, Reachable: p.Reachable,
		RttMicroseconds: p.RTT.Microseconds(), MinRttMicroseconds: p.MinRTT.Microseconds(), Refused: p.Refused,
	}
}

// partRoles are the roles as the admin port tells them.
var partRoles = map[protocol.Role]adminv1.PartRole{
	protocol.Master: adminv1.PartRole_MASTER, protocol.Backup: adminv1.PartRole_BACKUP,
	protocol.Learner: adminv1.PartRole_PART_LEARNER,
}

// part is what a member tells of its part in a partition.
func part(p protocol.PartitionStatus, counted updates) *adminv1.Part {
	return &adminv1.Part{
		Term: p.Term, Role: partRoles[p.Role], Lost: p.Lost, Serving: p.Serving,
		Recovered: p.Serving && p.Recovered == p.Term,
		Restarted: p.Restarted, Copying: p.Copying, WholeTerm: p.WholeTerm, NotedTerm: p.NotedTerm, Length: p.Last,
		Unsynced: uint64(p.Unsynced), Fast: counted.fast, Slow: counted.slow, Waits: p.Why,
		CaughtUp: wire.Numbers(p.CaughtUp),
	}
}

// Configure implements adminv1.AdminServer.
func (a *admin) Configure(ctx context.Context, r *adminv1.ConfigureRequest) (*adminv1.ConfigureResponse, error) {
	if r.View == nil {
		return nil, status.Error(codes.InvalidArgument, "the view is missing")
	}
	if err := a.node.configure(ctx, wire.FromProto(r.View)); err != nil {
		return nil, err
	}
	return &adminv1.ConfigureResponse{}, nil
}

// SetLink implements adminv1.AdminServer. The peer may be a witness. A link stays as it was set over changes of the
// view.
func (a *admin) SetLink(_ context.Context, r *adminv1.SetLinkRequest) (*adminv1.SetLinkResponse, error) {
	n, peer := a.node, view.MemberID(r.Peer)
	var directions transport.Direction
	if r.Blocked {
		directions = transport.Outgoing | transport.Incoming
	}
	n.linking.Lock()
	defer n.linking.Unlock()
	now := n.now.Load()
	if _, witness := now.view.Witness(peer); peer == n.config.Self || !named(now.view, peer) && !witness {
		return nil, status.Errorf(codes.InvalidArgument, "member %d has no peer or witness %d", n.config.Self, peer)
	}
	n.cut[peer] = r.Blocked
	if now.replica != nil {
		if err := now.replica.Block(peer, directions); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return &adminv1.SetLinkResponse{}, nil
}
