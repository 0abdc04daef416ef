package cluster

import (
	"fmt"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// calls is what a process that has led a group of Raft does about elections, and about those that are behind its log.
type calls struct {
	ticked, before protocol.Instant // the last tick, and the one before it

	led    bool             // no leader was heard since this one led
	count  int              // calls for an election since then
	called protocol.Instant // the last one; 0: it has voted since

	stuck map[view.MemberID]*stuck // never ranged over
}

// stuck is a member that was told that it is behind the log, and did not answer.
type stuck struct {
	since protocol.Instant
	ticks int  // of the leader, since then
	heard bool // it has answered a heartbeat when it was to be told again
	late  bool // it is to be told again
}

// hear notes a message of the library, whoever sends it.
func (c *calls) hear(from view.MemberID, raw []byte) {
	switch raftpb.MessageType(field.Number(raw, raftKind)) {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		c.led, c.stuck = false, nil
	case raftpb.MsgAppResp:
		delete(c.stuck, from)
	}
}

// beats notes the answer to a heartbeat of a leader of a term.
func (c *calls) beats(from view.MemberID, raw []byte, term uint64) {
	if s := c.stuck[from]; s != nil && s.late && field.Number(raw, raftTerm) == term &&
		raftpb.MessageType(field.Number(raw, raftKind)) == raftpb.MsgHeartbeatResp {
		s.heard = true
	}
}

// longestWindow is how often the time doubles from which waits between calls in vain are drawn.
const longestWindow = 4

// turn judges what a process says in a turn. Who has led, and calls for elections in vain, begins with short waits. Who
// leads tells a member again that it is behind the log, as long as that one answers heartbeats and nothing else.
func (c *calls) turn(now protocol.Instant, e *protocol.Effects, retry, suspect time.Duration) (err error) {
	ticks := now != c.ticked
	if ticks {
		c.before, c.ticked = c.ticked, now
	}
	interval := max(suspect, 2*retry) / 3
	says := func(a *protocol.Envelope) {
		if a.Message.Kind != peerv1.Kind_RAFT {
			return
		}
		switch kind := raftpb.MessageType(field.Number(a.Message.Raft, raftKind)); kind {
		case raftpb.MsgPreVote:
			c.stuck = nil
			if c.called == now {
				return // it is said to several
			}
			most := 2*retry + retry<<min(c.count, longestWindow)
			if c.led && c.count > 0 && c.called != 0 && c.before >= c.called.Add(most) {
				err = fmt.Errorf("calls for an election %v after the last call, the %d. since it led",
					now.Sub(c.called),
					c.count)
			}
			c.count++
			c.called = now
		case raftpb.MsgVoteResp:
			c.called = 0
		case raftpb.MsgVote:
			c.stuck = nil
		case raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgSnap:
			c.led, c.count, c.called = true, 0, 0
			s := c.stuck[a.To]
			switch {
			case kind == raftpb.MsgApp:
				delete(c.stuck, a.To)
			case kind == raftpb.MsgSnap:
				if c.stuck == nil {
					c.stuck = map[view.MemberID]*stuck{}
				}
				c.stuck[a.To] = &stuck{since: now}
			case s != nil && ticks && s.heard:
				err = fmt.Errorf("does not tell member %d again that it is behind the log, after %v", a.To,
					now.Sub(s.since))
			case s != nil && ticks:
				s.ticks++
				s.late = s.ticks >= 8 && now >= s.since.Add(4*interval+4*retry)
			}
		}
	}
	for i := range e.Send {
		says(&e.Send[i])
	}
	for i := range e.SendAfterPersist {
		says(&e.SendAfterPersist[i])
	}
	return err
}
