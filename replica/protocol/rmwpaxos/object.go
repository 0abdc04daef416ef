package rmwpaxos

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// One batch carries the operations that wait for a key, within these bounds or those of the tuning.
const (
	batchCommands = 64
	batchBytes    = 1 << 20
)

// maxResting bounds how many keys without work a member remembers the lead or the heat of. Both only save round trips.
const maxResting = 4096

// request is an operation of a client of this member.
type request struct {
	protocol.Request
	answered bool // given up at its deadline
	trips    int  `digest:"-"` // round trips that a read has waited for before
}

// object is a key that this member proposes for.
type object struct {
	key      []byte
	queue    []*request // updates, and reads that help, that are in no batch yet
	mine     []*batch   // this member's batches in progress: one of each lane at most, and one at most that it proposes
	guests   []*batch   // of others, that have handed them over and wait
	instance *instance  // in progress
	lead     lead
	hot      protocol.Instant // until then, own batches are handed to the key's one proposer
	reads    int              // in progress
	asking   []*request       // reads that nothing was sent for yet: they begin in Ready, as one

	due    bool // is in Protocol.due
	listed bool // is in Protocol.busy
	rests  int  // counts how often it came to rest
}

// lead is what lets a proposer skip phase 1: a quorum has voted in one round and granted the next one with that, or has
// granted a round for which nothing was proposed yet.
type lead struct {
	round round // granted; zero: none
	voted round // of the chosen state below it
}

// batch is operations of one member on a key that take effect together, in their order. Its author and number are in
// the state that they led to, which is how everyone sees that they have.
type batch struct {
	author   register.Writer
	number   uint64
	commands []*peerv1.Command
	requests []*request         // of this member's: one for each command; nil where nobody waits
	left     bool               // others may know of it: it may take effect, whatever its clients are told
	trips    int                `digest:"-"`
	resuming bool               // its requests are still coming
	dropped  bool               // nobody waits for it any more
	tried    [][]*peerv1.Answer // what its proposals answer
	many     bool               // there were more of them than are kept, so that none are

	// Of this member's, while another one has it.
	to     view.MemberID
	op     uint64
	again  protocol.Instant
	giveUp protocol.Instant
	latest protocol.Instant // of giveUp
	stays  bool             // it was handed over in vain
	vain   int              // how often
	lost   base.Losses

	// Of another member's.
	from  view.MemberID
	until protocol.Instant
}

// rest is an object that came to rest.
type rest struct {
	object *object
	rests  int
}

func (p *Protocol) object(key []byte) *object {
	o := p.objects[string(key)]
	if o == nil {
		o = &object{key: slices.Clone(key)}
		p.objects[string(key)] = o
	}
	return o
}

// advanceLater has Ready look at an object.
func (p *Protocol) advanceLater(o *object) {
	if !o.due {
		o.due = true
		p.due = append(p.due, o)
	}
}

func (o *object) pending() int {
	n := len(o.queue) + len(o.mine) + len(o.guests)
	if o.instance != nil {
		n++
	}
	return n
}

// release forgets an object that has nothing to do, or remembers it as one that rests.
func (p *Protocol) release(o *object) {
	if o.pending() > 0 || o.reads > 0 || o.due || o.listed {
		return
	}
	if o.lead == (lead{}) && o.hot <= p.Now {
		p.forget(o)
		return
	}
	if n := len(p.resting); n > 0 && p.resting[n-1] == (rest{o, o.rests}) {
		return // nothing came to rest after it
	}
	o.rests++
	p.resting = append(p.resting, rest{o, o.rests})
	for len(p.resting) > cmp.Or(p.Config.Tuning.Resting, maxResting) {
		r := p.resting[0]
		p.resting = p.resting[1:]
		if x := r.object; x.rests == r.rests && x.pending() == 0 && x.reads == 0 && !x.due && !x.listed {
			p.forget(x)
		}
	}
}

// forget forgets an object, and not another one of its key: one that rested may have been forgotten before, and the key
// have work again.
func (p *Protocol) forget(o *object) {
	if p.objects[string(o.key)] == o {
		delete(p.objects, string(o.key))
	}
}

// tickObjects goes through what is proposed.
func (p *Protocol) tickObjects() {
	busy := p.busy
	p.busy = nil
	for _, o := range busy {
		o.listed = false
		p.tickObject(o)
		if o.pending() > 0 {
			p.list(o)
		}
		p.release(o)
	}
}

// list has ticks look at an object.
func (p *Protocol) list(o *object) {
	if !o.listed {
		o.listed = true
		p.busy = append(p.busy, o)
	}
}

