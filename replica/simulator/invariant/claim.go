package invariant

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// claim is what a message says that its sender's disk has: a record that is no less than a fact.
type claim struct {
	record []byte // its key
	fact
}

// claims says what a message claims, by its kind. Kinds that are not here claim nothing, such as WRITE1_REPLY: a
// carstamp that is lost again only makes that of the write larger.
var claims = [...]func(m *peerv1.Message) (claim, bool){
	peerv1.Kind_READ1: func(m *peerv1.Message) (claim, bool) { // ABD's brings no value along, and claims nothing
		return ofRegister(m), m.Present || m.Same
	},
	peerv1.Kind_READ1_REPLY: func(m *peerv1.Message) (claim, bool) { return ofRegister(m), true },

	peerv1.Kind_PAXOS_STATE: ofAcceptor,
	peerv1.Kind_PAXOS_ACK:   ofAcceptor,
	peerv1.Kind_PAXOS_NACK:  ofAcceptor,
	peerv1.Kind_PAXOS_VOTED: func(m *peerv1.Message) (claim, bool) {
		n := m.GetRmwPaxos().GetRound().GetN()
		return claim{recordKey(acceptors, m.Key), fact{promised: n, accepted: n}}, true
	},

	peerv1.Kind_PRE_ACCEPT:    ofInstance,
	peerv1.Kind_PRE_ACCEPT_OK: ofInstance,
	peerv1.Kind_ACCEPT: func(m *peerv1.Message) (claim, bool) { // who asks for votes counts its own
		c, ok := ofInstance(m)
		c.fact.accepted = max(c.fact.accepted, m.Instance.GetBallot())
		return c, ok
	},
	peerv1.Kind_COMMIT: func(m *peerv1.Message) (claim, bool) { // its ballot is that of whoever tells
		return claim{instanceKey(m.Key, m.Instance.GetId()), fact{count: uint64(peerv1.Status_COMMITTED)}}, true
	},
	peerv1.Kind_PREPARE: func(m *peerv1.Message) (claim, bool) {
		return claim{instanceKey(m.Key, m.Instance.GetId()), fact{promised: m.Instance.GetBallot()}},
			m.Instance.GetBallot() > 0
	},
	peerv1.Kind_PREPARE_OK: ofInstance,
	peerv1.Kind_VALIDATE: func(m *peerv1.Message) (claim, bool) { // who asks counts its own word
		f := fact{promised: m.Instance.GetBallot(), count: uint64(peerv1.Status_PRE_ACCEPTED)}
		return claim{instanceKey(m.Key, m.Instance.GetId()), f}, true
	},
	peerv1.Kind_VALIDATE_OK: ofInstance,
	peerv1.Kind_NACK: func(m *peerv1.Message) (claim, bool) {
		return claim{instanceKey(m.Key, m.Instance.GetId()), fact{promised: m.Instance.GetBallot()}}, true
	},
	peerv1.Kind_EXECUTED: func(m *peerv1.Message) (claim, bool) {
		least := peerv1.Status_EXECUTED_STATUS
		if m.Op == 0 { // nobody has asked: who has voted tells of an execution that a crash may take back
			least = peerv1.Status_PRE_ACCEPTED
		}
		return claim{instanceKey(m.Key, m.Instance.GetId()), fact{count: uint64(least)}},
			m.Instance.GetId() != nil // one of Raft names none
	},

	peerv1.Kind_GUS_READ:       ofFinal,
	peerv1.Kind_GUS_READ_REPLY: ofFinal,
	peerv1.Kind_GUS_WRITE_REPLY: func(m *peerv1.Message) (claim, bool) {
		return ofCarstamp(undecided, m), m.Gus.GetHeld() && !m.Gus.GetFinal()
	},
}

func ofCarstamp(records byte, m *peerv1.Message) claim {
	return claim{recordKey(records, m.Key), fact{carstamp: wire.Of(m).Carstamp}}
}

func ofRegister(m *peerv1.Message) claim { return ofCarstamp(registers, m) }

func ofFinal(m *peerv1.Message) (claim, bool) { return ofCarstamp(undecided, m), m.Gus.GetFinal() }

func ofAcceptor(m *peerv1.Message) (claim, bool) {
	p := m.GetRmwPaxos()
	f := fact{promised: p.GetRound().GetN(), accepted: p.GetVoted().GetN()}
	return claim{recordKey(acceptors, m.Key), f}, p != nil
}

