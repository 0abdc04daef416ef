package explorer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/digest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// disk is what a member has made durable, in the order of the keys. Records never change.
type disk struct{ records []protocol.Mutation }

func (d *disk) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(d.records, string(key), func(m protocol.Mutation, key string) int {
		return strings.Compare(string(m.Key), key)
	})
}

// Get implements protocol.Reader.
func (d *disk) Get(key []byte) ([]byte, bool) {
	at, found := d.find(key)
	if !found {
		return nil, false
	}
	return d.records[at].Value, true
}

// Scan implements protocol.Reader.
func (d *disk) Scan(after []byte, visit func(key, value []byte) bool) {
	at, found := d.find(after)
	if found {
		at++
	}
	for _, m := range d.records[at:] {
		if !visit(m.Key, m.Value) {
			return
		}
	}
}

func (d *disk) write(b protocol.Batch) {
	for _, m := range b.Mutations {
		switch at, found := d.find(m.Key); {
		case m.Value == nil && found:
			d.records = slices.Delete(d.records, at, at+1)
		case m.Value == nil:
		case found:
			d.records[at].Value = m.Value
		default:
			d.records = slices.Insert(d.records, at, m)
		}
	}
}

// process is a member or the witness, which runs, or is down, in one of its local states. It is given inputs one by
// one.
type process struct {
	known    *locals
	member   int
	view     uint32 // that it was told, by its position
	boot     uint32
	disk     *disk
	now      protocol.Instant
	journal  *protocol.Journal
	protocol protocol.Protocol // nil: it is down
	batches  []protocol.Batch  // that are not durable yet
	waiting  []waiting
	step     transition // what the present input leads to
}

// waiting is what may leave once a batch is durable.
type waiting struct {
	sequence uint64
	sent     []uint32
	ended    []ending
}

// begin is the clock of a member when it starts. It is far from zero, which stands for no time.
const begin = protocol.Instant(1000 * time.Hour)

// do gives the process an input.
func (p *process) do(in choice) {
	p.step = transition{}
	switch in.kind() {
	case start:
		if p.start(false, 0); p.step.fault != nil {
			return
		}
	case tell:
		if p.goOn(in.argument()); p.step.fault != nil {
			return
		}
	case deliver:
		m := &peerv1.Message{}
		sent := &p.known.messages[in.argument()]
		if err := m.UnmarshalVT(sent.wire); err != nil {
			p.step.fault = fmt.Errorf("a message can't be decoded: %w", err)
			return
		}
		p.protocol.Receive(view.MemberID(sent.from+1), m)
	case invoke:
		p.protocol.Tick(p.now)
		r := &p.known.requests[in.argument()]
		p.protocol.Submit(protocol.Request{Handle: uint64(r.operation) + 1, Operation: r.request})
	case persist:
		p.persist()
		if !p.known.scope.Partitioned {
			return
		}
	case timeout, takeover:
		wait := retry
		if in.kind() == takeover {
			wait = suspect
		}
		p.now = p.now.Add(wait)
		if p.protocol == nil {
			return
		}
		p.protocol.Tick(p.now)
	case crash:
		p.protocol, p.journal, p.batches, p.waiting = nil, nil, nil, nil
		switch {
		case !p.known.scope.Partitioned:
			p.now = 0
		case p.known.witnesses(p.member):
			p.view = 0 // the order to begin a life may not be durable
		}
		return
	}
	if p.known.scope.Partitioned { // as worlds do before the next input
		p.protocol.Tick(p.now)
	}
	p.ready()
}

// start starts the protocol of the view that the process was told. One that goes on from another view says until when
// promises may hold that it made.
func (p *process) start(goesOn bool, promised protocol.Instant) {
	known := p.known
	p.boot++
	p.now = max(p.now, begin)
	p.journal = protocol.NewJournal(p.disk)
	config := protocol.Config{
		Self: view.MemberID(p.member + 1), View: known.views[p.view], Boot: p.boot, Functions: known.functions,
		Limits: register.DefaultLimits(), Retry: retry, Suspect: suspect, Seed: uint64(p.member + 1),
		Nonce: uint64(p.member+1)<<32 | uint64(p.boot), Bootstrap: true, Undoubted: true,
		Faults: known.scope.Tolerance, Sync: sync, Continued: goesOn, Promised: promised,
	}
	for i := 1; i < known.scope.Members; i++ { // nearest is the next one
		config.Nearest = append(config.Nearest, view.MemberID((p.member+i)%known.scope.Members+1))
	}
	begin := known.scope.Start
	if known.witnesses(p.member) {
		begin = startWitness
	}
	started, err := begin(config, p.journal)
	if err != nil {
		p.step.fault = fmt.Errorf("it does not start: %w", err)
		return
	}
	p.protocol = started
	started.Tick(p.now)
}

