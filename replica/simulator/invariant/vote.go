package invariant

import (
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
)

// holdVote holds it that a disk which tells of a vote in an epoch was asked for it in that epoch, or has what is chosen
// anyway: a state that was copied counts as nobody's vote. Whom a proposer asks is known once it asks, and it may have
// voted before.
func (r *Run) holdVote(s Speaker, key, now, before []byte, disks Disks) {
	is, was := voteOf(key, now), voteOf(key, before)
	if is == was || is.epoch == 0 || is.Proposer.Member() == uint32(s.ID) {
		return
	}
	if _, asked := r.proposed[is]; asked || r.chosen[is.key].ballot >= is.Number {
		return
	}
	chosen := func(has Records) (bool, bool) {
		raw, _ := has(key)
		return true, voteOf(key, raw).Number >= is.Number
	}
	if lack := lackingSince(s.View, disks, chosen, s.ID); lack != nil {
		r.broken(s.ID, "has a vote in ballot %d of epoch %d for %s that nobody asked for, and the disks of members %v do "+
			"not have what it is for", is.Number, is.epoch, show(key), lack)
	}
}

// voteOf is what an RMWPaxosRecord has voted for.
func voteOf(key, raw []byte) proposal {
	voted := field.Part(raw, 2)
	return proposal{string(key[1:]), field.Number(raw, 3), base.Ballot{
		Number: field.Number(voted, 1), Proposer: register.Writer(field.Number(voted, 2)), Attempt: field.Number(voted, 3),
	}}
}
