package curp

import (
	"cmp"
	"errors"

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

// requestID names a request across retries (RIFL).
type requestID struct{ session, number uint64 }

func idOf(c *peerv1.Command) requestID { return requestID{c.GetSession(), c.GetNumber()} }

// collection is the garbage collection at the witnesses of a term (section 4.5): they drop the requests that are
// synced, since a record that stays costs its key the fast path.
type collection struct {
	*member
	outboxes []*outbox // one for each witness
}

// outbox holds what one witness is to drop. One message is under way at a time, and repeated until it is answered.
type outbox struct {
	witness view.MemberID
	waiting []*witnessv1.Drop
	sent    []*witnessv1.Drop // in the message that is under way; nil: none is
	op      uint64            // of that message
	due     protocol.Instant  // when it is repeated
}

func (c *collection) begin() {
	for _, id := range c.partition.Witnesses {
		c.outboxes = append(c.outboxes, &outbox{witness: id})
	}
}

// drop has the witnesses drop a request. It names the key and the request: the key's slot may hold another one by now.
func (c *collection) drop(key []byte, id requestID) {
	d := &witnessv1.Drop{Hash: register.Hash(key), Id: &witnessv1.ID{Session: id.session, Number: id.number}}
	for _, o := range c.outboxes {
		if len(o.waiting) < dropsWaiting {
			o.waiting = append(o.waiting, d)
		}
	}
}

// tick repeats what is not answered, and sends what waits.
func (c *collection) tick() {
	for _, o := range c.outboxes {
		if len(o.sent) > 0 && c.Now >= o.due {
			c.sendTo(o)
		}
	}
	c.flush()
}

// flush sends what waits.
func (c *collection) flush() {
	for _, o := range c.outboxes {
		if len(o.sent) == 0 && len(o.waiting) > 0 {
			n := min(len(o.waiting), cmp.Or(c.Config.Tuning.Batch, dropsAtOnce))
			o.sent, o.waiting = o.waiting[:n:n], o.waiting[n:]
			o.op = c.Op()
			c.sendTo(o)
		}
	}
}

func (c *collection) sendTo(o *outbox) {
	o.due = c.Now.Add(c.Config.Retry)
	c.ask(o.witness, &witnessv1.Message{Kind: witnessv1.Kind_GC, Op: o.op, Term: c.partition.Term, Drops: o.sent})
}

// onReply notes that a witness has dropped what it was told to, and returns what it suspects to be garbage. It reports
// whether the answer counts.
func (c *collection) onReply(from view.MemberID, w *witnessv1.Message) (suspects []*peerv1.Request, counts bool) {
	if w.Term != c.partition.Term || w.Start != 0 {
		return nil, false // in the latter case it is asked again
	}
	for _, o := range c.outboxes {
		if o.witness == from && o.op == w.Op {
			o.sent = nil
		}
	}
	for _, saved := range w.Requests {
		if r, err := decodeSaved(saved); err == nil {
			suspects = append(suspects, r)
		}
	}
	return suspects, true
}

// decodeSaved is a request as a witness saved it.
func decodeSaved(saved *witnessv1.Request) (*peerv1.Request, error) {
	r := &peerv1.Request{}
	if err := r.UnmarshalVT(saved.Request); err != nil {
		return nil, err
	}
	if r.Command == nil {
		return nil, errors.New("it has no id")
	}
	return r, nil
}