func ofInstance(m *peerv1.Message) (claim, bool) {
	i := m.Instance
	f := fact{promised: i.GetBallot(), accepted: i.GetAcceptedBallot(), count: uint64(i.GetStatus())}
	return claim{instanceKey(m.Key, i.GetId()), f}, i != nil
}

// question names one that a member has asked, by the number that answers repeat.
type question struct {
	asker view.MemberID
	shard int
	op    uint64
	kind  peerv1.Kind
}

// ask notes questions whose answers say, without repeating it, that the one who was asked has what the question brings.
func (r *Run) ask(s Speaker, m *peerv1.Message) {
	var brings []claim
	switch m.Kind {
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		for _, d := range m.After {
			brings = append(brings, claim{recordKey(registers, d.Key), fact{carstamp: wire.OfDependency(d).Carstamp}})
		}
		if len(m.After) == 0 {
			brings = append(brings, ofRegister(m))
		}
	case peerv1.Kind_ACCEPT:
		f := fact{accepted: m.Instance.GetBallot(), count: uint64(peerv1.Status_ACCEPTED)}
		brings = append(brings, claim{instanceKey(m.Key, m.Instance.GetId()), f})
	case peerv1.Kind_FRAGMENT_FETCH:
		if !m.Fragment.GetRebuilding() {
			return
		}
		brings = append(brings, claim{[]byte(disksKey), fact{count: uint64(max(m.Incarnation, 1))}})
	default:
		return
	}
	q := question{s.ID, s.Shard, m.Op, m.Kind}
	if r.questions == nil {
		r.questions = map[question][]claim{}
	}
	r.questions[q] = brings
}

// Says holds a message against what its member has: against its disk if the message leaves at once, and against its
// journal if it leaves once that is durable.
func (r *Run) Says(s Speaker, to view.MemberID, m *peerv1.Message, has Records) {
	if r.Broken != nil {
		return
	}
	switch m.Kind {
	case peerv1.Kind_READ2_REPLY, peerv1.Kind_WRITE2_REPLY, peerv1.Kind_ACCEPT_OK:
		for _, c := range r.questions[question{to, s.Shard, m.Op, m.Kind - 1}] {
			r.hold(s.ID, m.Kind, c, has)
		}
	}
	if m == r.said {
		return // it goes to several
	}
	r.said = m
	r.comesAfter(s, m, has)
	if int(m.Kind) < len(claims) && claims[m.Kind] != nil {
		if c, ok := claims[m.Kind](m); ok {
			r.hold(s.ID, m.Kind, c, has)
		}
	}
	if agreesWrongly(s.View, m, has) {
		r.broken(s.ID, "agrees to a commit of %s on the fast path, and members change, or have since",
			show(instanceKey(m.Key, m.Instance.GetId())))
	}
	if countsWrongly(s.View, m, has) {
		r.broken(s.ID, "counts as a holder of tag %v of key %q, and has not held it, or of a write of another view",
			wire.Of(m).Carstamp, m.Key)
	}
	if finalUnheld(s, m) {
		r.broken(s.ID, "tells that tag %v of key %q is final, and not that it holds it", wire.Of(m).Carstamp, m.Key)
	}
	if why := saysOfWrite(s, m, has); why != "" {
		r.broken(s.ID, "says %v of key %q, and has %s", m.Kind, m.Key, why)
	}
	if m.Kind == peerv1.Kind_PAXOS_VOTED {
		raw, _ := has(recordKey(acceptors, m.Key))
		if is := voteOf(recordKey(acceptors, m.Key), raw); is.Ballot == base.BallotOf(m.GetRmwPaxos().GetRound()) &&
			is.epoch != s.View.Epoch {
			r.broken(s.ID, "says to have voted for key %q in ballot %d, and has that from another disk or epoch %d", m.Key,
				is.Number, is.epoch)
		}
	}
	switch m.Kind {
	case peerv1.Kind_FRAGMENT_OVER:
		if why := notOver(s.ID, valueIn(m), has); why != "" {
			r.broken(s.ID, "says that %v is over, and has %s", valueIn(m), why)
		}
	case peerv1.Kind_ADOPT_OK:
		r.adopts(s, to, []byte{own}, uint64(field.Incarnation(m.Known, s.View.Index(to))), has)
	case peerv1.Kind_FRAGMENT_FETCHED:
		// Who rebuilds what a lost disk had counts that this one has nothing as said for good, by a disk that knows of the one
		// which the question came from.
		for _, c := range r.questions[question{to, s.Shard, m.Op, m.Kind - 1}] {
			r.adopts(s, to, c.record, c.count, has)
		}
	case peerv1.Kind_TRANSFER_PAGE:
		r.transfers(s, m, has)
	}
}

