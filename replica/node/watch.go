package node

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/runtime"
)

// watchEvery is the pause between two looks at the member's condition.
const watchEvery = time.Second

// watch logs, until the context ends, what changes about the member's role, its quorum and its peers: whoever
// asks later why a site did not serve finds it in the log.
func (n *node) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var of *membership
	var seen condition
	for {
		if now := n.now.Load(); now != of {
			of, seen = now, condition{} // another view: everything is news
		}
		if of.replica != nil {
			seen = n.changed(of, seen, of.replica.Status())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// condition is what was logged last.
type condition struct {
	known         bool // false: nothing was
	voter, quorum bool
	done          bool            // its part of the change, if members change
	peers         []peerCondition // in the order of the view
}

type peerCondition struct {
	reachable bool
	refused   string
}

// changed logs what differs from what was logged last, and returns what is logged now. A peer that does not
// answer yet at the first look is no news, but a refusal, a role and a missing quorum are.
func (n *node) changed(of *membership, last condition, status runtime.Status) condition {
	now := condition{known: true, voter: true, quorum: status.Quorum}
	for _, s := range status.Shards {
		now.voter = now.voter && s.Voter
	}
	switch {
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
	for i, p := range status.Peers {
		now.peers = append(now.peers, peerCondition{p.Reachable, p.Refused})
		var before peerCondition
		if i < len(last.peers) {
			before = last.peers[i]
		}
		peer := n.log.With(zap.Uint32("peer", uint32(p.ID)), zap.String("site", of.site(p.ID)))
		switch {
		case p.Reachable && !before.reachable:
			peer.Info("Peer reached", zap.Duration("rtt", p.RTT))
		case !p.Reachable && before.reachable:
			peer.Warn("Peer lost")
		}
		if p.Refused != "" && p.Refused != before.refused {
			peer.Error("Peer refuses this member", zap.String("reason", p.Refused))
		}
	}
	switch {
	case now.quorum && !last.quorum:
		n.log.Info("Quorum reached: clients are served")
	case !now.quorum && (last.quorum || !last.known):
		n.log.Warn("No quorum: clients are not served")
	}
	return now
}
