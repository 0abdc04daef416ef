package curpraft

import (
	"bytes"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/cache"
)

// reign is what a member does as the leader of a term.
type reign struct {
	term uint64

	// Until it serves.
	replies  []reply // of other witnesses, as they came
	due      protocol.Instant
	proposed bool // the replay is in its log

	// Once it does.
	unsynced map[string]*unsynced        // by key
	answers  map[cache.ID]*peerv1.Answer // to commands that are not applied; nil: it waits for the commit
}

// reply is what a witness held when it came to the leader's term. It accepts nothing of earlier ones since.
type reply struct {
	from  view.MemberID
	saved *peerv1.RaftSaved
}

// gather asks the witnesses that have not answered what they hold.
func (p *Protocol) gather() {
	r := p.reign
	r.due = p.raft.Now.Add(p.raft.Config.Retry)
	for _, m := range p.group().Members {
		if m.ID != p.raft.Config.Self && !slices.ContainsFunc(r.replies, func(a reply) bool { return a.from == m.ID }) {
			p.raft.Send(m.ID, p.message(peerv1.Kind_GATHER, 0, r.term))
		}
	}
}

func (p *Protocol) tickReign() {
	r := p.reign
	if r == nil || r.proposed {
		return
	}
	if p.raft.Now >= r.due {
		p.gather()
	}
	p.tryRecover()
}

// onGather tells a leader what the witness holds, once it is durable that this member is in the leader's term.
func (p *Protocol) onGather(from view.MemberID, m *peerv1.Message) {
	if m.Timestamp != p.raft.Term() {
		return // it has not heard of the election; it will be asked again
	}
	p.raft.Enter()
	answer := p.message(peerv1.Kind_GATHERED, 0, m.Timestamp)
	answer.Raft = p.raft.Encode(p.saved(), "what the witness holds", nil)
	p.raft.SendDurably(from, answer)
}

func (p *Protocol) onGathered(from view.MemberID, m *peerv1.Message) {
	r, saved := p.reign, &peerv1.RaftSaved{}
	if r == nil || r.proposed || r.term != m.Timestamp || saved.UnmarshalVT(m.Raft) != nil ||
		slices.ContainsFunc(r.replies, func(a reply) bool { return a.from == from }) {
		return
	}
	r.replies = append(r.replies, reply{from, saved})
	p.tryRecover()
}

// tryRecover proposes what f + 1 witnesses held, once all that earlier leaders have committed is in the state. Then the
// state says which term the last leader that served had. Only what was saved in that one can be complete without being
// committed.
func (p *Protocol) tryRecover() {
	r := p.reign
	if r == nil || r.proposed || p.raft.Applied().Term != r.term {
		return
	}
	n := p.group().Size()
	replies := r.replies
	if p.group().Index(p.raft.Config.Self) >= 0 {
		replies = append([]reply{{p.raft.Config.Self, p.saved()}}, replies...)
	}
	if len(replies) < gathered(n) {
		return
	}
	commands := p.replayed(replies[:gathered(n)], n)
	if p.raft.Recover(p.withoutAcks(commands)) {
		r.proposed = true
		p.raft.Took(pathRecovered)
		if len(commands) > 0 {
			p.raft.Took(pathReplayed)
		}
	}
}

// replayed chooses the commands that enough of the replies hold, in any order: they commute.
func (p *Protocol) replayed(replies []reply, n int) []*peerv1.RaftCommand {
	held := map[cache.ID]int{}
	var commands []*peerv1.RaftCommand
	for _, a := range replies {
		if a.saved.Term != p.raft.Applied().Served {
			continue // of a term whose completed commands are all in the state
		}
		for _, c := range a.saved.Commands {
			if p.raft.Over(c.Author, c.Number) {
				continue
			}
			if held[idOf(c)]++; held[idOf(c)] == threshold(n) {
				commands = append(commands, c)
			}
		}
	}
	slices.SortFunc(commands, func(a, b *peerv1.RaftCommand) int { return bytes.Compare(a.Key, b.Key) })
	return commands
}

// Serves implements raft.Extension: a leader takes commands and reads when its recovery is committed.
func (p *Protocol) Serves() bool {
	r := p.reign
	return r != nil && r.term == p.raft.Term() && p.raft.Applied().Served == r.term
}
