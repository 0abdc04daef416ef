// Package gus is Gus, a register with optimistically fast reads and writes (Tseng et al., SPAA '23), corrected: as
// published it is not linearizable.
//
// Every member stores, per key, a value and its tag (timestamp, writer). A writer does not ask for the largest tag
// first; it guesses a larger one than it knows of, and sends value and tag at once. If a quorum finds the tag newer
// than what it had, or than all of that but for what has not ended, the write is done in one round trip. Otherwise it
// gets a larger tag, in a second one.
//
// So a write has two tags at times, and must be seen with one only. With three members that is so because a quorum of
// two that holds a tag leaves nobody who could make it a stale one. With more, a tag is speculative until its writer
// says that it is final; a read that finds a speculative tag waits for that, and if it does not come, has a quorum
// decide. With relaxed quorums, of more than five members of which fewer than any minority may be lost, a read also
// returns a tag that so many hold that its writer can't have found it stale.
//
// docs/protocols.md, section Gus, says what is corrected, what is durable when, and why.
package gus

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of Gus.
type Protocol struct {
	*base.Base
	base.Settled
	// three says that the view is a plain one of three members, relaxed that it is a plain one with relaxed quorums. In
	// both, who holds a tag has voted for it: enough holders let a read return it, and its writer gives it up once stales
	// members won't ever hold it. Elsewhere enough is 0.
	three, relaxed bool
	enough, stales int

	round uint64 // the largest round of a ballot that this process made
	// The largest timestamp of a write that was given up, and of a tag that a write took after its first: no record
	// here need know of it.
	issued     uint64
	operations base.Operations[*operation]
	active     map[string]*active    // what runs here, by key
	joining    map[string]*operation // reads of this turn, which others may join
}

// active is what this member coordinates of one key at present.
type active struct {
	operations []*operation
	// ended is kept while writes are under way here, where a tag can be held that is no vote (Protocol.ended).
	ended register.Carstamp
	// versions are writes that arrived while reads are under way here, oldest first: the register may be past the one that
	// becomes final first.
	versions []version
}

// version is a write's value, and the timestamp of its final tag, 0 if that is not known.
type version struct {
	origin register.Carstamp
	value  register.Value
	final  uint64
}

// How much a member keeps of a key because it has not heard what is final, unless the tuning says otherwise.
const (
	writesKept   = 64 // in its record: those of which it has said something
	versionsKept = 16 // in memory: values, while reads are under way
)

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return New(config, journal, known)
}

// New returns a member's part, with the registers that its journal holds.
func New(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) *Protocol {
	p := &Protocol{
		Base:    base.New("gus", config, journal, known),
		three:   !config.View.Joint() && config.View.Size() == 3,
		stales:  1,
		round:   1, // the writer's own
		active:  map[string]*active{},
		joining: map[string]*operation{},
	}
	if p.three {
		p.enough = config.View.Majority()
	}
	if r, ok := view.RelaxedFor(config.View.Size(), config.Faults); ok && !config.View.Joint() {
		p.relaxed, p.enough, p.stales = true, r.Hold, config.View.Size()-r.Hold
	}
	return p
}

// RecordsOf implements protocol.Keyed.
func (p *Protocol) RecordsOf(register.Kind) string { return string(recordPrefix) }

// RecordsFor implements protocol.Keyed.
func (p *Protocol) RecordsFor(*peerv1.Message) string { return string(recordPrefix) }

// Submit starts a read or a write; an rmw is Unsupported.
func (p *Protocol) Submit(r protocol.Request) {
	switch r.Operation.Kind {
	case register.Read:
		if o := p.joining[r.Operation.Key]; o != nil {
			p.Took(pathReadJoined)
			o.requests = append(o.requests, r)
			return
		}
		o := p.begin(r)
		p.joining[r.Operation.Key] = o
		p.read(o)
	case register.Write:
		o := p.begin(r)
		if done, resumed := r.Resume.(resume); resumed {
			p.resume(o, done)
		} else {
			p.write(o)
		}
	default:
		p.Took(pathUnsupported)
		p.Complete(r.Handle, register.Result{Status: register.Unsupported, Message: refusal})
	}
}

func (p *Protocol) begin(r protocol.Request) *operation {
	o := &operation{Operation: p.NewOperation(r), requests: []protocol.Request{r}}
	p.operations.Begin(o)
	k := p.active[r.Operation.Key]
	if k == nil {
		k = &active{}
		p.active[r.Operation.Key] = k
	}
	if p.enough == 0 && o.writes() && !k.writes() {
		r := p.load(o.Key)
		newest, _ := r.newest()
		k.ended = newest.Carstamp
	}
	k.operations = append(k.operations, o)
	return o
}

// of lists what runs here on a key; the list may change while its operations are told of something.
func (p *Protocol) of(key []byte) []*operation {
	if k := p.active[string(key)]; k != nil {
		return slices.Clone(k.operations)
	}
	return nil
}

// refusal is what the table of protocols (replica/capability) says too; a test holds them together.
const refusal = "not supported by protocol Gus; it stores plain registers, which can't agree on a read-modify-write: " +
	"use protocol Gryff"

// Receive serves another coordinator, or counts an answer for this one.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m.Gus == nil {
		return
	}
	switch m.Kind {
	case peerv1.Kind_GUS_READ:
		p.onRead(from, m)
	case peerv1.Kind_GUS_WRITE:
		p.onWrite(from, m)
	case peerv1.Kind_GUS_LOCK:
		p.reply(from, p.lock(m))
	case peerv1.Kind_GUS_COMMIT:
		p.reply(from, p.vote(m))
	case peerv1.Kind_GUS_FINAL:
		p.onFinal(m.Key, originOf(m), m.Timestamp)
	default:
		p.onAnswer(from, m)
	}
}

// onAnswer counts an answer of another member, or of this one's own part.
func (p *Protocol) onAnswer(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil || o.stage == 0 || m.Kind != o.stage.asks()+1 {
		p.Took(base.PathStale)
		return
	}
	switch o.stage {
	case reading:
		p.onReadReply(o, from, m)
	case speculating:
		p.onWriteReply(o, from, m)
	case locking, committing:
		p.onBallotReply(o, from, m)
	}
}

// Tick gives up what is too late, asks again, and has undecided writes decided that are waited for.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now = now
	p.operations.Sweep(nil)
	for o := range p.operations.InProgress() {
		p.expire(o)
		if !o.Over {
			p.retransmit(o)
		}
	}
}

// Pending is how many operations wait for answers.
func (p *Protocol) Pending() int { return p.operations.Len() }

// Ready hands over what the steps since the last one ask for.
func (p *Protocol) Ready() protocol.Effects {
	clear(p.joining) // their messages leave now: what they are told may be older than what begins later
	return p.Outbox.Ready()
}

// message begins a message about the write that began with origin, under one of its tags. It never changes once it is
// sent.
func (p *Protocol) message(kind peerv1.Kind, op uint64, key []byte, origin register.Carstamp, timestamp uint64) *peerv1.Message {
	m := p.Message(kind, op, key)
	m.Timestamp, m.Writer = timestamp, uint64(origin.Writer)
	m.Gus = &peerv1.Gus{Origin: origin.Timestamp}
	return m
}

// reply sends an answer: it tells of what the member holds or has promised, and so waits for the disk.
func (p *Protocol) reply(to view.MemberID, m *peerv1.Message) {
	p.Reply(p.durable(m.Key), to, m)
}

func (p *Protocol) durable(key []byte) bool {
	return p.Journal.Durable(p.Keys.Lookup(recordPrefix, key))
}
