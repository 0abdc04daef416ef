package instance

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// There are three rules for what may be committed with one fast quorum. That of the first two has ⌊n/2⌋ + f members,
// the coordinator included (view.View.FastQuorum).
//
// Atlas' (EuroSys '20, section 3): PreAccept goes to one fast quorum *alone*, and says so. What its members add is
// committed too, if f of them know each part of it. Then those that are left without the coordinator and f - 1 others
// know all of it, and recovery joins what they know. With f = 1 what is added never costs the fast path.
//
// EPaxos', with its simple fast quorum: anyone may be asked, and replies must equal the initial attributes. Gryff's
// clusters of more than three members have it that are not told how many may be lost at once (Config.Faults). With
// three, Atlas' rule holds always: f is 1 in any case.
//
// EPaxos' with its own fast quorum, all but two (validate.go): the same replies, and another recovery. EPaxos has it
// where Gryff has the simple one.

// merges reports whether Atlas' rule holds.
func (p *store) merges() bool {
	return p.Incarnations.HasFast() && (p.Config.Faults > 0 || p.Config.View.Size() <= 3)
}

// mayBeFast reports whether a coordinator may commit on the fast path in this view. A joint view bars it (HasFast is
// false there): a fast quorum of it would have to be found again by recovery after the change, which asks the members
// of one side alone. Nobody agrees then, lest recovery take what is pre-accepted for committed.
func (p *store) mayBeFast() bool { return p.Incarnations.HasFast() }

// reply is what a member said of an instance, asked to pre-accept it or what it knows of it.
type reply struct {
	attributes
	from     view.MemberID
	status   peerv1.Status
	accepted uint64
	agreed   bool
	rivals   []*peerv1.Rival // to Validate
}

func replyOf(from view.MemberID, m *peerv1.Message) reply {
	i := m.Instance
	return reply{attributesOf(m), from, i.Status, i.AcceptedBallot, i.Agreed, i.Rivals}
}

// hear notes what a member's present disk said to the present question. It replaces what a lost disk said.
func (d *coordination) hear(r reply) {
	d.replies = append(slices.DeleteFunc(d.replies, func(o reply) bool { return o.from == r.from }), r)
}

// standing are the replies that count: those of present disks, and in a recovery the member's own.
func (p *store) standing(d *coordination) []reply {
	lost := func(r reply) bool { return r.from != p.Config.Self && !d.asked.Answered(p.Incarnations, r.from) }
	d.replies = slices.DeleteFunc(d.replies, lost)
	return d.replies
}

// merged is the initial attributes of an instance, joined with those of the answers.
func (p *store) merged(d *coordination) attributes {
	a := d.attributes
	for _, r := range p.standing(d) {
		a.join(&r.attributes)
	}
	return a
}

// survives reports whether f of those who answered know each part of what is merged.
func (p *store) survives(d *coordination, merged *attributes) bool {
	f := p.Config.View.Faults()
	if p.Config.Faults > 0 {
		f = min(f, p.Config.Faults)
	}
	known := func(has func(a *attributes) bool) bool {
		n := 0
		for _, r := range p.standing(d) {
			if has(&r.attributes) {
				n++
			}
		}
		return n >= f
	}
	for _, id := range merged.deps {
		if !known(func(a *attributes) bool { return a.deps.of(id.writer) >= id.number }) {
			return false
		}
	}
	return known(func(a *attributes) bool { return !a.base.Carstamp.Less(merged.base.Carstamp) }) &&
		known(func(a *attributes) bool { return a.seq >= merged.seq })
}
