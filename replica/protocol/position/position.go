// Package position finds disks that were put back from an older copy. Such a disk can't tell so itself: all that it
// holds is in order. But each message names how many batches its sender's disk has had durably, and who hears it
// remembers the most. A member that starts asks the others what they have heard of it, and is lost if that is more than
// its disk has.
package position

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// Position is how far a member's disk was when it was heard.
type Position struct {
	Incarnation view.Incarnation
	Start       uint64 // the highest start of its process that was heard; see several
	Batches     uint64 // in that start
	Before      uint64 // the most in any lower one
}

// Learn adds what was heard elsewhere, or another time, and reports whether it is news.
func (p *Position) Learn(q Position) bool {
	if q.Incarnation == p.Incarnation && Boot(q.Start) == Boot(p.Start) && q.Start != p.Start {
		q.Start |= several // the disk went back between the two
	}
	was := *p
	switch {
	case q.Incarnation < p.Incarnation:
	case q.Incarnation > p.Incarnation:
		*p = q
	case q.Start == p.Start:
		p.Batches, p.Before = max(p.Batches, q.Batches), max(p.Before, q.Before)
	case q.Start > p.Start:
		q.Before = max(q.Before, p.Before, p.Batches)
		*p = q
	default:
		p.Before = max(p.Before, q.Before, q.Batches)
	}
	return *p != was
}

func read(p *peerv1.Position) Position {
	return Position{view.Incarnation(p.Incarnation), p.Start, p.Batches, p.Before}
}

// several, in place of a process's own number, says that several processes had a boot of this number: their disk was
// put back.
const several = 1<<32 - 1

// startOf numbers the starts of a member's processes on one disk: their boots grow, and of two that had the same copy
// of the disk, and so the same boot, neither is taken for the other.
func startOf(c *protocol.Config) uint64 { return uint64(c.Boot)<<32 | c.Nonce%several }

// Boot is the boot of a start: how many processes the disk has had, up to that one.
func Boot(start uint64) uint64 { return start >> 32 }

// patient is for how many times Config.Retry a member asks all others before it does with a quorum: who does not
// answer for so long is down.
const patient = 4

// Owner is the protocol of a member that keeps Disks.
type Owner struct {
	Config  *protocol.Config
	Roster  *quorum.Incarnations
	Journal *protocol.Journal
	Effects *protocol.Effects // where messages, and a fault, are added
	// CountKey is where the journal holds how many batches the disk has had, HeardKey where it holds the
	// PositionRecord.
	CountKey, HeardKey []byte
}

// Disks is what a member knows of how far the disks of a view's members are, for one shard: its own, and what it has
// heard.
type Disks struct {
	Owner
	now protocol.Instant

	of      map[view.MemberID]Position // of the others; never ranged over
	dirty   bool                       // there is news that is not put
	fresh   bool                       // there is news of witnesses that was not told
	saveDue protocol.Instant           // with a batch that there is anyway
	lateDue protocol.Instant           // in any case
	told    uint64                     // batches of this disk, to all
	tellDue protocol.Instant

	// Of a member that has just started, until it knows whether its disk is whole.
	asking  bool
	start   uint64 // of this process; 0: it never asks
	batches uint64 // that the disk had then
	asked   quorum.Tally
	since   protocol.Instant // the first Tick
	ticked  bool
}

// New begins with what the journal holds.
func New(o Owner) (*Disks, error) {
	d := &Disks{Owner: o, of: map[view.MemberID]Position{}}
	if raw, ok := o.Journal.Get(o.HeardKey); ok {
		record := &peerv1.PositionRecord{}
		if err := bounds.Decode(raw, record, bounds.Record); err != nil {
			return nil, fmt.Errorf("the record of others' positions on disk is damaged: %w", err)
		}
		d.Learn(record.Positions)
		d.dirty = false
	}
	if !o.Config.Undoubted {
		batches, err := o.Journal.Count(o.CountKey)
		if err != nil {
			return nil, err
		}
		d.batches, d.told = batches, batches
	}
	return d, nil
}

// Used reports whether the disk has had batches before this start.
func (d *Disks) Used() bool { return d.batches > 0 }

// Learn notes positions that another member has heard of.
func (d *Disks) Learn(all []*peerv1.Position) {
	for _, p := range all {
		d.learn(view.MemberID(p.Member), read(p))
	}
}

