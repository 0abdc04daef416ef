package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// causal is what a client of a regular protocol keeps beside its operations (Regular Sequential Consistency, section
// 7.1). Clients do with it what the Go client does.
type causal struct {
	past    register.Past
	asides  []schedule.Aside // that are left
	lives   int              // how many clients there were in this place, the first not counted
	fencing bool             // the operation in progress is a fence
	began   time.Duration
	then    schedule.Aside // what comes after the fence
	about   string         // the key of its last operation
}

// telling is a message of one client to another one, outside of the store.
type telling struct {
	from  string
	sent  time.Duration
	past  []byte // nil if there was a fence instead
	about string // a key
}

// aside does what comes before the next operation, which is due at a time, if anything does.
func (c *client) aside(before time.Duration, more bool) bool {
	if len(c.asides) == 0 || more && c.asides[0].At >= before {
		return false
	}
	w, a := c.world, c.asides[0]
	if a.At > w.Now {
		w.After(a.At-w.Now, c.issue)
		return true
	}
	c.asides = c.asides[1:]
	switch a.Kind {
	case schedule.AsideMove:
		w.Took("session.move")
		c.home = a.Whom
		if w.env.SessionMistakes.DropAtMove {
			c.past = register.Past{}
		}
	case schedule.AsideDie:
		w.Took("session.die")
		c.reborn()
	case schedule.AsideTell:
		w.Took("session.tell")
		c.tell(a, c.past.Encode())
	case schedule.AsideFence:
		c.fence(schedule.Aside{})
		return true
	case schedule.AsideFenceAndTell:
		if w.env.SessionMistakes.TellBare {
			c.tell(a, nil)
			break
		}
		c.fence(a)
		return true
	}
	w.After(0, c.issue)
	return true
}

// reborn has another client come in the place of this one.
func (c *client) reborn() {
	c.session, c.rmws = c.draw.Uint64()|1, 0
	if !c.world.env.Regular {
		return
	}
	c.lives++
	c.name = fmt.Sprintf("c%d.%d", c.index+1, c.lives)
	c.past, c.about = register.Past{}, ""
}

// attach has an operation that is about to be sent come after the past.
func (c *client) attach(op *register.Operation) {
	regular := op.Regular
	c.past.Attach(op)
	op.Regular = op.Regular && regular
	c.about = op.Key
}

// tell sends a message to another client.
func (c *client) tell(a schedule.Aside, past []byte) {
	w := c.world
	if w.env.SessionMistakes.TellBare {
		past = nil
	}
	to := w.clients[a.Whom]
	w.trace.Remark("%s tells %s, with a past of %d", c.name, to.name, len(past))
	t := telling{from: c.name, sent: w.recorder.Stamp(), past: past, about: c.about}
	w.After(a.Delay, func() { to.told(t) })
}

// told handles a message of another client. Who is told of something looks at it.
func (c *client) told(t telling) {
	if c.stopped {
		return
	}
	w := c.world
	past, err := register.DecodePast(t.past, register.DefaultLimits())
	if err != nil && t.past != nil {
		w.Fail("the past that %s told %s: %w", t.from, c.name, err)
		return
	}
	c.past.Join(&past)
	w.trace.Remark("%s is told by %s", c.name, t.from)
	w.messages = append(w.messages, history.Message{From: t.from, Sent: t.sent, To: c.name, Received: w.recorder.Stamp()})
	if t.about != "" {
		op := register.Operation{Kind: register.Read, Key: t.about, Regular: true}
		c.source = &delayed{op: op, at: w.Now, then: c.source}
		w.After(0, c.issue)
	}
}

// fence writes the past back, in as many fences as that takes, before anything else.
func (c *client) fence(then schedule.Aside) {
	c.fencing, c.began, c.then = true, c.world.recorder.Stamp(), then
	if c.world.env.SessionMistakes.FenceUnawaited && c.past.Len() > 0 {
		c.fenced()
		c.fencing, c.began = true, -1
	}
	c.goOnFencing()
}

func (c *client) goOnFencing() {
	w := c.world
	if c.past.Len() == 0 {
		c.fenced()
		w.After(0, c.issue)
		return
	}
	c.operation = c.past.Fence()
	c.working, c.since = true, w.Now
	w.Busy++
	w.trace.Invoked(c.name, c.home, c.operation)
	c.ask(w.serving[c.home].index)
}

// fenced notes the end of a fence.
func (c *client) fenced() {
	w := c.world
	c.fencing = false
	if c.began < 0 {
		return
	}
	w.Took("session.fence")
	w.fences = append(w.fences, history.Fence{Client: c.name, Invoked: c.began, Returned: w.recorder.Stamp()})
	if c.then.Kind == schedule.AsideFenceAndTell {
		c.tell(c.then, nil)
	}
	c.then = schedule.Aside{}
}

// fenceAnswered handles the outcome of an attempt at a fence. A client may give one up: then it has not been.
func (c *client) fenceAnswered(r register.Result) {
	w := c.world
	switch {
	case r.Status == register.OK:
		w.Took("session.fence-of-something")
	case r.Status == register.Unknown && c.draw.Chance(c.abandon):
		w.Took("session.fence-given-up")
	case r.Status == register.Unknown || r.Status == register.Unavailable:
		c.retry()
		return
	default:
		w.Fail("a fence of %s is answered %s: %s", c.name, r.Status, r.Message)
		return
	}
	c.working = false
	c.attempt++
	w.Busy--
	w.trace.Returned(c.name, c.home, c.operation, r)
	c.past.Learn(&c.operation, r)
	if r.Status == register.OK {
		c.goOnFencing()
		return
	}
	c.fencing, c.then = false, schedule.Aside{}
	w.After(0, c.issue)
}

// learned notes what a session's operation has told it.
func (c *client) learned(r register.Result) {
	if r.Depends {
		c.world.Took("session.depends")
	}
	c.past.Learn(&c.operation, r)
	if r.Status == register.Unknown && c.world.env.SessionMistakes.DropAtFailure {
		c.past = register.Past{}
	}
}
