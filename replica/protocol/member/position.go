package member

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A disk that was put back from an older copy can't tell so itself: all that it holds is in order. But each message names how
// many batches its sender's disk has had durably, and who hears it remembers the most. A member that starts asks the others
// what they have heard of it, and is lost if that is more than its disk has.

// countKey is where the journal holds how many batches the disk has had, positionsKey where the PositionRecord is.
var (
	countKey     = []byte{ownPrefix, 'c'}
	positionsKey = []byte{ownPrefix, 'k'}
)

// position is how far a member's disk was when it was heard.
type position struct {
	incarnation view.Incarnation
	start       uint64 // the highest start of its process that was heard
	batches     uint64 // in that start
	before      uint64 // the most in any lower one
}

// learn adds what was heard elsewhere, or another time, and reports whether it is news.
func (p *position) learn(q position) bool {
	switch was := *p; {
	case q.incarnation < p.incarnation:
		return false
	case q.incarnation > p.incarnation:
		*p = q
		return true
	case q.start == p.start:
		p.batches, p.before = max(p.batches, q.batches), max(p.before, q.before)
		return *p != was
	case q.start > p.start:
		q.before = max(q.before, p.before, p.batches)
		*p = q
		return true
	default:
		p.before = max(p.before, q.before, q.batches)
		return *p != was
	}
}

// startOf numbers the starts of a member's processes on one disk: they grow, and of two that had the same copy of the disk
// neither is taken for the other.
func startOf(c *protocol.Config) uint64 { return uint64(c.Boot)<<32 | c.Nonce&(1<<32-1) }

const (
	// heldMessages bounds the messages that wait until a member votes that has just started.
	heldMessages = 1024
	// patient is for how many times Config.Retry a member asks all others before it does with a quorum: who does not
	// answer for so long is down.
	patient = 4
)

// doubt is how a member that has just started finds out whether its disk is whole, and what waits for that.
type doubt struct {
	start    uint64 // of this process
	batches  uint64 // that the disk had then
	founded  bool   // there is no record: the view names the empty disk
	record   *peerv1.MemberRecord
	asked    phase.Phase
	since    protocol.Instant // the first Tick
	ticked   bool
	messages []heard
	requests []protocol.Request
}

type heard struct {
	from    view.MemberID
	message *peerv1.Message
}

// positions are what this member has heard of the others' disks, and what it has told of its own.
type positions struct {
	of      map[view.MemberID]*position // never ranged over
	dirty   bool                        // there is news that is not put
	saveDue protocol.Instant            // with a batch that there is anyway
	lateDue protocol.Instant            // in any case
	told    uint64                      // batches of this disk, to all
	tellDue protocol.Instant
}

// recallPositions reads what earlier processes heard.
func (m *Member) recallPositions() error {
	m.heard.of = map[view.MemberID]*position{}
	raw, ok := m.journal.Get(positionsKey)
	if !ok {
		return nil
	}
	record := &peerv1.PositionRecord{}
	if err := record.UnmarshalVT(raw); err != nil {
		return fmt.Errorf("the record of others' positions on disk is damaged: %w", err)
	}
	m.learnPositions(record.Positions)
	m.heard.dirty = false
	return nil
}

func (m *Member) learnPositions(all []*peerv1.Position) {
	for _, p := range all {
		m.learnPosition(view.MemberID(p.Member), position{view.Incarnation(p.Incarnation), p.Start, p.Batches, p.Before})
	}
}

// learnPosition notes how far a member of the view is. Those that are gone are forgotten with the next record.
func (m *Member) learnPosition(id view.MemberID, heard position) {
	if id == m.config.Self || m.config.View.Index(id) < 0 {
		return
	}
	p := m.heard.of[id]
	if p == nil {
		p = &position{}
		m.heard.of[id] = p
	}
	if p.learn(heard) && !m.heard.dirty {
		m.heard.dirty, m.heard.lateDue = true, m.now.Add(m.config.Suspect)
	}
}