// adopts holds it that who tells a newcomer to have adopted its disk has that on its own, in the record of a key: it
// counts no answer of an earlier one, whatever comes.
func (r *Run) adopts(s Speaker, newcomer view.MemberID, key []byte, disk uint64, has Records) {
	raw, _ := has(key)
	if is := diskOf(raw, newcomer); is < disk {
		r.broken(s.ID, "says to have adopted disk %d of member %d, and has %d", disk, newcomer, is)
	}
}

// transfers holds the records of a page of a member's state against those that it has.
func (r *Run) transfers(s Speaker, m *peerv1.Message, has Records) {
	for _, record := range m.GetTransfer().GetRecords() {
		key := record.Key
		if isSlot(key) {
			key = nameOf(record.Value)
		}
		told, known, err := read(key, record.Value)
		if !known || err != nil {
			continue
		}
		r.hold(s.ID, m.Kind, claim{key, told}, has)
		if record.Key[0] == undecided {
			raw, _ := has(record.Key)
			if why := recordOfGus(raw).lacks(recordOfGus(record.Value)); why != "" {
				r.broken(s.ID, "says %v of %s, and has %s", m.Kind, show(record.Key), why)
			}
		}
	}
}

// hold holds a claim against what there is.
func (r *Run) hold(who view.MemberID, kind peerv1.Kind, c claim, has Records) {
	raw, _ := has(c.record)
	is, _, err := read(c.record, raw)
	why := is.lacks(c.fact)
	if err != nil {
		why = err.Error()
	}
	if why != "" && !(c.record[0] == instances && executed(c.record, has)) {
		r.broken(who, "says %v of %s, and has %s", kind, show(c.record), why)
	}
}

// agreesWrongly reports whether a message says that its sender has agreed to a commit on the fast path, where there is
// none: in a joint view, or in a view with other members than now.
func agreesWrongly(v *view.View, m *peerv1.Message, has Records) bool {
	if !m.Instance.GetAgreed() || m.Instance.Status != peerv1.Status_PRE_ACCEPTED ||
		m.Kind != peerv1.Kind_PRE_ACCEPT_OK && m.Kind != peerv1.Kind_PREPARE_OK && m.Kind != peerv1.Kind_VALIDATE_OK {
		return false
	}
	raw, known := has(instanceKey(m.Key, m.Instance.Id))
	since := instanceOf(raw).since
	return known && (since < v.Since || since == v.Epoch && v.Joint())
}

// countsWrongly reports whether a member of Gus, one of three or with relaxed quorums, which alone say so, tells a reader
// that it counts as a holder of a tag that is not final, and does not: it has said that it does not hold the tag, the
// write began in another view, or with relaxed quorums it has voted for the tag alone, or what a lost disk has said of
// the write is not known. In the same turn the write may have ended, and be locked since: then the register is past it;
// and one of three may have promised and voted in a later ballot.
func countsWrongly(v *view.View, m *peerv1.Message, has Records) bool {
	g := m.Gus
	if m.Kind != peerv1.Kind_GUS_READ_REPLY || g == nil || !g.Held || g.Final {
		return false
	}
	raw, _ := has(recordKey(undecided, m.Key))
	if is, _, err := read([]byte{undecided}, raw); err != nil || wire.Of(m).Carstamp.Less(is.carstamp) {
		return false
	}
	w, known := writeOf(writes(nil, raw), wire.Carstamp(g.Origin, m.Writer, 0))
	if v.Size() == 3 && g.Origin != m.Timestamp { // a vote of the writer's ballot
		return known && w.decided == 0 && w.voted.round <= 1 && (w.votedFor != m.Timestamp || w.born != v.Epoch)
	}
	return known && w.decided == 0 && (!w.held || w.unsure && v.Size() > 3 || w.born != v.Epoch)
}

