package clients

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
	Asides  []schedule.Aside // that are left
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
func (c *Client) aside(before time.Duration, more bool) bool {
	if len(c.Asides) == 0 || more && c.Asides[0].At >= before {
		return false
	}
	w, a := c.Population, c.Asides[0]
	if a.At > w.Now {
		w.After(a.At-w.Now, c.issue)
		return true
	}
	c.Asides = c.Asides[1:]
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
func (c *Client) reborn() {
	c.session, c.rmws = c.draw.Uint64()|1, 0
	if !c.env.Regular {
		return
	}
	c.lives++
	c.Name = fmt.Sprintf("c%d.%d", c.index+1, c.lives)
	c.past, c.about = register.Past{}, ""
}

// attach has an operation that is about to be sent come after the past.
func (c *Client) attach(op *register.Operation) {
	regular := op.Regular
	c.past.Attach(op)
	op.Regular = op.Regular && regular
	c.about = op.Key
}

// tell sends a message to another client.
func (c *Client) tell(a schedule.Aside, past []byte) {
	w := c.Population
	if w.env.SessionMistakes.TellBare {
		past = nil
	}
	to := w.All[a.Whom]
	w.diagram.Remark("%s tells %s, with a past of %d", c.Name, to.Name, len(past))
	t := telling{from: c.Name, sent: w.Recorder.Stamp(), past: past, about: c.about}
	w.After(a.Delay, func() { to.told(t) })
}

// told handles a message of another client. Who is told of something looks at it.
func (c *Client) told(t telling) {
	if c.stopped {
		return
	}
	w := c.Population
	past, err := register.DecodePast(t.past, register.DefaultLimits())
	if err != nil && t.past != nil {
		w.Fail("the past that %s told %s: %w", t.from, c.Name, err)
		return
	}
	c.past.Join(&past)
	w.diagram.Remark("%s is told by %s", c.Name, t.from)
	w.Messages = append(w.Messages, history.Message{From: t.from, Sent: t.sent, To: c.Name, Received: w.Recorder.Stamp()})
	if t.about != "" {
		op := register.Operation{Kind: register.Read, Key: t.about, Regular: true}
		c.Source = &delayed{op: op, at: w.Now, then: c.Source}
		w.After(0, c.issue)
	}
}

// fence writes the past back, in as many fences as that takes, before anything else.
func (c *Client) fence(then schedule.Aside) {
	c.fencing, c.began, c.then = true, c.Recorder.Stamp(), then
	if c.env.SessionMistakes.FenceUnawaited && c.past.Len() > 0 {
		c.fenced()
		c.fencing, c.began = true, -1
	}
	c.goOnFencing()
}

func (c *Client) goOnFencing() {
	w := c.Population
	if c.past.Len() == 0 {
		c.fenced()
		w.After(0, c.issue)
		return
	}
	c.Operation = c.past.Fence()
	c.Working, c.since = true, w.Now
	w.Busy++
	w.diagram.Invoked(c.Name, c.home, c.Operation)
	c.ask(w.store.Serving(c.home))
}

// fenced notes the end of a fence.
func (c *Client) fenced() {
	w := c.Population
	c.fencing = false
	if c.began < 0 {
		return
	}
	w.Took("session.fence")
	w.Fences = append(w.Fences, history.Fence{Client: c.Name, Invoked: c.began, Returned: w.Recorder.Stamp()})
	if c.then.Kind == schedule.AsideFenceAndTell {
		c.tell(c.then, nil)
	}
	c.then = schedule.Aside{}
}

// fenceAnswered handles the outcome of an attempt at a fence. A client may give one up: then it has not been.
func (c *Client) fenceAnswered(r register.Result) {
	w := c.Population
	switch {
	case r.Status == register.OK:
		w.Took("session.fence-of-something")
	case r.Status == register.Unknown && c.draw.Chance(c.abandon):
		w.Took("session.fence-given-up")
	case r.Status == register.Unknown || r.Status == register.Unavailable:
		c.retry()
		return
	default:
		w.Fail("a fence of %s is answered %s: %s", c.Name, r.Status, r.Message)
		return
	}
	c.Working = false
	c.Attempt++
	w.Busy--
	w.diagram.Returned(c.Name, c.home, c.Operation, r)
	c.past.Learn(&c.Operation, r)
	if r.Status == register.OK {
		c.goOnFencing()
		return
	}
	c.fencing, c.then = false, schedule.Aside{}
	w.After(0, c.issue)
}

// learned notes what a session's operation has told it.
func (c *Client) learned(r register.Result) {
	if r.Depends {
		c.Took("session.depends")
	}
	c.past.Learn(&c.Operation, r)
	if r.Status == register.Unknown && c.env.SessionMistakes.DropAtFailure {
		c.past = register.Past{}
	}
}

// SessionPaths are what happens in schedules with sessions.
func SessionPaths() []string {
	return []string{
		"session.depends", "session.move", "session.die", "session.tell", "session.fence", "session.fence-of-something",
		"session.barrier",
	}
}
