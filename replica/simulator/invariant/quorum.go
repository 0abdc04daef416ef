package invariant

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// Holder is a member that may have something on its disk.
type Holder struct {
	Excused bool // its disk was lost since, as may happen
	Has     Records
}

// Disks are the members' disks.
type Disks func(view.MemberID) Holder

// proposal names a ballot for a register, in an epoch.
type proposal struct {
	key   string
	epoch uint64
	base.Ballot
}

// choice is a state that a quorum has voted for, or may, in a ballot. Its timestamp counts the changes of the key, and
// its table has the number of each member's last batch, so what follows has no smaller ones.
type choice struct {
	ballot, timestamp uint64
	table             []byte
}

// propose holds a proposal (VOTE) against the promises that it has to rest on, those of a quorum of the view, in which
// the proposer counts if its promise is durable; and against what was chosen before, which it has to be or to follow.
// Who has voted has promised its proposer the next ballot.
func (r *Run) propose(s Speaker, m *peerv1.Message, disks Disks) {
	if m.RmwPaxos == nil {
		return
	}
	p := proposal{string(m.Key), s.View.Epoch, base.BallotOf(m.RmwPaxos.Round)}
	switch m.Kind {
	case peerv1.Kind_PAXOS_ACK:
		note(&r.granted, p, s.ID)
	case peerv1.Kind_PAXOS_VOTED:
		note(&r.voted, p, s.ID)
		r.choose(s, p)
		p.Number++
		note(&r.granted, p, s.ID)
	case peerv1.Kind_PAXOS_VOTE:
		raw, _ := disks(s.ID).Has(recordKey(acceptors, m.Key))
		is, _, _ := read([]byte{acceptors}, raw)
		if !s.View.Quorum(func(id view.MemberID) bool {
			return slices.Contains(r.granted[p], id) || id == s.ID && is.promised >= p.Number
		}) {
			r.broken(s.ID, "asks for votes in ballot %d for key %q, which only members %v and its own disk (up to %d) "+
				"have promised",
				p.Number, m.Key, r.granted[p], is.promised)
		}
		r.makesTable(s, m)
		next := choice{p.Number, m.Timestamp, m.RmwPaxos.GetTable()}
		if r.proposed == nil {
			r.proposed = map[proposal]choice{}
		}
		r.proposed[p] = next
		if c := r.chosen[p.key]; next.ballot > c.ballot {
			if why := next.lacks(c); why != "" {
				r.broken(s.ID, "asks for votes in ballot %d for key %q, for a state with %s, and that was chosen in ballot %d",
					p.Number, m.Key, why, c.ballot)
			}
		}
	}
}

// lacks is in what a state is less than one that it has to follow; empty: in nothing.
func (c choice) lacks(d choice) string {
	if c.timestamp < d.timestamp {
		return fmt.Sprintf("timestamp %d, not %d", c.timestamp, d.timestamp)
	}
	return executedLacks(c.table, d.table)
}

// choose notes what is chosen once a quorum has said that it has voted for it; whether the proposer has is not known.
func (r *Run) choose(s Speaker, p proposal) {
	proposed, known := r.proposed[p]
	if c := r.chosen[p.key]; !known || c.ballot >= p.Number ||
		!s.View.Quorum(func(id view.MemberID) bool { return slices.Contains(r.voted[p], id) }) {
		return
	}
	if r.chosen == nil {
		r.chosen = map[string]choice{}
	}
	r.chosen[p.key] = proposed
}

func note(said *map[proposal][]view.MemberID, p proposal, id view.MemberID) {
	if *said == nil {
		*said = map[proposal][]view.MemberID{}
	}
	if !slices.Contains((*said)[p], id) {
		(*said)[p] = append((*said)[p], id)
	}
}

// decide holds a message that something is decided against the disks of those who had to agree to it.
func (r *Run) decide(s Speaker, m *peerv1.Message, disks Disks) {
	switch {
	case r.Broken != nil:
	case m.Kind == peerv1.Kind_GUS_FINAL:
		if lack := r.without(s, m.Key, wire.Of(m).Carstamp, disks); lack != nil {
			r.broken(s.ID, "says that tag %v of key %q is final, and the disks of members %v have less",
				wire.Of(m).Carstamp, m.Key, lack)
		}
	case m.Kind == peerv1.Kind_ACCEPT:
		r.accept(s, m, disks)
	case m.Kind == peerv1.Kind_COMMIT:
		key := instanceKey(m.Key, m.Instance.GetId())
		r.noteSeq(key, m.Instance)
		raw, known := disks(s.ID).Has(key)
		i := instanceOf(raw)
		if !known || i.since != s.View.Epoch {
			return // it is executed here, or was voted for in another view
		}
		agreed := func(has Records) (bool, bool) { return true, agrees(has, key) }
		find := lackingSince // of what was committed before, this member may have learned since
		if p := r.instances[string(key)]; p != nil && p.since == s.View.Epoch {
			find = lacking
		}
		lack := find(s.View, disks, agreed)
		mine := register.Writer(m.Instance.GetId().GetWriter()).Member() == uint32(s.ID) && i.ballot == 0
		switch {
		case lack != nil:
			r.broken(s.ID, "commits %s, and the disks of members %v have not agreed", show(key), lack)
		case mine && !r.committed[string(key)]:
			if fast := agreeFast(s.View, disks, key); fast >= 0 && (s.View.Joint() || fast < s.fastQuorum(m)) {
				r.broken(s.ID, "commits %s on the fast path, and the disks of only %d members have agreed", show(key), fast)
			}
			if r.committed == nil {
				r.committed = map[string]bool{}
			}
			r.committed[string(key)] = true
		}
	}
}

