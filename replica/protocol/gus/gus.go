// Package gus is Gus, a register with optimistically fast reads and writes (Tseng et al., SPAA '23), corrected: as
// published it is not linearizable.
//
// Every member stores, per key, a value and its tag (timestamp, writer). A writer does not ask for the largest tag first;
// it guesses a larger one than it knows of, and sends value and tag at once. If a quorum finds the tag newer than what it
// had, the write is done in one round trip. Otherwise it gets a larger tag, in a second one.
//
// So a write has two tags at times, and must be seen with one only. With three members that is so because a quorum of two
// that holds a tag leaves nobody who could make it a stale one. With more, a tag is speculative until its writer says that
// it is final; a read that finds a speculative tag waits for that, and if it does not come, has a quorum decide. With relaxed
// quorums, of more than five members of which fewer than any minority may be lost, a read also returns a tag that so many hold
// that its writer can't have found it stale.
//
// docs/protocols.md, section Gus, says what is corrected, what is durable when, and why.
package gus

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of Gus. It implements protocol.Protocol.
type Protocol struct {
	config       protocol.Config
	journal      *protocol.Journal
	incarnations *quorum.Incarnations
	counted      *quorum.Incarnations // whose answers count: the incarnations, unless a mistake is put back
	mistakes     Mistakes
	bounds       Bounds
	// three says that the view is a plain one of three members, relaxed that it is a plain one with relaxed quorums. In both, who
	// holds a tag has voted for it: enough holders let a read return it, and its writer gives it up once stales members won't
	// ever hold it. Elsewhere enough is 0.
	three, relaxed bool
	enough, stales int

	now     protocol.Instant
	last    uint64                // number of the last operation
	round   uint64                // the largest round of a ballot that this process made
	issued  uint64                // the largest timestamp of a write that was given up: no record here need know of it
	draws   uint64                // state of the draws for back-off
	running map[uint64]*operation // by number
	order   []*operation          // as submitted, finished ones among them until the next Tick
	keys    map[string]*active    // what runs here, by key
	joining map[string]*operation // reads of this turn, which others may join
	scratch []byte                // for the keys of records
	shelf   shelf

	// What Ready hands over, but for the journal's batch.
	sends, sendsDurable         slab.List[protocol.Envelope]
	completes, completesDurable slab.List[protocol.Completion]
	fault                       error

	messages slab.Of[peerv1.Message]
	bytes    slab.Bytes
}

// active is what this member coordinates of one key at present.
type active struct {
	operations []*operation
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

// Bounds say how much a member keeps of a key because it has not heard what is final.
type Bounds struct {
	Writes   int // in its record: those of which it has said something
	Versions int // in memory: values, while reads are under way
}

// usual are the bounds but for tests, which find what is beyond them with smaller ones.
func usual() Bounds { return Bounds{Writes: 64, Versions: 16} }

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
	return New(config, journal, incarnations, Mistakes{})
}

// FactoryWith is Factory with mistakes put back, for tests.
func FactoryWith(m Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
		return New(config, journal, incarnations, m)
	}
}

// FactoryBounded is FactoryWith with other bounds, for tests.
func FactoryBounded(b Bounds, m Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
		p := New(config, journal, incarnations, m)
		p.bounds = b
		return p
	}
}

// New returns a member's part, with the registers that its journal holds.
func New(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations, m Mistakes) *Protocol {
	p := &Protocol{
		config:       config,
		journal:      journal,
		incarnations: incarnations,
		counted:      incarnations,
		mistakes:     m,
		bounds:       usual(),
		three:        !config.View.Joint() && config.View.Size() == 3,
		last:         quorum.FirstOp(&config, incarnations),
		stales:       1,
		round:        1, // the writer's own
		draws:        config.Seed,
		running:      map[uint64]*operation{},
		keys:         map[string]*active{},
		joining:      map[string]*operation{},
	}
	if p.three {
		p.enough = config.View.Majority()
	}
	if r, ok := view.RelaxedFor(config.View.Size(), config.Faults); ok && !config.View.Joint() {
		p.relaxed, p.enough, p.stales = true, r.Hold, config.View.Size()-r.Hold
		if m.HeldByReadQuorum {
			p.enough = r.Read
		}
		if m.SmallWriteQuorum {
			p.stales = 1
		}
	}
	if m.StoreUnderOwnTag || m.DropEarlyCommit {
		p.shelf = shelf{}
	}
	if m.CountDeadDisks {
		p.counted = quorum.FirstDisks(config.View)
	}
	if m.NumberWithoutBoot {
		p.last = 0
	}
	return p
}

// Submit starts a read or a write; an rmw is Unsupported.
func (p *Protocol) Submit(r protocol.Request) {
	switch r.Operation.Kind {
	case register.Read:
		if o := p.joining[r.Operation.Key]; o != nil && !o.done && !o.restarted {
			p.config.Took(pathReadJoined)
			o.requests = append(o.requests, r)
			return
		}
		o := p.begin(r)
		p.joining[r.Operation.Key] = o
		p.read(o)
	case register.Write:
		o := p.begin(r)
		if done, resumed := r.Resume.(resume); resumed && !p.mistakes.ResumeWithNewTag {
			p.resume(o, done)
		} else {
			p.write(o)
		}
	default:
		p.config.Took(pathUnsupported)
		p.complete(r.Handle, register.Result{Status: register.Unsupported, Message: refusal})
	}
}

