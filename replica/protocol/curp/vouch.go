package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/view"
)

// vouching is what members tell each other, and witnesses, of disks.
//
// A member that starts takes no part before enough others have told it that its disk is no older copy (package
// position): as a master it may have told of what the copy lacks, as a backup it has acknowledged it. Terms and indexes
// of the log would not do for that, since a backup may well drop entries in a new term, and what is no entry counts
// too, such as which terms were recovered. A disk that is an older copy is a lost one, and its member is replaced.
//
// Witnesses can't ask members, which are strangers to them, so members tell. A witness says with what it promises how
// many promises it has made in the partition; members remember the most that they have heard, as they do of each
// other's disks, and tell each other. One that has started refuses all questions with the number of that start. The
// member that gets such an answer has all members vouch for the witness: they tell it what they have heard, and a
// majority of those before a change of members has to.
type vouching struct {
	*member
	effects protocol.Effects                   // messages about disks, and a fault of this one
	alarmed map[view.MemberID]protocol.Instant // when others are asked again to vouch for a witness; never ranged over
}

// newVouching begins to know how far disks are, and asks whether this one is whole, unless that is known or it is empty
// for certain.
func newVouching(m *member) (v *vouching, err error) {
	v = &vouching{member: m, alarmed: map[view.MemberID]protocol.Instant{}}
	c := &m.Config
	m.disks, err = position.New(position.Owner{
		Config: c, Roster: m.Incarnations, Journal: m.Journal, Effects: &v.effects,
		CountKey: store.CountKey, HeardKey: store.HeardKey,
	})
	if err != nil {
		return nil, err
	}
	m.empty = !m.known && !m.disks.Used() && !c.Bootstrap
	if !m.empty && !c.Continued && !c.Undoubted && c.View.Size() > 1 {
		m.disks.Ask()
	}
	return v, nil
}

// onPosition handles what is about disks, and reports whether the message is.
func (v *vouching) onPosition(from view.MemberID, m *peerv1.Message) bool {
	if m.Epoch != v.Config.View.Epoch || v.Config.View.Index(from) < 0 {
		return false
	}
	v.disks.Hear(from, 1, m) // another disk is another member
	switch m.Kind {
	case peerv1.Kind_POSITION:
		v.disks.Learn(m.Positions)
	case peerv1.Kind_POSITION_QUERY:
		if len(m.Positions) > 0 {
			v.disks.Learn(m.Positions)
			v.vouch(view.MemberID(m.Positions[0].Member), m.Op)
		} else if !v.empty { // what a lost disk had heard is gone
			v.disks.Answer(from, m, v.disks.Known())
		}
	case peerv1.Kind_POSITION_REPLY:
		v.disks.Learn(m.Positions)
		v.disks.OnReply(from, m)
	default:
		return false
	}
	return true
}

// tellAll tells the others how far this member knows disks to be: one that has joined knows nothing of that yet.
func (v *vouching) tellAll() {
	if !v.Config.Undoubted && !v.empty {
		v.disks.TellAll(v.disks.Known())
	}
}

// onWitness notes what a witness's answer says of its disk.
func (v *vouching) onWitness(from view.MemberID, w *witnessv1.Message) {
	if w.Promises > 0 {
		v.disks.HearWitness(from, w.Promises)
	}
	if w.Start == 0 {
		return
	}
	v.vouch(from, w.Start)
	if v.Now < v.alarmed[from] {
		return
	}
	v.alarmed[from] = v.Now.Add(v.Config.Retry)
	v.Took(pathWitnessDoubted)
	positions := v.disks.Of(from)
	if positions == nil {
		positions = []*peerv1.Position{{Member: uint32(from)}}
	}
	for _, id := range v.Config.Nearest {
		v.effects.Send = append(v.effects.Send, protocol.Envelope{To: id, Message: &peerv1.Message{
			Kind: peerv1.Kind_POSITION_QUERY, Op: w.Start, Positions: positions,
		}})
	}
}

// vouch tells a witness that has started what this member has heard of its disk. A lost disk has forgotten that, and
// one that may be an older copy too. Newcomers do not count: a master may have to recover before they have joined.
func (v *vouching) vouch(id view.MemberID, start uint64) {
	members := v.Config.View
	witness, known := members.Witness(id)
	if !known || members.Members[members.Index(v.Config.Self)].Joining || v.empty || v.Doubted() {
		return
	}
	v.ask(id, &witnessv1.Message{
		Kind: witnessv1.Kind_VOUCH, Start: start, Disk: witness.Disk, Promises: v.disks.Promises(id), View: v.digest,
		Voters: uint32(members.Before().Size()),
	})
}

// ready adds to a step's effects what is about disks, and says in all messages how far this disk is, unless it is none
// that counts.
func (v *vouching) ready(e *protocol.Effects) {
	for _, envelope := range v.effects.Send {
		envelope.Message.Epoch = v.Config.View.Epoch
	}
	e.Send = append(e.Send, v.effects.Send...)
	if v.effects.Fault != nil {
		e.Fault = v.effects.Fault
	}
	v.effects = protocol.Effects{}
	if e.Fault != nil {
		*e = protocol.Effects{Fault: e.Fault} // nothing of a broken turn may last or leave
		return
	}
	v.disks.Add(&e.Persist)
	if v.empty {
		return
	}
	durable, taken := v.Journal.Counted()
	for _, envelope := range e.Send {
		v.disks.Stamp(envelope.Message, durable)
	}
	for _, envelope := range e.SendAfterPersist {
		v.disks.Stamp(envelope.Message, taken)
	}
}