// hear notes what the stamp of a message tells. One that asks to join does not know yet which disk it has.
func (m *Member) hear(from view.MemberID, incarnation view.Incarnation, msg *peerv1.Message) {
	if msg.Start != 0 && !m.config.Undoubted && msg.Kind != peerv1.Kind_JOIN_QUERY {
		m.learnPosition(from, position{incarnation: incarnation, start: msg.Start, batches: msg.Batches})
	}
}

// knownPositions lists the positions in the view's order.
func (m *Member) knownPositions() (all []*peerv1.Position) {
	for _, member := range m.config.View.Members {
		if p := m.heard.of[member.ID]; p != nil {
			all = append(all, p.wire(member.ID))
		}
	}
	return all
}

func (p *position) wire(id view.MemberID) *peerv1.Position {
	return &peerv1.Position{
		Member: uint32(id), Incarnation: uint32(p.incarnation), Start: p.start, Batches: p.batches, Before: p.before,
	}
}

// addPositions has a batch that there is anyway say what was heard, now and then.
func (m *Member) addPositions(b *protocol.Batch) {
	if h := &m.heard; h.dirty && b.Sequence != 0 && m.now >= h.saveDue {
		b.Mutations = append(b.Mutations, protocol.Mutation{Key: positionsKey, Value: m.positionRecord()})
	}
}

// notePositions writes what was heard a while ago, if no batch came. Such a batch promises nothing: members at rest would keep
// each other busy with what they hear of each other's notes.
func (m *Member) notePositions() {
	if h := &m.heard; h.dirty && m.now >= h.lateDue && m.state != querying && m.state != asking {
		m.journal.Note(positionsKey, m.positionRecord())
	}
}

// keepPositions writes what was heard with what comes next: it came with the others' state.
func (m *Member) keepPositions() {
	if m.heard.dirty {
		m.journal.Note(positionsKey, m.positionRecord())
	}
}

func (m *Member) positionRecord() []byte {
	m.heard.dirty, m.heard.saveDue = false, m.now.Add(m.config.Retry)
	raw, err := (&peerv1.PositionRecord{Positions: m.knownPositions()}).MarshalVT()
	if err != nil {
		m.effects.Fault = fmt.Errorf("encode the record of others' positions: %w", err)
	}
	return raw
}

// tellPosition has everyone know how far this disk is, some time after it went on: a promise that counts without a message to others
// is told in this way, and so is what only one of them has heard.
func (m *Member) tellPosition() {
	h := &m.heard
	durable, _ := m.journal.Counted()
	if durable == h.told || m.now < h.tellDue {
		return
	}
	h.told, h.tellDue = durable, m.now.Add(m.config.Suspect)
	for _, id := range m.config.Nearest {
		m.effects.Send = append(m.effects.Send, protocol.Envelope{To: id, Message: &peerv1.Message{Kind: peerv1.Kind_POSITION}})
	}
}

// askPositions asks whether the disk is whole.
func (m *Member) askPositions(ids []view.MemberID) {
	for _, id := range ids {
		m.effects.Send = append(m.effects.Send, protocol.Envelope{To: id, Message: &peerv1.Message{
			Kind: peerv1.Kind_POSITION_QUERY, Op: m.config.Nonce,
		}})
	}
}

// onPositionQuery answers a member that has started. A newcomer has nothing to say: what its lost disk had heard is gone.
func (m *Member) onPositionQuery(from view.MemberID, msg *peerv1.Message) {
	if m.state != voting && !(m.state == asking && (m.doubt.founded || m.doubt.record.Voter)) {
		return
	}
	reply := &peerv1.Message{Kind: peerv1.Kind_POSITION_REPLY, Op: msg.Op}
	if p := m.heard.of[from]; p != nil {
		reply.Positions = []*peerv1.Position{p.wire(from)}
	}
	m.effects.Send = append(m.effects.Send, protocol.Envelope{To: from, Message: reply})
}

