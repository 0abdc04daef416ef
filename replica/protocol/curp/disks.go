package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// A member that starts takes no part before enough others have told it that its disk is no older copy (package
// position): as a master it may have told of what the copy lacks, as a backup it has acknowledged it. Terms and indexes
// of the log would not do for that, since a backup may well drop entries in a new term, and what is no entry counts
// too, such as which terms were recovered. A disk that is an older copy is a lost one, and its member is replaced.

// startDisks begins to know how far disks are, and asks whether this one is whole, unless that is known or it is empty
// for certain.
func (p *Protocol) startDisks(known bool) (err error) {
	p.disks, err = position.New(position.Owner{
		Config: &p.config, Roster: quorum.FirstDisks(p.config.View), Journal: p.Journal, Effects: &p.aside, CountKey: store.CountKey, HeardKey: store.HeardKey,
	})
	if err != nil {
		return err
	}
	p.empty = !known && !p.disks.Used() && !p.config.Bootstrap
	c := &p.config
	if !p.empty && !c.Continued && !c.Undoubted && c.View.Size() > 1 && !p.mistakes.TrustOldCopy {
		p.disks.Ask()
	}
	return nil
}

// onPosition handles what is about disks, and reports whether the message is.
func (p *Protocol) onPosition(from view.MemberID, m *peerv1.Message) bool {
	if m.Epoch != p.config.View.Epoch || p.config.View.Index(from) < 0 {
		return false
	}
	p.disks.Hear(from, 1, m) // another disk is another member
	switch m.Kind {
	case peerv1.Kind_POSITION:
		p.disks.Learn(m.Positions)
	case peerv1.Kind_POSITION_QUERY:
		if len(m.Positions) > 0 {
			p.disks.Learn(m.Positions)
			p.vouch(view.MemberID(m.Positions[0].Member), m.Op)
			return true
		}
		if !p.empty { // what a lost disk had heard is gone
			p.disks.Answer(from, m, p.disks.Known())
		}
	case peerv1.Kind_POSITION_REPLY:
		p.disks.Learn(m.Positions)
		if p.disks.OnReply(from, m) {
			p.believe()
		}
	default:
		return false
	}
	return true
}

// believe begins the role that the view gives once the disk is known to be whole.
func (p *Protocol) believe() {
	if !p.disks.Trusted() {
		return
	}
	p.takePart(p.known)
	if p.ticked {
		p.present()
	}
}

// present tells the others of this member: that it holds the view, and how far it knows disks to be. Who has joined
// knows nothing of that yet.
func (p *Protocol) present() {
	p.tellHeld()
	if !p.config.Undoubted && !p.empty {
		p.disks.TellAll(p.disks.Known())
	}
}

// tickDisks asks again, and tells how far this disk is.
func (p *Protocol) tickDisks() {
	p.disks.Tick(p.now)
	p.believe()
	if !p.empty {
		p.disks.Tell()
	}
}

// Doubted implements protocol.Protocol.
func (p *Protocol) Doubted() bool { return p.disks.Asking() }

// Witnesses can't ask members, which are strangers to them, so members tell. A witness says with what it promises how
// many promises it has made in the partition; members remember the most that they have heard, as they do of each
// other's disks, and tell each other. One that has started refuses all questions with the number of that start. Who
// gets such an answer has all members vouch for the witness: they tell it what they have heard, and a majority of those
// before a change of members has to.

// hearWitness notes what a witness's answer says of its disk.
func (p *Protocol) hearWitness(from view.MemberID, w *witnessv1.Message) {
	if w.Promises > 0 {
		p.disks.HearWitness(from, w.Promises)
	}
	if w.Start == 0 {
		return
	}
	p.vouch(from, w.Start)
	if p.alarmed == nil {
		p.alarmed = map[view.MemberID]protocol.Instant{}
	}
	if p.now < p.alarmed[from] {
		return
	}
	p.alarmed[from] = p.now.Add(p.config.Retry)
	p.config.Took("witness.doubted")
	positions := p.disks.Of(from)
	if positions == nil {
		positions = []*peerv1.Position{{Member: uint32(from)}}
	}
	for _, id := range p.config.Nearest {
		p.aside.Send = append(p.aside.Send, protocol.Envelope{To: id, Message: &peerv1.Message{
			Kind: peerv1.Kind_POSITION_QUERY, Op: w.Start, Positions: positions,
		}})
	}
}

// vouch tells a witness that has started what this member has heard of its disk. A lost disk has forgotten that, and
// one that may be an older copy too. Newcomers do not count: a master may have to recover before they have joined.
func (p *Protocol) vouch(id view.MemberID, start uint64) {
	v := p.config.View
	witness, known := v.Witness(id)
	if !known || v.Members[v.Index(p.config.Self)].Joining || p.empty || p.disks.Asking() {
		return
	}
	promises := p.disks.Promises(id)
	if p.mistakes.TrustOldWitness {
		promises = 0
	}
	p.ask(id, &witnessv1.Message{
		Kind: witnessv1.Kind_VOUCH, Start: start, Disk: witness.Disk, Promises: promises, View: p.digest, Voters: uint32(v.Before().Size()),
	})
}