func (p *Protocol) begin(r protocol.Request) *operation {
	p.last++
	o := &operation{requests: []protocol.Request{r}, number: p.last, key: p.bytes.Make(len(r.Operation.Key))}
	copy(o.key, r.Operation.Key)
	p.running[o.number] = o
	p.order = append(p.order, o)
	k := p.keys[r.Operation.Key]
	if k == nil {
		k = &active{}
		p.keys[r.Operation.Key] = k
	}
	k.operations = append(k.operations, o)
	return o
}

// of lists what runs here on a key; the list may change while its operations are told of something.
func (p *Protocol) of(key []byte) []*operation {
	if k := p.keys[string(key)]; k != nil {
		return slices.Clone(k.operations)
	}
	return nil
}

// refusal is what the table of protocols (replica/capability) says too; a test holds them together.
const refusal = "not supported by protocol Gus; it stores plain registers, which can't agree on a read-modify-write: " +
	"use protocol Gryff"

// Receive serves another coordinator, or counts an answer for this one.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m == nil || m.Kind != peerv1.Kind_GUS || m.Gus == nil || from == p.config.Self || p.config.View.Index(from) < 0 {
		return
	}
	switch m.Gus.Kind {
	case peerv1.GusKind_GUS_READ:
		p.serveRead(from, m)
	case peerv1.GusKind_GUS_WRITE:
		p.serveWrite(from, m)
	case peerv1.GusKind_GUS_LOCK:
		p.reply(from, p.lock(m))
	case peerv1.GusKind_GUS_COMMIT:
		p.reply(from, p.vote(m))
	case peerv1.GusKind_GUS_FINAL:
		p.final(m.Key, originOf(m), m.Timestamp)
	default:
		p.answer(from, m)
	}
}

// answer counts an answer of another member, or of this one's own part.
func (p *Protocol) answer(from view.MemberID, m *peerv1.Message) {
	o := p.running[m.Op]
	if o == nil || o.stage == 0 || m.Gus.Kind != o.stage.asks()+1 {
		p.config.Took(pathStale)
		return
	}
	switch o.stage {
	case reading:
		p.told(o, from, m)
	case speculating:
		p.acknowledged(o, from, m)
	case locking:
		p.locked(o, from, m)
	case committing:
		p.voted(o, from, m)
	}
}

// Tick gives up what is too late, asks again, and has undecided writes decided that are waited for.
func (p *Protocol) Tick(now protocol.Instant) {
	p.now = now
	p.order = slices.DeleteFunc(p.order, func(o *operation) bool { return o.done })
	for _, o := range slices.Clone(p.order) {
		if !o.done {
			p.expire(o)
		}
		if !o.done {
			p.again(o)
		}
	}
}

// Pace implements member.Inner.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
}

// Pending is how many operations wait for answers.
func (p *Protocol) Pending() int { return len(p.running) }

// Ready hands over what the steps since the last one ask for.
func (p *Protocol) Ready() protocol.Effects {
	if p.fault != nil {
		return protocol.Effects{Fault: p.fault}
	}
	if !p.mistakes.TagAlong {
		clear(p.joining) // their messages leave now: what they are told may be older than what begins later
	}
	return protocol.Effects{
		Send: p.sends.Take(), Complete: p.completes.Take(), Persist: p.journal.Take(),
		SendAfterPersist: p.sendsDurable.Take(), CompleteAfterPersist: p.completesDurable.Take(),
	}
}

// message begins a message about the write that began with origin, under one of its tags. It never changes once it is sent.
func (p *Protocol) message(kind peerv1.GusKind, op uint64, key []byte, origin register.Carstamp, timestamp uint64) *peerv1.Message {
	m := p.messages.New()
	m.Kind, m.Op, m.Key = peerv1.Kind_GUS, op, key
	m.Timestamp, m.Writer = timestamp, uint64(origin.Writer)
	m.Gus = &peerv1.Gus{Kind: kind, Origin: origin.Timestamp}
	return m
}

func (p *Protocol) send(to view.MemberID, m *peerv1.Message) {
	p.sends.Add(protocol.Envelope{To: to, Message: m})
}

// sendDurable sends once the record of the message's key is durable.
func (p *Protocol) sendDurable(to view.MemberID, m *peerv1.Message) {
	if p.durable(m.Key) {
		p.send(to, m)
		return
	}
	p.config.Took(pathReplyWaits)
	p.sendsDurable.Add(protocol.Envelope{To: to, Message: m})
}

// reply sends an answer: it tells of what the member holds or has promised, and so waits for the disk.
func (p *Protocol) reply(to view.MemberID, m *peerv1.Message) {
	if p.mistakes.AckBeforePersist {
		p.send(to, m)
		return
	}
	p.sendDurable(to, m)
}

func (p *Protocol) durable(key []byte) bool { return p.journal.Durable(p.recordKey(key)) }

// complete ends a request that nothing has to be durable for.
func (p *Protocol) complete(handle uint64, r register.Result) {
	p.completes.Add(protocol.Completion{Handle: handle, Result: r})
}

// writer names this process on this disk.
func (p *Protocol) writer() register.Writer {
	if p.mistakes.TagWithoutBoot {
		return register.NewWriter(uint32(p.config.Self), 0, 0)
	}
	return register.NewWriter(uint32(p.config.Self), uint32(p.incarnations.Of(p.config.Self)), p.config.Boot)
}

// draw returns a number below n (splitmix64): the next of those that the seed gives.
func (p *Protocol) draw(n uint64) uint64 {
	p.draws += 0x9e3779b97f4a7c15
	z := p.draws
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) % n
}