// agreeFast is how many disks have agreed to the attributes of an instance, if no quorum has accepted them; else -1.
func agreeFast(v *view.View, disks Disks, key []byte) (agree int) {
	if v.Quorum(func(id view.MemberID) bool {
		disk := disks(id)
		raw, ok := disk.Has(key)
		return disk.Excused || ok && instanceOf(raw).status >= peerv1.Status_ACCEPTED || !ok && executed(key, disk.Has)
	}) {
		return -1
	}
	for _, member := range v.Members {
		if disk := disks(member.ID); disk.Excused || agrees(disk.Has, key) {
			agree++
		}
	}
	return agree
}

// agrees reports whether a disk has voted for the attributes of an instance, or has executed it.
func agrees(has Records, key []byte) bool {
	raw, ok := has(key)
	if !ok {
		return executed(key, has)
	}
	i := instanceOf(raw)
	return i.status >= peerv1.Status_ACCEPTED || i.status == peerv1.Status_PRE_ACCEPTED && i.agreed
}

// Answers holds the answer of an operation on a key against the disks: a quorum of the view has that carstamp or a
// larger one.
func (r *Run) Answers(s Speaker, key string, c register.Carstamp, disks Disks) {
	if r.Broken != nil || c.IsZero() {
		return
	}
	if lack := r.without(s, []byte(key), c, disks); lack != nil {
		r.broken(s.ID, "answers with carstamp %v of key %q, and the disks of members %v have less", c, key, lack)
	}
	r.rests(s, key, c)
}

// tag is one of a register of Gus.
type tag struct {
	key string
	register.Carstamp
}

// noteFinal notes a tag that a member takes for its write's last one.
func (r *Run) noteFinal(key []byte, c register.Carstamp) {
	if r.final == nil {
		r.final = map[tag]bool{}
	}
	r.final[tag{string(key), c}] = true
}

// Chosen holds it that a tag of Gus that is answered is its write's for good, and no other one is: who answers, or
// anybody, has taken it for that, or to hold it is to vote for it, since its write began in this very view; with relaxed
// quorums, so many hold it that its writer can't change it. A register that is past it by now tells nothing.
func (r *Run) Chosen(s Speaker, key string, c register.Carstamp, disks Disks, has Records) {
	record := recordKey(undecided, []byte(key))
	raw, gus := has(record)
	if r.Broken != nil || !gus || c.IsZero() {
		return
	}
	if r.answeredWith(s, key, c); r.final[tag{key, c}] {
		return
	}
	if is := recordOfGus(raw); c.Less(is.tag()) || is.tag() == c && is.final() {
		return
	}
	begun := false
	var lack []view.MemberID
	for _, member := range s.View.Members {
		disk := disks(member.ID)
		raw, _ := disk.Has(record)
		if member.ID == s.ID {
			raw, _ = has(record)
		}
		all := writes(nil, raw)
		for _, w := range all {
			begun = begun || w.tagged(c) && w.born == s.View.Epoch
		}
		w, known := writeOf(all, c)
		number, _ := disk.Has([]byte{own})
		switch { // a lost disk may have held it, and have been counted
		case disk.Excused || field.Number(number, 1) > 1 || w.unsure || w.held || w.decided != 0:
		case known || recordOfGus(raw).tag().Less(c):
			lack = append(lack, member.ID)
		}
	}
	relaxed, ok := view.RelaxedFor(s.View.Size(), s.Tolerance)
	switch {
	case !begun:
		r.broken(s.ID, "answers with tag %v of key %q, which nobody takes for final, of a write that began in no such "+
			"view as this one", c, key)
	case ok && !s.View.Joint() && s.View.Size()-len(lack) < relaxed.Hold:
		r.broken(s.ID, "answers with tag %v of key %q, which nobody takes for final, and the disks of members %v do "+
			"not hold it: its writer may change it", c, key, lack)
	}
}