// goOn has a member go on in another view, as the runtime does: what was done in the one before becomes durable, and
// the operations that are left go on. A witness begins a life.
func (p *process) goOn(position uint32) {
	p.view = position
	if w, is := p.protocol.(*witness); is {
		w.order(p.known.views[position])
		return
	}
	for len(p.batches) > 0 {
		p.persist()
	}
	left, promised := p.protocol.Unfinished(), p.protocol.(protocol.Partitioned).Promised()
	if p.start(true, promised); p.step.fault != nil {
		return
	}
	for _, r := range left {
		p.protocol.Submit(r)
	}
}

// ready does what the protocol asks for after an input.
func (p *process) ready() {
	e := p.protocol.Ready()
	if e.Fault != nil {
		p.step.fault = e.Fault
		return
	}
	p.release(p.out(e.Send, e.Complete))
	if e.Persist.Sequence != 0 {
		p.batches = append(p.batches, e.Persist)
	}
	sent, ended := p.out(e.SendAfterPersist, e.CompleteAfterPersist)
	if len(p.batches) == 0 {
		p.release(sent, ended)
		return
	}
	if len(sent)+len(ended) > 0 {
		p.waiting = append(p.waiting, waiting{p.batches[len(p.batches)-1].Sequence, sent, ended})
	}
	for p.known.scope.AtOnce && len(p.batches) > 0 {
		p.persist()
	}
}

// persist makes the oldest batch durable, and lets go what waited for it.
func (p *process) persist() {
	b := p.batches[0]
	p.batches = p.batches[1:]
	p.disk.write(b)
	p.journal.Persisted(b.Sequence)
	for len(p.waiting) > 0 && p.waiting[0].sequence <= b.Sequence {
		p.release(p.waiting[0].sent, p.waiting[0].ended)
		p.waiting = p.waiting[1:]
	}
}

func (p *process) release(sent []uint32, ended []ending) {
	p.step.sent, p.step.ended = append(p.step.sent, sent...), append(p.step.ended, ended...)
}

// out numbers what leaves. Messages go through their wire format, so that no member can reach into another's memory.
func (p *process) out(sends []protocol.Envelope, completions []protocol.Completion) (sent []uint32, ended []ending) {
	for _, e := range sends {
		if to := int(e.To) - 1; to >= 0 && to < p.known.processes() && to != p.member {
			wire, err := e.Message.MarshalVT()
			if err != nil {
				p.step.fault = fmt.Errorf("encode a %s: %w", e.Message.Kind, err)
				continue
			}
			n := p.known.message(p.member, to, wire)
			p.known.messages[n].learns = p.learns(&e)
			sent = append(sent, n)
		}
	}
	for _, c := range completions {
		if !c.Result.More {
			ended = append(ended, ending{uint32(c.Handle - 1), p.known.result(c.Result)})
		}
	}
	return sent, ended
}

// image is what tells local states of a member apart.
type image struct {
	member   int
	view     uint32
	boot     uint32
	now      protocol.Instant
	disk     *disk
	protocol protocol.Protocol
	batches  []protocol.Batch
	waiting  []waiting
}

// digest tells the local state apart. The absolute time counts with masters alone.
func (p *process) digest() digest.State { return p.with(p.waiting) }

// mind is the digest of the local state but for what waits for batches, on which nothing depends that the member does.
func (p *process) mind() digest.State { return p.with(nil) }

func (p *process) with(waiting []waiting) digest.State {
	now := p.now
	if p.known.scope.Partitioned {
		now = 0
	}
	return p.known.digester.Of(&image{p.member, p.view, p.boot, p.now, p.disk, p.protocol, p.batches, waiting}, now)
}
