package invariant

import (
	"bytes"
	"cmp"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// Persists holds a batch that becomes durable against what the disk had before it: whatever is said of a record later
// must not be less than what was said of it before. What an instance did is in its key's state once its record is gone.
func (r *Run) Persists(s Speaker, disks Disks, b protocol.Batch) {
	if r.Broken != nil {
		return
	}
	disk := disks(s.ID).Has
	b = byInstance(disk, b)
	for i, m := range b.Mutations {
		if v, ok := valueOf(m.Key); ok {
			// One that has gone may be wanted again in the same batch.
			before, _ := after(disk, protocol.Batch{Mutations: b.Mutations[:i]})(m.Key)
			r.holdFragment(s, v, m, before, after(disk, b))
			continue
		}
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
		case m.Key[0] == states && bytes.Equal(m.Value, before):
			r.broken(s.ID, "stores the state of %s again, and its disk has it", show(m.Key))
		case !bytes.Equal(m.Value, before):
			why = is.lacks(was)
			switch {
			case why != "":
			case m.Key[0] == acceptors:
				why = ballotsLack(m.Value, before)
			case m.Key[0] == states:
				why = r.seqLacks(m.Key, m.Value)
			case m.Key[0] == instances && forgetsAgreement(s.View, m.Value, before):
				why = "no agreement any more"
			}
			if why == "" && m.Key[0] == undecided {
				now := gusRecord{m.Value, writes(r.writes[0][:0], m.Value)}
				then := gusRecord{before, writes(r.writes[1][:0], before)}
				r.writes = [2][]aWrite{now.writes, then.writes}
				why = cmp.Or(now.unnamed(), now.lacks(then))
				r.settle(s, m.Key, now, then, disks)
				r.copies(s, m.Key, now, after(disk, b))
				r.keepsRefusals(s, m.Key, now)
			}
		}
		if m.Value != nil {
			r.noteReached(s, m.Key, m.Value)
		}
		if m.Key[0] == instances && m.Value != nil {
			r.noteInstance(s, m.Key, m.Value)
		}
		if m.Key[0] == acceptors && m.Value != nil {
			r.holdVote(s, m.Key, m.Value, before, disks)
			r.noteVote(s.ID, m.Key, m.Value)
			if bytes.Equal(m.Value, before) {
				r.broken(s.ID, "stores %s again, as its disk has it", show(m.Key))
			}
		}
		if why != "" {
			r.broken(s.ID, "takes back what its disk had of %s: it has %s", show(m.Key), why)
		}
		if len(m.Key) == 1 && m.Key[0] == own {
			r.votes(s, m.Value)
		}
	}
}

// diskNumber is the number of a disk of a member, for one shard.
type diskNumber struct {
	id     view.MemberID
	shard  int
	number uint64
}