// without lists the members whose disks have less than a carstamp that a quorum has to have; nil: a quorum has it.
// Once one has, it stays so in that epoch. Whose disk has a vote for an instance of the key has executed that, or does
// before it speaks for the key again.
func (r *Run) without(s Speaker, key []byte, c register.Carstamp, disks Disks, sure ...view.MemberID) []view.MemberID {
	h := held{string(key), c, s.View.Epoch}
	if r.held[h] {
		return nil
	}
	holds := func(has Records) (known, holds bool) {
		known, holds = holdsCarstamp(has, key, c)
		return known, holds || r.HasVote(has, key)
	}
	find := lacking
	if r.older(s.View.Epoch, string(key), c) {
		find = lackingSince
	}
	lack := find(s.View, disks, holds, sure...)
	if lack == nil {
		if r.held == nil {
			r.held = map[held]bool{}
		}
		r.held[h] = true
	}
	return lack
}

// HasVote reports whether a disk has a vote for an instance of a key that its member has not executed durably.
func (r *Run) HasVote(has Records, key []byte) bool {
	for instance := range r.instances { // order is irrelevant: any one will do
		if instance[instanceHead:] != string(key) {
			continue
		}
		if raw, ok := has([]byte(instance)); ok && instanceOf(raw).status >= peerv1.Status_PRE_ACCEPTED {
			return true
		}
	}
	return false
}

// reached is the largest carstamp of a key that any disk had in an epoch.
type reached struct {
	epoch uint64
	register.Carstamp
}

// noteReached notes the carstamps in a record of a key whose states may be chosen in one epoch and answered in the next.
func (r *Run) noteReached(s Speaker, key, raw []byte) {
	var c register.Carstamp
	switch key[0] {
	case acceptors:
		c = wire.Carstamp(field.Number(raw, 6), field.Number(raw, 7), 0)
	case undecided:
		is := recordOfGus(raw)
		c = is.tag()
		for _, w := range is.writes {
			for _, t := range []register.Carstamp{w.origin, wire.Carstamp(w.votedFor, uint64(w.origin.Writer), 0)} {
				if c.Less(t) {
					c = t
				}
			}
		}
	default:
		return
	}
	all := r.reached[string(key[1:])]
	at := slices.IndexFunc(all, func(o reached) bool { return o.epoch == s.View.Epoch })
	switch {
	case at >= 0 && all[at].Less(c):
		all[at].Carstamp = c
	case at < 0:
		if r.reached == nil {
			r.reached = map[string][]reached{}
		}
		r.reached[string(key[1:])] = append(all, reached{s.View.Epoch, c})
	}
}

// older reports whether a disk had a carstamp of a key, or a larger one, before an epoch.
func (r *Run) older(epoch uint64, key string, c register.Carstamp) bool {
	return slices.ContainsFunc(r.reached[key], func(o reached) bool { return o.epoch < epoch && !o.Less(c) })
}

// held is a carstamp of a key that a quorum was found to have in an epoch.
type held struct {
	key string
	register.Carstamp
	epoch uint64
}

// lacking lists the members whose disks lack something that a quorum has to have, in a joint view one of both sides; nil:
// a quorum has it, or none of them knows of such things. Those in sure have it.
func lacking(
	v *view.View, disks Disks, holds func(Records) (known, holds bool), sure ...view.MemberID,
) []view.MemberID {
	any := len(sure) > 0
	var lack []view.MemberID
	has := func(id view.MemberID) bool {
		disk := disks(id)
		known, held := holds(disk.Has)
		held = held || slices.Contains(sure, id)
		any = any || known
		if !held && !disk.Excused && !slices.Contains(lack, id) {
			lack = append(lack, id)
		}
		return held || disk.Excused
	}
	if v.Quorum(has) || !any {
		return nil
	}
	return lack
}

// lackingSince is lacking of what may have been decided before the view: in a joint one it needs a quorum of the view
// before alone, since who asks both sides finds it.
func lackingSince(
	v *view.View, disks Disks, holds func(Records) (known, holds bool), sure ...view.MemberID,
) []view.MemberID {
	lack := lacking(v, disks, holds, sure...)
	if lack == nil || !v.Joint() {
		return lack
	}
	before := v.Before()
	return lacking(&before, disks, holds, sure...)
}

// holdsCarstamp reports whether there is a register of a key, and whether it has a carstamp or a larger one.
func holdsCarstamp(has Records, key []byte, c register.Carstamp) (known, holds bool) {
	if raw, ok := has(recordKey(registers, key)); ok {
		f, _, err := read([]byte{registers}, raw)
		return true, err == nil && !f.carstamp.Less(c)
	}
	if raw, ok := has(recordKey(acceptors, key)); ok {
		is := wire.Carstamp(field.Number(raw, 6), field.Number(raw, 7), 0) // the timestamp counts the changes
		return true, is.Timestamp > c.Timestamp || is == c
	}
	if raw, ok := has(recordKey(undecided, key)); ok {
		f, _, err := read([]byte{undecided}, raw)
		if err != nil || !f.carstamp.Less(c) {
			return true, err == nil
		}
		for _, w := range writes(nil, raw) {
			holds = holds || w.origin.Writer == c.Writer && w.votedFor >= c.Timestamp
		}
		return true, holds
	}
	return false, false
}