// onPositionReply compares what another member has heard of this disk with what it holds. Who answers late is heard, too.
func (m *Member) onPositionReply(from view.MemberID, msg *peerv1.Message) {
	d := &m.doubt
	if d.start == 0 || msg.Op != m.config.Nonce {
		return
	}
	for _, p := range msg.Positions {
		if view.MemberID(p.Member) == m.config.Self {
			d.compare(m, from, position{view.Incarnation(p.Incarnation), p.Start, p.Batches, p.Before})
		}
	}
	if m.effects.Fault == nil && d.asked.Answer(m.roster, from) && m.state == asking {
		m.trust()
	}
}

// compare finds out whether a disk has forgotten what it was heard to hold.
func (d *doubt) compare(m *Member, by view.MemberID, heard position) {
	most := heard.before // in starts before this one
	if heard.start != d.start {
		most = max(most, heard.batches)
	}
	why := ""
	switch own := m.Incarnation(); {
	case heard.incarnation > own:
		why = fmt.Sprintf("it was the member's disk number %d, and this is number %d", heard.incarnation, own)
	case heard.incarnation < own:
	case heard.start > d.start:
		why = fmt.Sprintf("it was in boot %d, and this is boot %d, or another one of that number", heard.start>>32, d.start>>32)
	case most > d.batches:
		why = fmt.Sprintf("it had %d batches before this start, and has %d", most, d.batches)
	}
	if why != "" {
		m.config.Took("member.forgotten")
		m.effects.Fault = &protocol.Forgotten{By: by, Why: why}
	}
}

// trust goes on once enough others have heard of nothing that the disk lacks: enough to meet every quorum that counted it, as
// for a newcomer. If so many do not answer for long, a quorum with this member has to do, or members that are
// down would keep one that restarts from voting; the others are still asked. In a joint view it is a quorum of the members before the
// change: those who join begin when they are told of the view, which may have to wait for who votes.
func (m *Member) trust() {
	d := &m.doubt
	enough := d.asked.Meets(m.roster, 0) || d.asked.Count(m.roster) == len(m.config.Nearest)
	late := d.ticked && m.now >= d.since.Add(m.patience())
	switch {
	case enough:
	case late && d.asked.QuorumBefore(m.roster, m.config.Self):
		m.config.Took("member.trusted-by-few")
	default:
		return
	}
	m.begin()
	messages, requests := d.messages, d.requests
	d.messages, d.requests = nil, nil
	if m.state == voting {
		m.inner.Tick(m.now)
	}
	for _, h := range messages {
		m.Receive(h.from, h.message)
	}
	for _, r := range requests {
		m.Submit(r)
	}
}

func (m *Member) patience() time.Duration { return patient * m.config.Retry }

// tickDoubt asks again, and gives up on operations that have waited too long.
func (m *Member) tickDoubt() {
	d := &m.doubt
	if d.start == 0 {
		return
	}
	if !d.ticked {
		d.ticked, d.since = true, m.now
		d.asked.Ask(&m.config, m.now, len(m.config.Nearest)) // Start has
	}
	m.askPositions(d.asked.Again(&m.config, m.roster, m.now))
	if m.state != asking {
		return
	}
	m.trust()
	kept := d.requests[:0]
	for _, r := range d.requests {
		if r.Deadline == 0 || m.now < r.Deadline {
			kept = append(kept, r)
			continue
		}
		m.effects.Complete = append(m.effects.Complete, protocol.Completion{Handle: r.Handle, Result: unserved(r)})
	}
	d.requests = kept
}

// unserved ends an operation that this member has not begun; an earlier view's may have.
func unserved(r protocol.Request) register.Result {
	if r.Resume != (protocol.Resume{}) {
		return register.Result{Status: register.Unknown, Message: "this member started, and too few others answered in time"}
	}
	return register.Result{Status: register.Unavailable, Message: "this member has just started, and too few others have told it that its disk is whole"}
}

// Doubted reports whether it is not known yet that the disk holds all that it held: the member has just started, and asks.
func (m *Member) Doubted() bool { return m.state == asking }