// learn notes how far a member or a witness of the view is, and reports whether that is news. Those that are gone are
// forgotten with the next record.
func (d *Disks) learn(id view.MemberID, heard Position) bool {
	if _, witness := d.Config.View.Witness(id); id == d.Config.Self || d.Config.View.Index(id) < 0 && !witness {
		return false
	}
	p := d.of[id]
	start := p.Start
	if !p.Learn(heard) {
		return false
	}
	d.of[id] = p
	if !d.dirty {
		d.dirty, d.lateDue = true, d.now.Add(d.Config.Suspect)
	}
	if p.Start != start {
		// At once: boots grow with each view, too, so that a disk that went back may have the same start again soon,
		// and ask no one. Who has forgotten the start by then does not see that it is given twice.
		d.lateDue = d.now
	}
	return true
}

// Hear notes what the stamp of a message tells. One that asks to join does not know yet which disk it has.
func (d *Disks) Hear(from view.MemberID, incarnation view.Incarnation, msg *peerv1.Message) {
	if msg.Start != 0 && !d.Config.Undoubted && msg.Kind != peerv1.Kind_JOIN_QUERY {
		d.learn(from, Position{Incarnation: incarnation, Start: msg.Start, Batches: msg.Batches})
	}
}

// HearWitness notes how many promises a witness says that it has made. Its ID has one disk only: on another one it gets
// another.
func (d *Disks) HearWitness(id view.MemberID, promises uint64) {
	if !d.Config.Undoubted && d.learn(id, Position{Incarnation: 1, Batches: promises}) {
		d.fresh = true
	}
}

// Promises is the most promises that a witness was heard to have made.
func (d *Disks) Promises(id view.MemberID) uint64 {
	return d.of[id].Batches
}

// Known lists the positions in the view's order.
func (d *Disks) Known() (all []*peerv1.Position) {
	for _, member := range d.Config.View.Members {
		all = append(all, d.Of(member.ID)...)
	}
	return append(all, d.ofWitnesses()...)
}

func (d *Disks) ofWitnesses() (all []*peerv1.Position) {
	for _, witness := range d.Config.View.Witnesses {
		all = append(all, d.Of(witness.ID)...)
	}
	return all
}

// Of is what is known of a member, on the wire; nothing if nothing is.
func (d *Disks) Of(id view.MemberID) []*peerv1.Position {
	p, known := d.of[id]
	if !known {
		return nil
	}
	return []*peerv1.Position{{
		Member: uint32(id), Incarnation: uint32(p.Incarnation), Start: p.Start, Batches: p.Batches, Before: p.Before,
	}}
}

// Add has a batch that there is anyway say what was heard, now and then.
func (d *Disks) Add(b *protocol.Batch) {
	if d.dirty && b.Sequence != 0 && d.now >= d.saveDue {
		b.Mutations = append(b.Mutations, protocol.Mutation{Key: d.HeardKey, Value: d.record()})
	}
}

// Note writes what was heard a while ago, if no batch came. Such a batch promises nothing: members at rest would keep
// each other busy with what they hear of each other's notes.
func (d *Disks) Note() {
	if d.now >= d.lateDue {
		d.Keep()
	}
}

// Keep writes what was heard with what comes next: it came with the others' state.
func (d *Disks) Keep() {
	if d.dirty {
		d.Journal.Note(d.HeardKey, d.record())
	}
}

func (d *Disks) record() []byte {
	d.dirty, d.saveDue = false, d.now.Add(d.Config.Retry)
	raw, err := (&peerv1.PositionRecord{Positions: d.Known()}).MarshalVT()
	if err != nil {
		d.Effects.Fault = fmt.Errorf("encode the record of others' positions: %w", err)
	}
	return raw
}

// Stamp says in messages how far this disk is: it has so many batches.
func (d *Disks) Stamp(m *peerv1.Message, batches uint64) {
	if !d.Config.Undoubted {
		m.Start, m.Batches = startOf(d.Config), batches
	}
}

// Tell has everyone know how far this disk is, some time after it went on: a promise that counts without a message to
// others is told in this way, and so is what only one of them has heard. With it goes what a witness has told this
// member alone.
func (d *Disks) Tell() {
	durable, _ := d.Journal.Counted()
	if durable == d.told && !d.fresh || d.now < d.tellDue {
		return
	}
	var also []*peerv1.Position
	if d.fresh {
		also = d.ofWitnesses()
	}
	d.told, d.fresh, d.tellDue = durable, false, d.now.Add(d.Config.Suspect)
	d.TellAll(also)
}