// finalUnheld reports whether a member of Gus tells a tag to be final and not to be held, where it tells of both: with
// READ, and in answers to it with three or with relaxed quorums.
func finalUnheld(s Speaker, m *peerv1.Message) bool {
	if !m.Gus.GetFinal() || m.Gus.GetHeld() {
		return false
	}
	_, counts := view.RelaxedFor(s.View.Size(), s.Tolerance)
	counts = (counts || s.View.Size() == 3) && !s.View.Joint()
	return m.Kind == peerv1.Kind_GUS_READ || m.Kind == peerv1.Kind_GUS_READ_REPLY && counts
}

// SaysDecided holds it that who is asked about a write of Gus that its disk has as decided says so, as the write then is
// at its end. What has been decided in the present turn need not be known to the answer.
func (r *Run) SaysDecided(s Speaker, m *peerv1.Message, disk Records) {
	g := m.Gus
	if r.Broken != nil || g == nil || g.Final || g.Forgotten ||
		m.Kind != peerv1.Kind_GUS_WRITE_REPLY && m.Kind != peerv1.Kind_GUS_LOCK_REPLY {
		return
	}
	raw, _ := disk(recordKey(undecided, m.Key))
	if w, known := writeOf(writes(nil, raw), wire.Carstamp(g.Origin, m.Writer, 0)); known && w.decided != 0 {
		r.broken(s.ID, "answers %v about write %v of key %q, and does not say that it is decided", m.Kind, w.origin,
			m.Key)
	}
}

// saysOfWrite is what a member lacks of what it says of a write of Gus that is not final; empty: nothing.
func saysOfWrite(s Speaker, m *peerv1.Message, has Records) string {
	g := m.Gus
	if g == nil || g.Final || g.Refused || g.Forgotten {
		return ""
	}
	tag, origin := wire.Of(m).Carstamp, wire.Carstamp(g.Origin, m.Writer, 0)
	holds := g.Held && (m.Kind == peerv1.Kind_GUS_READ || m.Kind == peerv1.Kind_GUS_WRITE_REPLY)
	promises := m.Kind == peerv1.Kind_GUS_LOCK_REPLY || m.Kind == peerv1.Kind_GUS_COMMIT_REPLY ||
		m.Kind == peerv1.Kind_GUS_COMMIT
	if !holds && !promises {
		return ""
	}
	raw, _ := has(recordKey(undecided, m.Key))
	is, _, err := read([]byte{undecided}, raw)
	if err != nil {
		return err.Error()
	}
	first := origin // of its tags
	if tag.Less(first) {
		first = tag
	}
	w, known := writeOf(writes(nil, raw), origin)
	asked, told := ballot{g.Round, g.Proposer}, ballot{g.VotedRound, g.VotedProposer}
	switch past := !is.carstamp.Less(first); {
	case known && m.Kind == peerv1.Kind_GUS_LOCK_REPLY && !s.View.Joint() && w.votedFor != 0 && w.voted.less(asked) &&
		(told.less(w.voted) || told == w.voted && w.votedFor != g.Voted):
		// It was there when the promise was made: an older ballot gets no vote any more.
		return fmt.Sprintf("for write %v a vote in round %d for timestamp %d; it tells of round %d and %d", origin,
			w.voted.round, w.votedFor, told.round, g.Voted)
	case known && m.Kind == peerv1.Kind_GUS_LOCK_REPLY && w.held && !g.Held && !s.View.Joint():
		// In a joint view another member's record may have come since.
		return fmt.Sprintf("held write %v, of which it does not tell", origin)
	case !known && (past || field.Number(raw, forgotten) >= origin.Timestamp), w.decided != 0:
	case promises && overtaken(is.carstamp, w) && !is.carstamp.Less(tag):
	case !known:
		return fmt.Sprintf("nothing of write %v", origin)
	case holds && !(past || w.votedFor == tag.Timestamp):
		return fmt.Sprintf("no tag %v", tag)
	case holds && tag == origin && !w.held && !origin.Less(is.carstamp) && w.votedFor != tag.Timestamp:
		return fmt.Sprintf("write %v, and not that it is held: a ballot on it would not hear of that", origin)
	case promises && w.promised.less(asked):
		return fmt.Sprintf("a promise of round %d for write %v, not of %d", w.promised.round, origin, g.Round)
	case m.Kind != peerv1.Kind_GUS_LOCK_REPLY && promises && w.voted.less(asked):
		return fmt.Sprintf("a vote in round %d for write %v, not in %d", w.voted.round, origin, g.Round)
	}
	return ""
}