// votes holds it that a disk votes under a number that no other disk of its member has voted under: by it what that
// one has said is told from what this one says.
func (r *Run) votes(s Speaker, raw []byte) {
	if !votes(raw) {
		return
	}
	n := diskNumber{s.ID, s.Shard, field.Number(raw, 1)}
	if was, known := r.voters[n]; known && was != s.Disk {
		r.broken(s.ID, "votes on %s as disk number %d, as it did on %s", s.Disk, n.number, was)
	}
	if r.voters == nil {
		r.voters = map[diskNumber]string{}
	}
	r.voters[n] = s.Disk
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

// gusRecord is a GusRecord with its writes.
type gusRecord struct {
	raw    []byte
	writes []aWrite
}

func recordOfGus(raw []byte) gusRecord { return gusRecord{raw, writes(nil, raw)} }

// tag is that of the register.
func (r gusRecord) tag() register.Carstamp {
	return wire.Carstamp(field.Number(r.raw, 1), field.Number(r.raw, 2), 0)
}

// final reports whether the tag of the register is final: it is that of no write in the list.
func (r gusRecord) final() bool {
	c := r.tag()
	for i := range r.writes {
		w := &r.writes[i]
		if w.decided == 0 && w.tagged(c) {
			return false
		}
	}
	return true
}

// unnamed is what a record has without saying of which write that is: each tag has a timestamp and a writer, and a
// write has a tag that it began with.
func (r gusRecord) unnamed() string {
	half := func(timestamp, writer int) bool {
		return field.Number(r.raw, timestamp) == 0 != (field.Number(r.raw, writer) == 0)
	}
	if half(1, 2) || half(forgotten, forgottenWriter) {
		return "a tag without a timestamp or without a writer"
	}
	for _, w := range r.writes {
		if w.origin.Timestamp == 0 || w.origin.Writer == 0 {
			return fmt.Sprintf("something of a write that began with tag %v", w.origin)
		}
	}
	return ""
}

// settle holds it that a tag is final against the disks, where a member takes it for final as news: a quorum has it,
// or a larger one.
func (r *Run) settle(s Speaker, key []byte, now, before gusRecord, disks Disks) {
	c := now.tag()
	if now.final() {
		r.noteFinal(key[1:], c)
	}
	if c.IsZero() || !now.final() || c == before.tag() && before.final() {
		return
	}
	if lack := r.without(s, key[1:], c, disks, s.ID); lack != nil {
		r.broken(s.ID, "takes tag %v of %s for final, and the disks of members %v have less", c, show(key), lack)
	}
}

// copies holds it that a disk which takes the place of a lost one says nothing of who holds what it copies, where
// holders are counted (with relaxed quorums): the lost one may have said something else, and nobody has told this one of
// a write.
func (r *Run) copies(s Speaker, key []byte, now gusRecord, disk Records) {
	if itself, ok := disk([]byte{own}); !ok || votes(itself) || !r.counting[s.View.Epoch] {
		return
	}
	for _, w := range now.writes {
		if w.decided == 0 && !w.unsure && w.born == s.View.Epoch {
			r.broken(s.ID, "copies write %v of %s as if its lost disk had said nothing of it", w.origin, show(key))
		}
	}
}

// Takes holds it that who takes a write of Gus as news keeps nothing of what its writer has ended, if the register was
// past that, and nobody has asked for a ballot on it: else it would stay until many more have come. What this member
// asks itself leaves only once its disk has that.
func (r *Run) Takes(s Speaker, m *peerv1.Message, before, after []byte) {
	was, now, t := recordOfGus(before), recordOfGus(after), wire.Of(m).Carstamp
	if r.Broken != nil || !was.tag().Less(t) || now.tag() != t {
		return // it is not stored
	}
	for _, w := range now.writes {
		ended := uint64(w.origin.Writer) == m.Writer && w.origin.Timestamp < m.Gus.GetEnded() && w.decided == 0
		voted := wire.Carstamp(w.votedFor, m.Writer, 0)
		asks := w.promised.round > 1 && register.Writer(w.promised.proposer).Member() == uint32(s.ID)
		if ended && !asks && w.origin.Less(was.tag()) && voted.Less(was.tag()) && !r.locked[tag{string(m.Key), w.origin}] {
			r.broken(s.ID, "keeps write %v of key %q, which its writer has ended, with write %v", w.origin, m.Key, t)
		}
	}
}

// overtaken reports whether a register has, or is past, all that a record of Gus has of a write. Nothing is held of
// such a write: a member that is asked about it after it is final, or after its writer has ended it, begins anew. Who
// asks then is no writer, and has members vote for no other tag than one that it found.
func overtaken(c register.Carstamp, w aWrite) bool {
	return w.origin.Less(c) && !c.Less(wire.Carstamp(w.votedFor, uint64(w.origin.Writer), 0))
}

// lacks is what a record of Gus has less of than before: of a write that it has still, what was promised, voted and
// decided.
func (r gusRecord) lacks(before gusRecord) string {
	if is, was := field.Number(r.raw, forgotten), field.Number(before.raw, forgotten); is < was {
		return fmt.Sprintf("forgotten writes up to %d, not %d", is, was)
	}
	c := r.tag()
	for _, was := range before.writes {
		is, known := writeOf(r.writes, was.origin)
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
