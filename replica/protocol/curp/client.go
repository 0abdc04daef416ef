package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// recordBytes is the largest request that is recorded at witnesses; a larger one waits for a sync.
const recordBytes = 2 << 10

// client is the part of CURP's client (section 3.2.1): of the operations that are submitted to this member.
type client struct {
	operations map[uint64]*operation // by op
	inFlight   []*operation          // the same, oldest first, and ended ones
	session    uint64                // of operations that came without an id; 0 before there is one
	next       uint64                // the next number in it
	fast, slow uint64
	near       view.MemberID    // the witness at this member's site; 0: none
	local      protocol.Instant // when a read was last tried here
	// What all backups held when the master answered the last read: answers from here are no older.
	seen uint64
}

// operation is a read or an update that is submitted here.
type operation struct {
	request protocol.Request
	op      uint64
	key     []byte
	update  *peerv1.Request // nil: a read
	raw     []byte          // of the update, as witnesses save it; nil: it is not recorded
	minted  bool
	ended   bool
	due     protocol.Instant // when to ask again

	accepted []view.MemberID // witnesses that saved the request
	answer   *peerv1.Answer  // what the master said it made of it, and would lose with its backups not knowing
	syncing  bool            // the master is asked to sync
	trips    int

	checking bool           // a read that asks the witness before it reads here
	early    *peerv1.Answer // of a mistake
}

func (p *Protocol) startClient() {
	p.client.operations = map[uint64]*operation{}
	site := p.config.View.Members[p.config.View.Index(p.config.Self)].Site
	for _, id := range p.partition.Witnesses {
		if w, _ := p.config.View.Witness(id); w.Site == site && p.client.near == 0 {
			p.client.near = id
		}
	}
}

func (p *Protocol) submit(r protocol.Request) {
	o := &operation{request: r, op: p.Op(), key: []byte(r.Operation.Key), due: p.now.Add(p.config.Retry)}
	if err := base.CheckOperation(p.config.Functions, r.Operation); err != nil {
		p.finish(o, register.Result{Status: register.Invalid, Message: err.Error()})
		return
	}
	p.begin(o)
	if r.Operation.Kind == register.Read {
		p.readSomewhere(o)
		return
	}
	p.identify(o)
	p.update(o)
}

func (p *Protocol) begin(o *operation) {
	p.client.operations[o.op] = o
	p.client.inFlight = append(p.client.inFlight, o)
}

// identify gives an update its id, under which it is executed once, however often and in however many terms it is
// tried.
func (p *Protocol) identify(o *operation) {
	op := o.request.Operation
	c := &peerv1.Command{
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
		Function: op.Call.Function, Args: op.Call.Args, MaxValueBytes: uint64(op.Call.MaxValueBytes),
	}
	o.update = &peerv1.Request{Key: o.key, Command: c, Present: op.Value.Present(), Value: op.Value}
	if op.Kind == register.Write {
		c.Function, c.Args, c.MaxValueBytes = "", nil, 0
	}
	cl := &p.client
	if c.Session == 0 {
		o.minted = true
		if done, resumed := o.request.Resume.(resume); resumed {
			p.config.Took("update.resumed")
			if cl.session == 0 {
				cl.session = done.session
			}
			if cl.session == done.session {
				cl.next = max(cl.next, done.next)
			}
			c.Session, c.Number = done.session, done.number
		} else {
			p.mint(c)
		}
		c.FirstIncomplete = p.firstIncomplete(c)
	}
	raw, err := o.update.MarshalVT()
	if err != nil {
		p.Fault("encode a request: %w", err)
	}
	switch n := len(p.partition.Witnesses); {
	case p.config.Sync.Asynchronous && n == 0, // it is recorded by nobody
		len(raw) <= recordBytes && n > 0 && n >= len(p.partition.Backups):
		o.raw = raw
	default:
		p.config.Took("update.large")
		o.syncing = true
	}
}

// mint makes an id of the session of this process.
func (p *Protocol) mint(c *peerv1.Command) {
	cl := &p.client
	if cl.session == 0 {
		cl.session = max(mix(p.config.Nonce, uint64(p.config.Self)<<32), 1)
	}
	cl.next = max(cl.next, 1)
	c.Session, c.Number = cl.session, cl.next
	cl.next++
}

// firstIncomplete is the lowest number of the command's session that this member still waits for.
func (p *Protocol) firstIncomplete(c *peerv1.Command) uint64 {
	first := c.Number
	for _, o := range p.client.inFlight {
		if !o.ended && o.minted && o.update != nil && o.update.Command.Session == c.Session {
			first = min(first, o.update.Command.Number)
			break // they are in order, but for resumed ones, which come first
		}
	}
	return first
}

// update sends an update to the master and, at the same time, to all witnesses.
func (p *Protocol) update(o *operation) {
	o.trips = 1
	if o.raw == nil && p.partition.Master == p.config.Self {
		o.trips = 0
	}
	p.tellMaster(o)
	p.record(o)
}

func (p *Protocol) tellMaster(o *operation) {
	p.send(p.partition.Master, p.message(peerv1.Kind_UPDATE, o.op, &peerv1.Curp{Request: o.update, Sync: o.syncing}))
}

func (p *Protocol) record(o *operation) {
	if o.raw == nil {
		return
	}
	c := o.update.Command
	for _, id := range p.partition.Witnesses {
		if !slices.Contains(o.accepted, id) {
			p.ask(id, &witnessv1.Message{
				Kind: witnessv1.Kind_RECORD, Op: o.op, Term: p.partition.Term, Hashes: []uint64{register.Hash(o.key)},
				Id: &witnessv1.ID{Session: c.Session, Number: c.Number}, Request: o.raw,
			})
		}
	}
}

