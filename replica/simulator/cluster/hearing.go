package cluster

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/field"
)

// noteHeard notes what a member hears, as far as rules ask for it later.
func (nd *Node) noteHeard(s *shard, in *Input) {
	w, m := nd.World, in.Message
	if m.Kind == peerv1.Kind_RAFT {
		s.elections.calls.hear(in.from, m.Raft)
	}
	if !w.judged() || m.Epoch != nd.Config.View.Epoch {
		return
	}
	w.logs.Hears(nd.holder(int(m.Shard)), in.from, m, w.Now)
	nd.noteKnown(s, in)
	if v, ok := s.Protocol.(protocol.Joiner); ok && v.Voter() && !s.Protocol.Doubted() {
		if from := w.Nodes[in.from-1]; from.Disks > 1 || from.Used > 0 || from.Older {
			return // what it sent from a lost disk counts as nothing
		}
		if m.Kind == peerv1.Kind_RAFT {
			term := check.Term(s.journal.Get)
			s.elections.hear(m.Raft, term, s.ticked)
			s.elections.calls.beats(in.from, m.Raft, term)
		}
		s.notes.hear(in.from, m, s.ticked)
	}
}

// elections is what a process has heard, and said, of who leads a group of Raft. Times are of its last tick.
type elections struct {
	term  uint64           // the newest that it has heard of
	heard protocol.Instant // when it has heard the leader of that; 0: not since it led, or called for an election
	voted protocol.Instant // when it has voted for another one; 0: as with heard
	calls calls
}

// hear notes a message of the library that comes while the journal has a term. What is granted to who asks whether it
// would be elected has the next term, in which that one may be a candidate by now.
func (e *elections) hear(raw []byte, term uint64, now protocol.Instant) {
	told := field.Number(raw, raftTerm)
	e.term = max(e.term, term)
	switch raftpb.MessageType(field.Number(raw, raftKind)) {
	case raftpb.MsgApp, raftpb.MsgHeartbeat:
		if told >= e.term {
			e.term, e.heard = told, now
		}
	case raftpb.MsgVote, raftpb.MsgPreVoteResp:
		e.term = max(e.term, told)
	}
}

// Numbers of fields of a message of the library.
const (
	raftKind   = 1
	raftTerm   = 4
	raftReject = 10
)

// holdElection holds it that a member of a group of Raft calls for no election while it has heard the leader within
// Suspect, or has just voted: what it voted for may still become the leader.
func (nd *Node) holdElection(s *shard, e *protocol.Effects) {
	if s.Protocol.Doubted() {
		return
	}
	now, is := s.ticked, &s.elections
	within := func(since protocol.Instant, wait time.Duration) bool { // what came after the tick came after the call
		return since != 0 && since < now && now < since.Add(wait)
	}
	says := func(a *protocol.Envelope) {
		if a.Message.Kind != peerv1.Kind_RAFT {
			return
		}
		switch raftpb.MessageType(field.Number(a.Message.Raft, raftKind)) {
		case raftpb.MsgPreVote:
			if within(is.heard, nd.World.Environment.LeastSuspect()) {
				nd.World.Breaches(fmt.Errorf("%s calls for an election, and has heard the leader %v ago", nd.Name(),
					now.Sub(is.heard)))
			}
			if within(is.voted, 2*nd.World.Environment.LeastRetry()) {
				nd.World.Breaches(fmt.Errorf("%s calls for an election, and has voted for another member %v ago",
					nd.Name(), now.Sub(is.voted)))
			}
			is.heard, is.voted = 0, 0
		case raftpb.MsgVote, raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgSnap:
			is.heard, is.voted = 0, 0
		case raftpb.MsgVoteResp:
			if field.Number(a.Message.Raft, raftReject) == 0 {
				is.voted = now
			}
		}
	}
	for i := range e.Send {
		says(&e.Send[i])
	}
	for i := range e.SendAfterPersist {
		says(&e.SendAfterPersist[i])
	}
	w := nd.World.Environment
	if err := is.calls.turn(now, e, nd.Config.Retry, nd.Config.Suspect); err != nil && !w.Paced {
		nd.World.Breaches(fmt.Errorf("%s %w", nd.Name(), err))
	}
}

// turnOf is what a member says in a turn.
func (nd *Node) turnOf(s *shard, e *protocol.Effects) *check.Turn {
	v, joins := s.Protocol.(protocol.Joiner)
	rests := func(c protocol.Completion) bool { return c.Result.Status == register.OK && !c.Result.Fast }
	return &check.Turn{
		Sends: e.Send, Waits: e.SendAfterPersist, Ends: slices.ContainsFunc(e.CompleteAfterPersist, rests),
		Life: nd.life, Tick: s.ticked, Retry: nd.World.Environment.LeastRetry(), Votes: !joins || v.Voter(),
		Journal: s.journal.Get,
	}
}
