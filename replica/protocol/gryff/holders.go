package gryff

import (
	"encoding/binary"
	"slices"

	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A dependency says who holds it, so that it is written only to members that lack it, wherever its session goes on:
// Holders of a register.Dependency. They are those of one view, and each is a disk. One that is lost by then does not
// count, as it would not if it had answered this member.

// holders encodes which members, this one among them, have on their disks what a read has found: the view's epoch, and
// of each the member and its incarnation, as unsigned varints. Those for which there is no room are left out. The read
// is not answered before this member has it there.
func (p *Protocol) holders(o *operation) []byte {
	all := binary.AppendUvarint(nil, p.Config.View.Epoch)
	add := func(id view.MemberID) {
		more := binary.AppendUvarint(binary.AppendUvarint(all, uint64(id)), uint64(p.Incarnations.Of(id)))
		if len(more) <= register.MaxHoldersBytes {
			all = more
		}
	}
	add(p.Config.Self)
	for _, id := range p.Config.Nearest {
		if o.holders.Answered(p.Incarnations, id) {
			add(id)
		}
	}
	return all
}

// holdersOf are the members that a dependency names and that have not lost their disks since, as far as is known here.
func (p *Protocol) holdersOf(d *register.Dependency) (t quorum.Tally) {
	rest := d.Holders
	number := func() (n uint64, more bool) {
		n, size := binary.Uvarint(rest)
		rest = rest[max(size, 0):]
		return n, size > 0
	}
	if epoch, _ := number(); epoch != p.Config.View.Epoch {
		return t // nobody knows what became of them
	}
	for {
		id, _ := number()
		incarnation, more := number()
		if !more {
			return t
		}
		if from := view.MemberID(id); p.Incarnations.Of(from) == view.Incarnation(incarnation) {
			t.Answer(p.Incarnations, from)
		}
	}
}

// learnHolders notes that a quorum holds a dependency, if those that it names and this member are one.
func (p *Protocol) learnHolders(d *register.Dependency) {
	if t := p.holdersOf(d); t.Quorum(p.Incarnations, p.Config.Self) {
		p.learnHeld([]byte(d.Key), d.Carstamp)
	}
}

// countHolders counts as an answer to an operation's write-back who holds all that it carries.
func (p *Protocol) countHolders(o *operation) {
	var all []quorum.Tally
	after := o.Request.Operation.After
	for i := range after {
		if d := &after[i]; !p.has([]byte(d.Key), d.Carstamp) {
			all = append(all, p.holdersOf(d))
		}
	}
	for _, id := range p.Config.Nearest {
		if !slices.ContainsFunc(all, func(t quorum.Tally) bool { return !t.Answered(p.Incarnations, id) }) {
			o.asked.Answer(p.Incarnations, id)
		}
	}
}