func (p *Protocol) tickObject(o *object) {
	o.queue = slices.DeleteFunc(o.queue, func(r *request) bool { return p.expire(r, false) })
	for _, b := range slices.Clone(o.mine) {
		b.resuming = false
		waits := false
		for k, r := range b.requests {
			switch {
			case r == nil:
			case !p.expire(r, b.left):
				waits = true
			case !b.left:
				b.commands[k] = &peerv1.Command{Function: noCommand} // its client was told that it takes no effect
			}
		}
		if !waits {
			p.drop(o, b)
		}
	}
	for _, b := range slices.Clone(o.guests) {
		if p.Now >= b.until {
			p.drop(o, b)
		}
	}
	for _, b := range o.mine {
		if b.to != 0 {
			p.tickHanded(o, b)
		}
	}
	if d := o.instance; d != nil {
		p.tickInstance(o, d)
	}
	p.advanceLater(o)
}

// drop forgets a batch for which nobody waits. What it led to may still be agreed on.
func (p *Protocol) drop(o *object, b *batch) {
	o.remove(b)
	o.guests = slices.DeleteFunc(o.guests, func(g *batch) bool { return g == b })
	b.dropped = true
	d := o.instance
	if d == nil {
		return
	}
	gone := func(b *batch) bool { return b.dropped }
	if d.stage != voting { // in a proposal, it has its place
		d.batches = slices.DeleteFunc(d.batches, gone)
	}
	if !slices.ContainsFunc(d.batches, func(b *batch) bool { return !gone(b) }) {
		o.instance, o.lead = nil, lead{}
	}
}

// remove takes a batch of this member's out: it is over.
func (o *object) remove(b *batch) {
	o.mine = slices.DeleteFunc(o.mine, func(m *batch) bool { return m == b })
}

// isMine reports whether a batch is of this member, and not over.
func (o *object) isMine(b *batch) bool { return slices.Contains(o.mine, b) }

// expire ends a request whose deadline has passed, and reports whether it has ended. What has left this member may take
// effect yet.
func (p *Protocol) expire(r *request, left bool) bool {
	if r.answered || !p.Late(&r.Request) {
		return r.answered
	}
	r.answered = true
	p.GiveUp(&r.Request, (left || r.Resume != nil) && r.Operation.Kind != register.Read, 0, p.NoQuorum())
	return true
}

// lanes is how many batches of a key a member may have in progress. Where another one proposes for all, the next batch
// need not wait until the one before has come back. A lane has an author of its own, whose batches follow each other,
// so that the number of the last one is enough to recognise it.
const lanes = 8

// freeLane is the author of the first lane that no batch is in; false: there is none.
func (p *Protocol) freeLane(o *object) (register.Writer, bool) {
	for k := range register.Writer(lanes) {
		if !slices.ContainsFunc(o.mine, func(b *batch) bool { return b.author == p.author+k }) {
			return p.author + k, true
		}
	}
	return 0, false
}

// takeBatch makes a batch of what waits, unless one of this member's waits here, too, or all lanes are in use.
func (p *Protocol) takeBatch(o *object) {
	author, free := p.freeLane(o)
	if !free || len(o.queue) == 0 || slices.ContainsFunc(o.mine, func(b *batch) bool { return b.to == 0 }) {
		return
	}
	size, n, most := 0, 0, cmp.Or(p.Config.Tuning.Batch, batchCommands)
	for n < len(o.queue) && n < most && size < batchBytes {
		size += len(o.queue[n].Operation.Value)
		for _, a := range o.queue[n].Operation.Call.Args {
			size += len(a)
		}
		n++
	}
	p.nextHand++
	b := &batch{author: author, number: p.nextHand, requests: o.queue[:n:n]}
	for _, r := range b.requests {
		op := r.Operation
		if p.options.AtLeastOnce {
			op.ID = register.ID{} // nobody looks for duplicates
		}
		b.commands = append(b.commands, command(op))
	}
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil // an object that rests keeps no request
	}
	o.mine = append(o.mine, b)
}

// Names of commands that are no rmws: those have a version.
const (
	readCommand  = "read"
	writeCommand = "write" // its argument is the value; without one, it deletes
	noCommand    = "none"  // its request has ended
)

func command(op register.Operation) *peerv1.Command {
	switch op.Kind {
	case register.Read:
		return &peerv1.Command{Function: readCommand}
	case register.Write:
		c := &peerv1.Command{Function: writeCommand}
		if op.Value.Present() {
			c.Args = [][]byte{op.Value}
		}
		return c
	}
	return wire.Command(op)
}
