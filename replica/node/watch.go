package node

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/transport"
)

// watchEvery is the pause between two looks at the member's condition.
const watchEvery = time.Second

// watch logs, until the context ends, what changes about the member's role, its quorum and its peers: whoever
// asks later why a site did not serve finds it in the log.
func (n *node) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var of *memberState
	var seen condition
	for {
		if now := n.now.Load(); now != of {
			of, seen = now, condition{parts: seen.parts} // another view: everything else is news
		}
		if of.replica != nil {
			seen = n.changed(of, seen, of.replica.Status())
			n.recovered(of.replica)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// recovered gives up what is left of a damaged disk, once the member needs no other one's state any more.
func (n *node) recovered(replica *runtime.Replica) {
	loss := n.store.Loss()
	if loss == nil || loss.Over || !replica.Votes() || !replica.Complete() || lost(replica.Partitions()) != nil {
		return
	}
	if err := n.store.Recovered(); err != nil {
		n.log.Warn("What is left of the damaged disk can't be removed", zap.Error(err))
		return
	}
	n.log.Info("Member votes again after its disk was damaged; what was left of that is removed",
		zap.String("directory", loss.Aside))
}

// condition is what was logged last.
type condition struct {
	known         bool // false: nothing was
	voter, quorum bool
	done          bool            // its part of the change, if members change
	peers         []peerCondition // in the order of the view
	witnesses     []peerCondition // as well
	parts         []partCondition // by partition; over the changes of the view
}

type partCondition struct {
	role          protocol.Role
	lost, serving bool
	why           string
}

type peerCondition struct {
	reachable bool
	refused   string
}

// changed logs what differs from what was logged last, and returns what is logged now. A peer that does not
// answer yet at the first look is no news, but a refusal, a role and a missing quorum are.
func (n *node) changed(of *memberState, last condition, status runtime.Status) condition {
	now := condition{known: true, voter: true, quorum: status.Quorum}
	for _, s := range status.Shards {
		now.voter = now.voter && s.Voter
	}
	switch {
	case len(status.Partitions) > 0: // its parts say more
	case now.voter && !last.voter:
		n.log.Info("Member votes")
	case !now.voter && (last.voter || !last.known):
		n.log.Warn("Member does not vote yet: its disk was empty, and it fetches the others' state first")
	}
	c := status.Change
	now.done = c.Joint && c.Settled && (!c.Transfers || c.Fetched)
	switch {
	case now.done && !last.done:
		n.log.Info("Member has done its part of the change of members", zap.Uint64("records", c.Records),
			zap.Uint64("bytes", c.Bytes), zap.Uint64("sameBytes", c.SameBytes))
	case c.Joint && !last.known:
		n.log.Info("Members change", zap.Bool("transfers", c.Transfers))
	}
	now.peers = n.changedPeers(of, "Peer", last.peers, status.Peers)
	now.witnesses = n.changedPeers(of, "Witness", last.witnesses, status.Witnesses)
	now.parts = n.changedParts(last.parts, status.Partitions)
	switch {
	case now.quorum && !last.quorum:
		n.log.Info("Quorum reached: clients are served")
	case !now.quorum && (last.quorum || !last.known):
		n.log.Warn("No quorum: clients are not served")
	}
	return now
}

// changedPeers logs what differs about peers, or witnesses: what says which.
func (n *node) changedPeers(
	of *memberState, what string, last []peerCondition, peers []transport.Peer,
) (now []peerCondition) {
	for i, p := range peers {
		now = append(now, peerCondition{p.Reachable, p.Refused})
		var before peerCondition
		if i < len(last) {
			before = last[i]
		}
		peer := n.log.With(zap.Uint32(strings.ToLower(what), uint32(p.ID)), zap.String("site", of.site(p.ID)))
		switch {
		case p.Reachable && !before.reachable:
			peer.Info(what+" reached", zap.Duration("rtt", p.RTT))
		case !p.Reachable && before.reachable:
			peer.Warn(what + " lost")
		}
		if p.Refused != "" && p.Refused != before.refused {
			peer.Error(what+" refuses this member", zap.String("reason", p.Refused))
		}
	}
	return now
}

// changedParts logs what differs about the member's parts in partitions.
func (n *node) changedParts(last []partCondition, parts []protocol.PartitionStatus) (now []partCondition) {
	for i, p := range parts {
		is := partCondition{p.Role, p.Lost, p.Serving, p.Why}
		now = append(now, is)
		was := partCondition{role: protocol.Learner} // as whoever has no other part
		if i < len(last) {
			was = last[i]
		}
		if is == was {
			continue
		}
		log := n.log.With(zap.Int("partition", i), zap.Uint64("term", p.Term), zap.Stringer("role", p.Role))
		switch {
		case p.Lost:
			log.Error("Member's disk can't fill its part in a partition: it has to be replaced",
				zap.String("reason", p.Why))
		case p.Role == protocol.Master && p.Serving:
			log.Info("Member is the master of a partition, and serves")
		case p.Role == protocol.Master:
			log.Info("Member is the master of a partition, and does not serve yet", zap.String("reason", p.Why))
		case p.Role != was.role:
			log.Info("Member's part in a partition is another one", zap.Stringer("previous", was.role))
		}
	}
	return now
}
