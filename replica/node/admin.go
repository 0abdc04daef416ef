package node

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// admin serves api/admin/v1.
type admin struct {
	adminv1.UnimplementedAdminServer
	node *node
}

// meant refuses a call for somebody else.
func (a *admin) meant(cluster string, member uint32) error {
	c := &a.node.config
	if cluster != c.Cluster || view.MemberID(member) != c.Self {
		return status.Errorf(codes.FailedPrecondition, "this is member %d of cluster %s, not member %d of %s",
			c.Self, c.Cluster, member, cluster)
	}
	return nil
}

// Status implements adminv1.AdminServer.
func (a *admin) Status(_ context.Context, r *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	if err := a.meant(r.Cluster, r.Member); err != nil {
		return nil, err
	}
	c, now := &a.node.config, a.node.replica.Status()
	response := &adminv1.StatusResponse{
		Cluster: c.Cluster, Epoch: now.Epoch, Member: uint32(c.Self), Site: c.member(c.Self).Site,
		Protocol: c.Protocol, Boot: now.Boot, Quorum: now.Quorum,
		Role: adminv1.Role_VOTER, Shards: uint32(len(now.Shards)),
	}
	for _, s := range now.Shards {
		response.Incarnation = max(response.Incarnation, uint32(s.Incarnation))
		if s.Voter {
			response.VotingShards++
		} else {
			response.Role = adminv1.Role_LEARNER
		}
	}
	for _, p := range now.Peers {
		response.Peers = append(response.Peers, &adminv1.Peer{
			Member: uint32(p.ID), Site: c.member(p.ID).Site, Connected: p.Connected, Reachable: p.Reachable,
			RttMicroseconds: p.RTT.Microseconds(), Refused: p.Refused,
		})
	}
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
		reading := a.node.meter.Read(kind)
		response.Operations = append(response.Operations, &adminv1.Operations{
			Kind: kind.String(), Answered: reading.Answered, Refused: reading.Refused, Unanswered: reading.Unanswered,
			Fast: reading.Fast, RoundTrips: reading.RoundTrips, LatencyBuckets: reading.Latency,
		})
	}
	return response, nil
}

// SetLink implements adminv1.AdminServer.
func (a *admin) SetLink(_ context.Context, r *adminv1.SetLinkRequest) (*adminv1.SetLinkResponse, error) {
	if err := a.meant(r.Cluster, r.Member); err != nil {
		return nil, err
	}
	var directions transport.Direction
	if r.Blocked {
		directions = transport.Outgoing | transport.Incoming
	}
	if err := a.node.replica.Block(view.MemberID(r.Peer), directions); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &adminv1.SetLinkResponse{}, nil
}
