package rmwpaxos

import (
	"cmp"
	"slices"

	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/view"
)

// reply is what an acceptor said of its state: ⟨ACK, inc, r_ack, r_voted, v, req⟩ of the paper.
type reply struct {
	from        view.MemberID
	incarnation view.Incarnation
	granted     bool // inc: Promised was granted to this very attempt
	base.Acceptor
}

// replies holds the newest one of each member, in the order of their ids: who answered first makes no difference.
type replies []reply

// add replaces what the member said before, unless that was of a later vote: messages overtake each other.
func (rs *replies) add(r reply) {
	i, found := slices.BinarySearchFunc(*rs, r.from, func(x reply, id view.MemberID) int { return cmp.Compare(x.from, id) })
	switch {
	case !found:
		*rs = slices.Insert(*rs, i, r)
	case (*rs)[i].incarnation != r.incarnation || !above((*rs)[i].Accepted, r.Accepted):
		(*rs)[i] = r
	}
}

// contended reports whether a member had promised a round to somebody who has not had its vote in it: another proposer
// is at work, or has given up.
func (rs replies) contended() bool {
	for i := range rs {
		before := rs[i].Promised.Number // the last promise, as far as it is known
		if rs[i].granted {
			before--
		}
		if v := rs[i].Accepted; before > v.Number+1 || v.Number == 0 && before > 0 {
			return true
		}
	}
	return false
}

// promised is the highest number of a round that anyone has promised.
func (rs replies) promised() (n uint64) {
	for i := range rs {
		n = max(n, rs[i].Promised.Number)
	}
	return n
}

// highest is the first of those with max_Q(r_voted); the zero acceptor if nobody has voted.
func (rs replies) highest() acceptor {
	var highest acceptor
	for i := range rs {
		if above(rs[i].Accepted, highest.Accepted) {
			highest = rs[i].Acceptor
		}
	}
	return highest
}

// reply is what a member's acceptor says now.
func (p *Protocol) reply(from view.MemberID, a acceptor, granted bool) reply {
	return reply{from: from, incarnation: p.Incarnations.Of(from), granted: granted, Acceptor: a}
}

// quorum reports whether the members of the replies that has accepts, with the disks that they have now, are a quorum.
func (p *Protocol) quorum(rs replies, has func(*reply) bool) bool {
	p.counting.Restart()
	for i := range rs {
		if r := &rs[i]; r.incarnation == p.Incarnations.Of(r.from) && has(r) {
			p.counting.Answer(p.Incarnations, r.from)
		}
	}
	return p.counting.Quorum(p.Incarnations, 0)
}

// chosen reports whether the state of a round is known to be chosen, and was the last that was when the replies were
// given: a quorum has it (cons_Q(r_voted)).
//
// Votes of one round were cast in one epoch, and count by the quorums of that one. Those before the present change
// count by the members before it, also in the joint view: these are a part of each of its quorums. Those of members
// before an earlier change don't count: that a majority of the members of today has it says nothing of those of then.
//
// That votes count by one side does not make that side a quorum: only if a quorum of the joint view has answered is
// nothing later chosen by those who finished the change and have gone on without that side.
func (p *Protocol) chosen(rs replies, voted round) bool {
	since := max(p.Config.View.Since, 1)
	counts := func(r *reply) bool { return r.Accepted == voted && (voted == round{} || r.AcceptedIn >= since) }
	if p.quorum(rs, counts) {
		return true
	}
	if !p.Config.View.Joint() || !p.answeredBy(rs) {
		return false
	}
	old, n := false, 0
	for i := range rs {
		if r := &rs[i]; counts(r) && r.incarnation == p.Incarnations.Of(r.from) && p.before.Index(r.from) >= 0 {
			old = old || r.AcceptedIn < p.Config.View.Epoch
			n++
		}
	}
	return old && n >= p.before.Majority()
}

// possible reports whether those that have not refused could still be a quorum.
func (p *Protocol) possible(refused []view.MemberID) bool {
	return p.Config.View.Quorum(func(id view.MemberID) bool { return !slices.Contains(refused, id) })
}

// answeredBy reports whether a quorum has answered at all.
func (p *Protocol) answeredBy(rs replies) bool {
	return p.quorum(rs, func(*reply) bool { return true })
}
