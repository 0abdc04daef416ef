package raft

import (
	"time"

	lib "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/view"
)

// election is when this member calls for one, and who leads.
type election struct {
	*base.Base
	lead     view.MemberID // 0: nobody that is known
	patience protocol.Instant
	attempts int // since a leader was heard

	followed protocol.Instant                   // when the leader was heard last, if another member leads
	alive    map[view.MemberID]protocol.Instant // when each was heard last; never ranged over
	beat     protocol.Instant                   // when the next heartbeats are due
	stuck    map[view.MemberID]protocol.Instant // since when a snapshot is due there; never ranged over
}

// leads reports whether this member does.
func (e *election) leads() bool { return e.lead == e.Config.Self }

// begin waits for a leader. Where there is none, the view's first member is the first to call for an election, so that
// a new cluster has one soon, and always the same.
func (e *election) begin() {
	e.alive, e.stuck = map[view.MemberID]protocol.Instant{}, map[view.MemberID]protocol.Instant{}
	rank := time.Duration(e.Config.View.Index(e.Config.Self))
	e.patience = e.Now.Add(rank * e.Config.Retry)
}

// wait sets when to call for an election: the leader has been silent for longer than Suspect, or the last call was in
// vain. Then the time is drawn from a window that doubles with each call, so that one of them comes to its end before
// the next also where it takes longer than Config.Retry, such as to have votes on slow disks.
func (e *election) wait() {
	retry := max(e.Config.Retry, time.Millisecond)
	wait := max(e.Config.Suspect, 2*retry)
	window := retry + wait/2
	if e.attempts > 0 {
		wait, window = 2*retry, retry<<min(e.attempts, longestWindow)
	}
	e.patience = e.Now.Add(wait + time.Duration(e.Draws.Below(uint64(window))))
}

// longestWindow is how often the window of calls in vain doubles: from Config.Retry to 16 times as long.
const longestWindow = 4

// reign begins this member's lead.
func (e *election) reign() {
	e.beat = e.Now.Add(e.interval())
	e.attempts = 0
	for _, m := range e.Config.View.Members {
		e.alive[m.ID] = e.Now
	}
	clear(e.stuck)
}

// interval is the time between heartbeats.
func (e *election) interval() time.Duration { return max(e.Config.Suspect, 2*e.Config.Retry) / 3 }

// follow notes that the leader lives.
func (p *Protocol) follow(from view.MemberID, r *raftpb.Message) {
	switch r.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
	default:
		return
	}
	if s := p.node.BasicStatus(); s.Lead == uint64(from) {
		p.elect.followed, p.elect.attempts = p.Now, 0
		p.elect.wait()
	}
}

// content reports whether this member has heard a leader so recently that it wants no other. Who was cut off, and comes
// back, would depose one that does its work.
func (e *election) content() bool {
	return e.leads() && e.supported() || e.lead != 0 && !e.leads() && e.Now < e.followed.Add(e.Config.Suspect)
}

// supported reports whether a quorum was heard within Suspect.
func (e *election) supported() bool {
	window := max(e.Config.Suspect, 2*e.Config.Retry) + e.Config.Retry
	return e.Config.View.Quorum(func(id view.MemberID) bool {
		return id == e.Config.Self || e.Now < e.alive[id].Add(window)
	})
}

func (p *Protocol) tickElection() {
	e := &p.elect
	if !e.leads() {
		if p.Now >= e.patience {
			p.Took(pathCampaign)
			e.attempts++
			e.wait()
			if err := p.node.Campaign(); err != nil {
				p.Fault("call for an election: %w", err)
			}
		}
		return
	}
	if !e.supported() { // it hears nobody: the others may not know that they need another leader
		p.Took(pathStepDown)
		p.restart()
		e.wait()
		return
	}
	if p.Now < e.beat {
		return
	}
	e.beat = p.Now.Add(e.interval())
	p.snapshots()
	p.node.Tick()
}

// snapshots asks again who did not say that it has the state which it needs to follow.
func (p *Protocol) snapshots() {
	var late []uint64
	p.node.WithProgress(func(id uint64, _ lib.ProgressType, pr tracker.Progress) {
		m := view.MemberID(id)
		since, known := p.elect.stuck[m]
		switch {
		case pr.State != tracker.StateSnapshot:
			delete(p.elect.stuck, m)
		case !known:
			p.elect.stuck[m] = p.Now
		case p.Now >= since.Add(2*p.Config.Retry):
			delete(p.elect.stuck, m)
			late = append(late, id)
		}
	})
	for _, id := range late {
		p.node.ReportSnapshot(id, lib.SnapshotFailure)
	}
}