// TellAll tells everyone how far this disk is, and what is known of some.
func (d *Disks) TellAll(also []*peerv1.Position) {
	for _, id := range d.Config.Nearest {
		d.send(id, &peerv1.Message{Kind: peerv1.Kind_POSITION, Positions: also})
	}
}

func (d *Disks) send(to view.MemberID, m *peerv1.Message) {
	d.Effects.Send = append(d.Effects.Send, protocol.Envelope{To: to, Message: m})
}

// Ask begins to ask whether the disk is whole.
func (d *Disks) Ask() {
	d.asking, d.start = true, startOf(d.Config)
	d.query(d.asked.Ask(d.Config, d.now, len(d.Config.Nearest)))
}

func (d *Disks) query(ids []view.MemberID) {
	for _, id := range ids {
		d.send(id, &peerv1.Message{Kind: peerv1.Kind_POSITION_QUERY, Op: d.Config.Nonce})
	}
}

// Answer tells a member that has started what is known of its disk, and of some others.
func (d *Disks) Answer(from view.MemberID, msg *peerv1.Message, known []*peerv1.Position) {
	d.send(from, &peerv1.Message{Kind: peerv1.Kind_POSITION_REPLY, Op: msg.Op, Positions: known})
}

// OnReply compares what another member has heard of this disk with what it holds, and reports whether that is news of
// one who had not answered. Who answers late is heard, too.
func (d *Disks) OnReply(from view.MemberID, msg *peerv1.Message) bool {
	if d.start == 0 || msg.Op != d.Config.Nonce {
		return false
	}
	for _, p := range msg.Positions {
		if view.MemberID(p.Member) == d.Config.Self {
			d.Compare(from, read(p))
		}
	}
	return d.Effects.Fault == nil && d.asked.Answer(d.Roster, from)
}

// Compare finds out whether this disk has forgotten what it was heard to hold.
func (d *Disks) Compare(by view.MemberID, heard Position) {
	most := heard.Before // in starts before this one
	if heard.Start != d.start {
		most = max(most, heard.Batches)
	}
	why := ""
	switch own := d.Roster.Of(d.Config.Self); {
	case heard.Incarnation > own:
		why = fmt.Sprintf("it was the member's disk number %d, and this is number %d", heard.Incarnation, own)
	case heard.Incarnation < own:
	case Boot(heard.Start) == Boot(d.start) && heard.Start != d.start:
		why = fmt.Sprintf("it was in boot %d before this one of the same number", Boot(d.start))
	case heard.Start > d.start:
		why = fmt.Sprintf("it was in boot %d, and this is boot %d", Boot(heard.Start), Boot(d.start))
	case most > d.batches:
		why = fmt.Sprintf("it had %d batches before this start, and has %d", most, d.batches)
	}
	if why != "" {
		d.Config.Took("member.forgotten")
		d.Effects.Fault = &protocol.Forgotten{By: by, Why: why}
	}
}

// Tick tells the time, and asks again those who have not answered.
func (d *Disks) Tick(now protocol.Instant) {
	d.now = now
	if d.start != 0 {
		if !d.ticked {
			d.ticked, d.since = true, now
			d.asked.Ask(d.Config, now, len(d.Config.Nearest)) // Ask has
		}
		d.query(d.asked.Again(d.Config, d.Roster, now))
	}
}

// Asking reports whether it is not known yet that the disk is whole.
func (d *Disks) Asking() bool { return d.asking }

// Trusted ends the asking, and reports that, once enough others have heard of nothing that the disk lacks: enough to
// meet every quorum that counted it, as for a newcomer. If so many do not answer for long, a quorum with this member
// has to do, or members that are down would keep one that restarts from voting; the others are still asked. In a joint
// view it is a quorum of the members before the change: those who join begin when they are told of the view, which may
// have to wait for who votes.
func (d *Disks) Trusted() bool {
	enough := d.asked.Meets(d.Roster, 0) || d.asked.Count(d.Roster) == len(d.Config.Nearest)
	late := d.now >= d.since.Add(d.patience())
	switch {
	case !d.asking || d.Effects.Fault != nil:
		return false
	case enough:
	case late && d.asked.QuorumBefore(d.Roster, d.Config.Self):
		d.Config.Took("member.trusted-by-few")
	default:
		return false
	}
	d.asking = false
	return true
}

func (d *Disks) patience() time.Duration { return patient * d.Config.Retry }