// onRecordReply counts the witnesses that saved a request: all of them are needed, since recovery asks any one.
func (p *Protocol) onRecordReply(from view.MemberID, w *witnessv1.Message) {
	o := p.client.operations[w.Op]
	if o == nil || o.raw == nil || !slices.Contains(p.partition.Witnesses, from) {
		return
	}
	if !w.Accepted || w.Term != p.partition.Term {
		p.config.Took("update.rejected")
		p.askSync(o)
		return
	}
	if !slices.Contains(o.accepted, from) {
		o.accepted = append(o.accepted, from)
	}
	p.decide(o)
}

// askSync has the master answer when all backups hold the update: some witness does not.
func (p *Protocol) askSync(o *operation) {
	if !o.syncing {
		o.syncing = true
		p.tellMaster(o)
	}
}

func (p *Protocol) onUpdateReply(m *peerv1.Message) {
	o := p.client.operations[m.Op]
	if o == nil || o.update == nil {
		return
	}
	c := m.Curp
	if c.Refused {
		p.config.Took("update.refused")
		o.due = min(o.due, p.now.Add(p.config.Retry/4))
		return
	}
	if c.Answer != nil && (o.answer == nil || !c.Answer.Expired) {
		o.answer = c.Answer
	}
	if !c.Synced {
		p.decide(o)
		return
	}
	if o.syncing && !c.Waited && o.raw != nil {
		o.trips++ // it was asked twice
	}
	if c.Waited {
		o.trips++
	}
	p.config.Took("update.synced")
	p.client.slow++
	p.finish(o, answered(o.answer, o.trips, false))
}

// decide completes an update that the master executed, and that can't be lost any more: all witnesses have it.
func (p *Protocol) decide(o *operation) {
	need := len(p.partition.Witnesses)
	if p.mistakes.QuorumOfWitnesses {
		need = need/2 + 1
		if len(p.partition.Witnesses) == 2 {
			need = 1
		}
	}
	if o.answer == nil || o.answer.Expired || len(o.accepted) < need || o.raw == nil {
		return
	}
	p.config.Took("update.fast")
	p.client.fast++
	p.finish(o, answered(o.answer, o.trips, true))
}

// answered is the result that an answer stands for.
func answered(a *peerv1.Answer, trips int, fast bool) register.Result {
	r := register.Result{
		Status: register.OK, Value: stamp.Value(a.GetPresent(), a.GetValue()), RoundTrips: trips, Fast: fast,
		Carstamp: register.Carstamp{Timestamp: a.GetTimestamp()},
	}
	switch {
	case a.GetExpired():
		r = register.Result{Status: register.Unknown, RoundTrips: trips,
			Message: "the operation may be the duplicate of one whose answer is forgotten; it was not executed again"}
	case a.GetRefused() != "":
		r.Status, r.Message, r.Value = register.Failed, a.Refused, nil
	}
	return r
}

// finish ends an operation. What this member's own disk does not have yet, as the master, may be what the answer tells
// of.
func (p *Protocol) finish(o *operation, r register.Result) {
	o.ended = true
	delete(p.client.operations, o.op)
	durable := p.partition.Master != p.config.Self || o.update == nil && p.tellable() || r.Fast && p.speculative() ||
		p.mistakes.AnswerBeforePersist
	p.CompleteWhen(durable, o.request.Handle, r)
}

// tickClient gives up what is past its deadline, and asks again.
func (p *Protocol) tickClient() {
	cl := &p.client
	for len(cl.inFlight) > 0 && cl.inFlight[0].ended {
		cl.inFlight = cl.inFlight[1:]
	}
	for _, o := range cl.inFlight {
		switch {
		case o.ended:
		case o.request.Deadline != 0 && p.now >= o.request.Deadline:
			p.expire(o)
		case p.now >= o.due:
			o.due = p.now.Add(p.config.Retry)
			p.retransmit(o)
		}
	}
}

func (p *Protocol) retransmit(o *operation) {
	if o.update == nil {
		o.checking = false
		p.readAtMaster(o)
		return
	}
	p.config.Took("update.retry")
	if p.mistakes.NewID {
		o.update = o.update.CloneVT()
		p.mint(o.update.Command)
		o.accepted = nil
		if o.raw != nil {
			o.raw, _ = o.update.MarshalVT()
		}
	}
	o.syncing = true // someone does not answer
	p.tellMaster(o)
	p.record(o)
}

func (p *Protocol) expire(o *operation) {
	const why = "the master of the key did not answer in time"
	kind := o.request.Operation.Kind
	if o.update == nil {
		p.finish(o, base.Untaken(kind, o.trips, why))
	} else {
		p.finish(o, base.MayTake(kind, o.trips, why))
	}
}

// resume is a protocol.Resume: it holds an update's id, which the update keeps.
type resume struct {
	session, number uint64
	next            uint64 // the next number of the session that this member mints ids of
}

// Unfinished implements protocol.Machine.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	for _, o := range p.client.inFlight {
		if o.ended {
			continue
		}
		r := o.request
		r.Resume = nil
		if o.update != nil {
			c := o.update.Command
			r.Resume = resume{session: c.Session, number: c.Number, next: p.client.next}
		}
		unfinished = append(unfinished, r)
	}
	p.client.operations, p.client.inFlight = map[uint64]*operation{}, nil
	return unfinished
}

// Pending implements protocol.Machine: it counts the operations that this member is the client of.
func (p *Protocol) Pending() int { return len(p.client.operations) }
