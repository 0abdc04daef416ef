package curpraft

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/cache"
)

// unsynced is what a leader has made of a key by entries that are not applied yet. It is in memory alone: when the lead
// is lost, so is this, and the state has never had any of it.
type unsynced struct {
	state *peerv1.KeyState
	last  uint64 // index of the last of those entries
}

// Led implements raft.Extension.
func (p *Protocol) Led(self bool) {
	p.reign = nil
	if self {
		p.reign = &reign{term: p.raft.Term(), unsynced: map[string]*unsynced{}, answers: map[cache.ID]*peerv1.Answer{}}
		p.gather()
		p.tryRecover()
	}
}

// Appended implements raft.Extension: a leader executes what it has put into its log, and answers at once if that
// commutes with all that is not applied.
func (p *Protocol) Appended(index uint64, entry *peerv1.RaftEntry) {
	for i, c := range entry.Commands {
		if p.Serves() && !entry.Recovered && !p.raft.Config.View.Joint() {
			p.speculate(c, register.Carstamp{Timestamp: index, RMWs: uint64(i) + 1})
		}
	}
}

func (p *Protocol) speculate(c *peerv1.RaftCommand, at register.Carstamp) {
	r, n := p.reign, idOf(c)
	if p.raft.Over(c.Author, c.Number) {
		return
	}
	if answer, known := r.answers[n]; known { // it was handed over twice
		if answer != nil {
			p.tell(c, answer)
		}
		return
	}
	u, conflicts := r.unsynced[string(c.Key)]
	if !conflicts {
		u = &unsynced{state: p.raft.State(c.Key)}
		r.unsynced[string(c.Key)] = u
	}
	u.last = at.Timestamp
	answer := p.raft.Perform(u.state, c, at)
	if conflicts {
		// What it rests on may be lost while it is held by witnesses: its client waits for the commit.
		p.raft.Took(pathConflict)
		r.answers[n] = nil
		return
	}
	r.answers[n] = answer
	p.tell(c, answer)
}

// tell sends the answer to the client. It need not be durable here: the witnesses are what the client relies on.
func (p *Protocol) tell(c *peerv1.RaftCommand, answer *peerv1.Answer) {
	client := view.MemberID(register.Writer(c.Author).Member())
	if client == p.raft.Config.Self {
		p.speculated(c.Number, p.reign.term, answer)
		return
	}
	m := p.message(peerv1.Kind_SPECULATED, c.Number, p.reign.term)
	m.Raft = p.raft.Encode(answer, "an answer", nil)
	p.raft.Send(client, m)
}

// settle forgets what a leader has made of a command by itself: it is in the state.
func (p *Protocol) settle(index uint64, c *peerv1.RaftCommand) {
	if p.reign == nil {
		return
	}
	delete(p.reign.answers, idOf(c))
	if u := p.reign.unsynced[string(c.Key)]; u != nil && u.last <= index {
		delete(p.reign.unsynced, string(c.Key))
	}
}

// Unsynced implements raft.Extension: a read of what may be lost waits until it can't be.
func (p *Protocol) Unsynced(key []byte) uint64 {
	if p.reign != nil {
		if u := p.reign.unsynced[string(key)]; u != nil {
			return u.last
		}
	}
	return 0
}
