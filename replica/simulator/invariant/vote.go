package invariant

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// vote is one that a member is asked for.
type vote struct {
	proposal
	id view.MemberID
}

// Hears notes a message that a member is given.
func (r *Run) Hears(s Speaker, from view.MemberID, m *peerv1.Message) {
	if m.Kind == peerv1.Kind_FRAGMENT_FETCHED {
		r.hearFragment(s, from, m)
	}
	r.hears(s, from, m)
	if m.Kind != peerv1.Kind_PAXOS_VOTE {
		return
	}
	if r.asked == nil {
		r.asked = map[vote]bool{}
	}
	r.asked[vote{proposal{string(m.Key), m.Epoch, base.BallotOf(m.GetRmwPaxos().GetRound())}, s.ID}] = true
}

// holdVote holds it that a disk which tells of a vote in an epoch was asked for it in that epoch, or has what is chosen
// anyway: a state that was copied counts as nobody's vote. A proposer asks itself.
func (r *Run) holdVote(s Speaker, key, now, before []byte, disks Disks) {
	is, was := voteOf(key, now), voteOf(key, before)
	if is == was || is.epoch == 0 || is.Proposer.Member() == uint32(s.ID) {
		return
	}
	if r.asked[vote{is, s.ID}] || r.chosen[is.key].ballot >= is.Number {
		return
	}
	chosen := func(has Records) (bool, bool) {
		raw, _ := has(key)
		return true, voteOf(key, raw).Number >= is.Number
	}
	if lack := lackingSince(s.View, disks, chosen, s.ID); lack != nil {
		r.broken(s.ID, "has a vote in ballot %d of epoch %d for %s that nobody asked it for, and the disks of members %v do "+
			"not have what it is for", is.Number, is.epoch, show(key), lack)
	}
}

// voteOf is what an RMWPaxosRecord has voted for.
func voteOf(key, raw []byte) proposal {
	return proposal{string(key[1:]), field.Number(raw, 3), acceptedIn(raw)}
}

// refusal is what a member of Gus has told a writer whose tag it does not hold, where to hold it is to vote for it: that
// it never will, in that epoch.
type refusal struct {
	disk  string
	epoch uint64
	tag
}

// refuse notes a refusal that leaves its member. One that has forgotten the write says neither.
func (r *Run) refuse(s Speaker, m *peerv1.Message) {
	if g := m.Gus; m.Kind != peerv1.Kind_GUS_WRITE_REPLY || g == nil || g.Held || g.Final || g.Forgotten {
		return
	}
	if r.refused == nil {
		r.refused = map[refusal]bool{}
	}
	origin := wire.Carstamp(m.Gus.Origin, m.Writer, 0)
	r.refused[refusal{s.Disk, s.View.Epoch, tag{string(m.Key), origin}}] = true
}

// keepsRefusals holds it that a disk holds no tag that it has refused: its writer counts on that. Elsewhere than where to
// hold a tag is to vote for it, no write is of that epoch.
func (r *Run) keepsRefusals(s Speaker, key []byte, now gusRecord) {
	for _, w := range now.writes {
		if w.held && w.born == s.View.Epoch && r.refused[refusal{s.Disk, w.born, tag{string(key[1:]), w.origin}}] {
			r.broken(s.ID, "holds tag %v of %s, and has told its writer that it does not", w.origin, show(key))
		}
	}
}
