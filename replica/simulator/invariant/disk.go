package invariant

import (
	"fmt"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// Persists holds a batch that becomes durable against what the disk had before it: whatever is said of a record later
// must not be less than what was said of it before. What an instance did is in its key's state once its record is gone.
func (r *Run) Persists(s Speaker, disks Disks, b protocol.Batch) {
	if r.Broken != nil {
		return
	}
	disk := disks(s.ID).Has
	for _, m := range b.Mutations {
		before, _ := disk(m.Key)
		was, known, _ := read(m.Key, before)
		if !known {
			continue
		}
		is, _, err := read(m.Key, m.Value)
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case m.Key[0] == instances && m.Value == nil:
			if !executed(m.Key, after(disk, b)) {
				why = "nothing, and its key's state does not have it"
			}
		default:
			why = is.lacks(was)
			if why == "" && m.Key[0] == undecided {
				why = undecidedLacks(m.Value, before)
				r.settle(s, m, before, disks)
			}
		}
		if why != "" {
			r.broken(s.ID, "takes back what its disk had of %s: it has %s", show(m.Key), why)
		}
	}
}

// after is what a disk has with a batch.
func after(disk Records, b protocol.Batch) Records {
	return func(key []byte) ([]byte, bool) {
		for i := len(b.Mutations) - 1; i >= 0; i-- {
			if m := &b.Mutations[i]; string(m.Key) == string(key) {
				return m.Value, m.Value != nil
			}
		}
		return disk(key)
	}
}

// settle holds it that a tag is final against the disks, where a member takes it for final as news: a quorum has it,
// or a larger one. Of Gus, a register is final whose tag is that of no write in its record's list.
func (r *Run) settle(s Speaker, m protocol.Mutation, before []byte, disks Disks) {
	c, final := finalOf(m.Value)
	if was, known := finalOf(before); !final || c.IsZero() || known && was == c {
		return
	}
	if lack := r.without(s, m.Key[1:], c, disks, s.ID); lack != nil {
		r.broken(s.ID, "takes tag %v of %s for final, and the disks of members %v have less", c, show(m.Key), lack)
	}
}

// finalOf is the tag of a GusRecord, and whether it is final.
func finalOf(raw []byte) (register.Carstamp, bool) {
	is, _, _ := read([]byte{undecided}, raw)
	for w := range writes(raw) {
		if w.decided == 0 && w.origin.Writer == is.carstamp.Writer &&
			(w.origin == is.carstamp || w.votedFor == is.carstamp.Timestamp) {
			return is.carstamp, false
		}
	}
	return is.carstamp, true
}

// overtaken reports whether a register has, or is past, all that a record of Gus has of a write. Nothing is held of
// such a write: a member that is asked about it after it is final, or after its writer has ended it, begins anew. Who
// asks then is no writer, and has members vote for no other tag than one that it found.
func overtaken(c register.Carstamp, w aWrite) bool {
	return w.origin.Less(c) && !c.Less(wire.Carstamp(w.votedFor, uint64(w.origin.Writer), 0))
}

// undecidedLacks is what a record of Gus has less of than before: of a write that it has still, what was promised,
// voted and decided.
func undecidedLacks(now, before []byte) string {
	if is, was := number(now, forgotten), number(before, forgotten); is < was {
		return fmt.Sprintf("forgotten writes up to %d, not %d", is, was)
	}
	c := wire.Carstamp(number(now, 1), number(now, 2), 0)
	for was := range writes(before) {
		is, known := writeOf(now, was.origin)
		switch {
		case !known || is.decided != 0 || overtaken(c, was):
		case was.decided != 0:
			return fmt.Sprintf("write %v undecided", was.origin)
		case is.promised.less(was.promised):
			return fmt.Sprintf("a promise of round %d for write %v, not of %d", is.promised.round, was.origin,
				was.promised.round)
		case is.voted.less(was.voted):
			return fmt.Sprintf("a vote in round %d for write %v, not in %d", is.voted.round, was.origin, was.voted.round)
		}
	}
	return ""
}
