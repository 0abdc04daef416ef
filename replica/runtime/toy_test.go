package runtime

import (
	"errors"
	"strconv"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// toy is a protocol that needs all of a world and little else: the coordinator of a write stores it, tells
// everybody, and answers once a majority has it on disk. Reads are local. Poison keys do what no protocol
// should.
type toy struct {
	config  protocol.Config
	journal *protocol.Journal
	now     protocol.Instant
	next    uint64
	writes  map[uint64]*toyWrite
	effects protocol.Effects
	true    protocol.Interval // the latest that the world told
}

type toyWrite struct {
	op       uint64
	request  protocol.Request
	answered map[view.MemberID]bool
	asked    protocol.Instant
}

func newToy(config protocol.Config, journal *protocol.Journal) *toy {
	return &toy{config: config, journal: journal, writes: map[uint64]*toyWrite{}}
}

var (
	_ protocol.Joiner = (*toy)(nil)
	_ protocol.Timed  = (*toy)(nil)
)

func (p *toy) TrueTime(t protocol.Interval) { p.true = t }

func (p *toy) Voter() bool { return true }

func (p *toy) Incarnation() view.Incarnation { return 1 }

func (p *toy) Change() protocol.Change { return protocol.Change{} }

func (p *toy) Doubted() bool { return false }

func (p *toy) Pace(_, _ time.Duration) {}

func (p *toy) Pending() int { return 0 }

func (p *toy) Unfinished() []protocol.Request { return nil }

func (p *toy) Submit(r protocol.Request) {
	switch {
	case r.Operation.Key == "panic":
		panic("poison")
	case r.Operation.Key == "fault":
		p.effects.Fault = errors.New("a fault of its own")
	case r.Operation.Key == "parts": // the true time, its earliest first
		for i, moment := range []int64{p.true.Earliest, p.true.Latest} {
			p.effects.Complete = append(p.effects.Complete,
				protocol.Completion{Handle: r.Handle, Result: register.Result{
					Status: register.OK, More: i == 0, Value: register.Value(strconv.FormatInt(moment, 10)),
				}})
		}
	case r.Operation.Kind == register.Read:
		value, ok := p.journal.Get([]byte(r.Operation.Key))
		result := register.Result{Status: register.OK, Fast: true}
		if ok {
			result.Value = value
		}
		p.effects.CompleteAfterPersist = append(p.effects.CompleteAfterPersist,
			protocol.Completion{Handle: r.Handle, Result: result})
	default:
		p.journal.Put([]byte(r.Operation.Key), r.Operation.Value)
		p.next++
		w := &toyWrite{op: p.next, request: r, answered: map[view.MemberID]bool{p.config.Self: true}}
		p.writes[w.op] = w
		p.ask(w)
		p.finish(w)
	}
}

func (p *toy) ask(w *toyWrite) {
	w.asked = p.now
	for _, id := range p.config.Nearest {
		if !w.answered[id] {
			p.effects.Send = append(p.effects.Send, protocol.Envelope{To: id, Message: &peerv1.Message{
				Kind: peerv1.Kind_WRITE2, Op: w.op, Key: []byte(w.request.Operation.Key),
				Value: w.request.Operation.Value,
			}})
		}
	}
}

func (p *toy) Receive(from view.MemberID, m *peerv1.Message) {
	if m.Kind == peerv1.Kind_WRITE2 {
		p.journal.Put(m.Key, m.Value)
		p.effects.SendAfterPersist = append(p.effects.SendAfterPersist, protocol.Envelope{
			To: from, Message: &peerv1.Message{Kind: peerv1.Kind_WRITE2_REPLY, Op: m.Op},
		})
		return
	}
	if w := p.writes[m.Op]; w != nil {
		w.answered[from] = true
		p.finish(w)
	}
}

func (p *toy) finish(w *toyWrite) {
	if len(w.answered) >= p.config.View.Majority() {
		p.complete(w, register.Result{Status: register.OK, RoundTrips: 1})
	}
}

func (p *toy) complete(w *toyWrite, result register.Result) {
	delete(p.writes, w.op)
	p.effects.CompleteAfterPersist = append(p.effects.CompleteAfterPersist,
		protocol.Completion{Handle: w.request.Handle, Result: result})
}

func (p *toy) Tick(now protocol.Instant) {
	p.now = now
	for op := uint64(1); op <= p.next; op++ {
		switch w := p.writes[op]; {
		case w == nil:
		case w.request.Deadline != 0 && now >= w.request.Deadline:
			p.complete(w, register.Result{Status: register.Unknown, Message: "too late"})
		case now.Sub(w.asked) >= p.config.Retry:
			p.ask(w)
		}
	}
}

func (p *toy) Ready() protocol.Effects {
	e := p.effects
	p.effects = protocol.Effects{}
	e.Persist = p.journal.Take()
	return e
}
