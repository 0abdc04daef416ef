package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const (
	dropsAtOnce  = 1 << 10 // in one message
	dropsWaiting = 1 << 14 // what is above is found by the witness, as garbage
)

// outbox is what a witness is to drop (section 4.5). One message is under way at a time, and repeated until it is
// answered: a record that stays costs its key the fast path.
type outbox struct {
	witness view.MemberID
	waiting []dropped
	flying  []dropped
	op      uint64
	due     protocol.Instant
}

type dropped struct {
	hash uint64
	id   requestID
}

// requestID names a request across retries (RIFL).
type requestID struct{ session, number uint64 }

func idOf(c *peerv1.Command) requestID { return requestID{c.GetSession(), c.GetNumber()} }

// drop has the witnesses drop a request that is synced. It names the key and the request: the key's slot may hold
// another one by now.
func (p *Protocol) drop(key []byte, id requestID) {
	for _, o := range p.outboxes {
		if len(o.waiting) < dropsWaiting {
			o.waiting = append(o.waiting, dropped{register.Hash(key), id})
		}
	}
}

func (p *Protocol) flushGC() {
	for _, o := range p.outboxes {
		if len(o.flying) == 0 && len(o.waiting) > 0 {
			n := min(len(o.waiting), dropsAtOnce)
			o.flying, o.waiting = o.waiting[:n:n], o.waiting[n:]
			o.op = p.Op()
			p.sendGC(o)
		}
	}
}

func (p *Protocol) sendGC(o *outbox) {
	o.due = p.now.Add(p.config.Retry)
	w := &witnessv1.Message{Kind: witnessv1.Kind_GC, Op: o.op, Term: p.partition.Term}
	for _, d := range o.flying {
		w.Drops = append(w.Drops, &witnessv1.Drop{Hash: d.hash, Id: &witnessv1.ID{Session: d.id.session, Number: d.id.number}})
		if p.mistakes.DropByHash {
			w.Drops = append(w.Drops, p.dropAll(d.hash)...)
		}
	}
	p.ask(o.witness, w)
}

// dropAll names all requests for a hash: for a mistake.
func (p *Protocol) dropAll(h uint64) (drops []*witnessv1.Drop) {
	for _, e := range p.store.Behind(0) {
		if register.Hash(e.Key) == h && e.Session != 0 {
			drops = append(drops, &witnessv1.Drop{Hash: h, Id: &witnessv1.ID{Session: e.Session, Number: e.Number}})
		}
	}
	return drops
}

func (p *Protocol) tickGC() {
	for _, o := range p.outboxes {
		if len(o.flying) > 0 && p.now >= o.due {
			p.sendGC(o)
		}
	}
	p.flushGC()
}

// onGCReply executes what a witness suspects to be garbage: its client may have gone before the master heard of it, or
// its record came after the others were dropped. Executed once and synced, it can be dropped (section 4.5).
func (p *Protocol) onGCReply(from view.MemberID, w *witnessv1.Message) {
	if w.Term != p.partition.Term || w.Start != 0 {
		return // in the latter case it is asked again
	}
	for _, o := range p.outboxes {
		if o.witness == from && o.op == w.Op {
			o.flying = nil
		}
	}
	if !p.serving {
		return // it will be suspected again
	}
	executed := false
	for _, saved := range w.Requests {
		r := &peerv1.Request{}
		if err := r.UnmarshalVT(saved.Request); err != nil || r.Command == nil {
			continue
		}
		p.config.Took("gc.garbage")
		if p.execute(r, true) != nil {
			executed = true
			continue
		}
		if u := p.master.unsynced[idOf(r.Command)]; u == nil {
			p.drop(r.Key, idOf(r.Command))
		}
	}
	if executed {
		p.sync()
	}
	p.flushGC()
}
