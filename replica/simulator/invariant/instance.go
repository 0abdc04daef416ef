package invariant

import (
	"fmt"
	"math"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// past is what any disk has had of an instance.
type past struct {
	since    uint64          // the epoch in which it began
	accepted uint64          // the lowest ballot in which somebody has accepted it; 0: or it is committed
	agreed   []view.MemberID // to its attributes, as others may count
}

// noteInstance notes a record of an instance.
func (r *Run) noteInstance(s Speaker, key, raw []byte) {
	i := instanceOf(raw)
	p := r.instances[string(key)]
	if p == nil {
		p = &past{since: math.MaxUint64, accepted: math.MaxUint64}
		if r.instances == nil {
			r.instances = map[string]*past{}
		}
		r.instances[string(key)] = p
	}
	p.since = min(p.since, i.since)
	switch {
	case i.status == peerv1.Status_COMMITTED:
		p.accepted = 0
	case i.status == peerv1.Status_ACCEPTED:
		p.accepted = min(p.accepted, i.accepted)
	}
	if i.agreed && !slices.Contains(p.agreed, s.ID) {
		p.agreed = append(p.agreed, s.ID)
	}
}

// accept holds it that a coordinator which asks for votes for an instance has heard a quorum: of its dependencies, or
// in a recovery of what was promised and voted. In a joint view, that is one of both sides.
func (r *Run) accept(s Speaker, m *peerv1.Message, disks Disks) {
	key := instanceKey(m.Key, m.Instance.GetId())
	ballot := m.Instance.GetBallot()
	heard := func(has Records) (known, holds bool) {
		raw, ok := has(key)
		if !ok {
			return true, executed(key, has)
		}
		i := instanceOf(raw)
		switch {
		case ballot > 0:
			return true, i.ballot >= ballot
		case i.status == peerv1.Status_PRE_ACCEPTED:
			return true, dependsOnAll(m.Instance, raw)
		}
		return true, i.status > peerv1.Status_PRE_ACCEPTED
	}
	if lack := lacking(s.View, disks, heard); lack != nil {
		r.broken(s.ID, "asks for votes in ballot %d for %s, and the disks of members %v have promised less, or know of "+
			"more that it depends on", ballot, show(key), lack)
		return
	}
	p := r.instances[string(key)]
	if ballot == 0 || len(m.Instance.Commands) == 0 || p == nil || p.accepted < ballot {
		return
	}
	author := view.MemberID(register.Writer(m.Instance.GetId().GetWriter()).Member())
	electorate, n := s.View.Before(), 0
	for _, id := range p.agreed {
		if id != author && electorate.Index(id) >= 0 {
			n++
		}
	}
	if p.since < s.View.Since { // members have changed since: an agreement from before says nothing any more
		n = 0
	}
	if n < s.agreements(m) {
		r.broken(s.ID, "recovers %s, which nobody has accepted and only %d members have agreed to beside its coordinator",
			show(key), n)
	}
}

// fastQuorum is how many members of a plain view have to agree to an instance that is committed on the fast path.
// EPaxos' instances alone have a seq.
func (s *Speaker) fastQuorum(m *peerv1.Message) int {
	if m.Instance.GetSeq() > 0 && s.Tolerance == 0 && s.View.Size() > 3 {
		return s.View.ValidatedQuorum()
	}
	return s.View.FastQuorum(s.Tolerance)
}

// agreements is how many members, beside its coordinator, have to have agreed to an instance that a recovery proposes:
// as many as are left of a fast quorum that was not heard.
func (s *Speaker) agreements(m *peerv1.Message) int {
	electorate := s.View.Before()
	if m.Instance.GetSeq() > 0 && s.Tolerance == 0 && electorate.Size() > 3 {
		return electorate.ValidatedQuorum() - 1 - (electorate.Size() - 1 - electorate.Majority())
	}
	return electorate.Size() / 2
}

// dependsOnAll reports whether an instance depends on all that a record of it does.
func dependsOnAll(i *peerv1.Instance, raw []byte) bool {
	record := field.Part(raw, 14)
	all := field.Number(record, 10) <= i.Seq
	_ = field.Visit(record, func(which int, _ uint64, part []byte) {
		if which != 5 { // Instance.deps
			return
		}
		writer, number := field.Number(part, 1), field.Number(part, 2)
		all = all && slices.ContainsFunc(i.Deps, func(d *peerv1.InstanceID) bool {
			return d.Writer == writer && d.Number >= number
		})
	})
	return all
}

// forgetsAgreement reports whether a disk forgets that its member has agreed to an instance, which a coordinator may
// have committed with that: once a change has ended that began after it, nobody has.
func forgetsAgreement(v *view.View, now, before []byte) bool {
	is, was := instanceOf(now), instanceOf(before)
	return was.agreed && !is.agreed && is.status == peerv1.Status_PRE_ACCEPTED && is.since >= v.Since
}

// noteSeq notes the seq of an instance that is committed, unless it only reads.
func (r *Run) noteSeq(key []byte, i *peerv1.Instance) {
	updates := func(c *peerv1.Command) bool { return c.Kind != peerv1.CommandKind_READ_COMMAND }
	if i.Seq == 0 || !slices.ContainsFunc(i.Commands, updates) {
		return
	}
	if r.seqs == nil {
		r.seqs = map[string]uint64{}
	}
	r.seqs[string(key)] = i.Seq
}

// seqLacks is in what the seq of a state is less than that of an instance which it is after; empty: in nothing. What
// begins later has a larger one.
func (r *Run) seqLacks(key, state []byte) (why string) {
	if len(r.seqs) == 0 {
		return ""
	}
	seq := field.Number(state, stateSeq)
	executions(state, func(writer, number uint64, _ []byte) {
		name := &peerv1.InstanceID{Writer: writer, Number: number}
		if is := r.seqs[string(instanceKey(key[1:], name))]; is > seq {
			why = fmt.Sprintf("seq %d, and is after an instance of seq %d", seq, is)
		}
	})
	return why
}

// Tells holds what a member answers of an instance, once its journal is durable, against its disk and its journal: a
// refusal tells of the ballot that stands in the way, and who has executed the instance tells what it has answered.
func (r *Run) Tells(s Speaker, m *peerv1.Message, disk, journal Records) {
	if r.Broken != nil || m.Instance.GetId() == nil {
		return
	}
	switch m.Kind {
	case peerv1.Kind_NACK:
		raw, _ := disk(instanceKey(m.Key, m.Instance.Id))
		if is := instanceOf(raw).ballot; m.Instance.Ballot < is {
			r.broken(s.ID, "refuses %s with ballot %d, and has promised %d",
				show(instanceKey(m.Key, m.Instance.Id)), m.Instance.Ballot, is)
		}
	case peerv1.Kind_EXECUTED:
		raw, _ := journal(recordKey(states, m.Key))
		executions(raw, func(writer, number uint64, executed []byte) {
			if writer != m.Instance.Id.Writer || number != m.Instance.Id.Number {
				return
			}
			answers := 0
			_ = field.Visit(executed, func(which int, _ uint64, _ []byte) {
				if which == 2 { // Executed.answers
					answers++
				}
			})
			if answers != len(m.Instance.Answers) {
				r.broken(s.ID, "says that %s is executed, with %d answers of %d",
					show(instanceKey(m.Key, m.Instance.Id)), len(m.Instance.Answers), answers)
			}
		})
	}
}
