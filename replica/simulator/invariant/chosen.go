package invariant

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// backed is a state of a key in a ballot, with those whose disks have voted for it.
type backed struct {
	base.Ballot
	carstamp register.Carstamp
	votes    []cast
}

// cast is a vote of a member, cast in an epoch. A copy is none.
type cast struct {
	id    view.MemberID
	epoch uint64
}

// Survives notes what there is in a batch that reached a disk while its member crashed: votes, and how far keys are.
func (r *Run) Survives(s Speaker, b protocol.Batch) {
	for _, m := range b.Mutations {
		if len(m.Key) == 0 || m.Value == nil {
			continue
		}
		r.noteReached(s, m.Key, m.Value)
		if m.Key[0] == acceptors {
			r.noteVote(s.ID, m.Key, m.Value)
		}
	}
}

func (r *Run) noteVote(id view.MemberID, key, raw []byte) {
	r.shows(key[1:], field.Part(raw, 8))
	v := voteOf(key, raw)
	if v.epoch == 0 || v.Ballot == (base.Ballot{}) {
		return
	}
	all := r.ballots[v.key]
	at := len(all) - 1
	for at >= 0 && all[at].Ballot != v.Ballot {
		at--
	}
	if at < 0 {
		if r.ballots == nil {
			r.ballots = map[string][]backed{}
		}
		c := wire.Carstamp(field.Number(raw, 6), field.Number(raw, 7), 0)
		r.ballots[v.key] = append(all, backed{v.Ballot, c, []cast{{id, v.epoch}}})
		return
	}
	if by := (cast{id, v.epoch}); !slices.Contains(all[at].votes, by) {
		all[at].votes = append(all[at].votes, by)
	}
}

// rests holds it that what is answered of a key that members agree on in place is chosen: the state with its carstamp,
// or a later one, in one ballot.
func (r *Run) rests(s Speaker, key string, c register.Carstamp) {
	all := r.ballots[key]
	if len(all) == 0 {
		return
	}
	for _, b := range slices.Backward(all) {
		if (b.carstamp == c || b.carstamp.Timestamp > c.Timestamp) && chosen(s.View, b.Ballot, b.votes) {
			return
		}
	}
	r.broken(s.ID, "answers with carstamp %v of key %q, and no ballot for it or a later one has the votes of a quorum",
		c, key)
}

// chosen reports whether a ballot has the votes of a quorum of a view. With CASPaxos they are cast in its epoch. With
// RMWPaxos those count that were cast since there are the members of before the change, or of now; and while members
// change, those of the members before alone, if one of them was cast before that: who asks both sides finds it.
func chosen(v *view.View, b base.Ballot, votes []cast) bool {
	since := max(v.Since, 1)
	if ordered(b, b) {
		since = v.Epoch
	}
	has := func(id view.MemberID) bool {
		return slices.ContainsFunc(votes, func(c cast) bool { return c.id == id && c.epoch >= since })
	}
	if v.Quorum(has) {
		return true
	}
	old := slices.ContainsFunc(votes, func(c cast) bool { return c.epoch >= since && c.epoch < v.Epoch })
	if !v.Joint() || !old {
		return false
	}
	before := v.Before()
	return before.Quorum(has)
}
