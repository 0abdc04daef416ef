package clients

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// session is what the ids of operations are of. It acknowledges the outcomes of those before its first one in progress;
// one whose outcome stays unknown is not acknowledged.
type session struct {
	id, last uint64
	open     []uint64 // numbers, ascending
	home     int
	clients  int // whose it is
}

// join is the session of a client that comes to a site: its own, or that of one before it there.
func (p *Population) join(home int, id uint64) *session {
	for _, c := range p.All {
		if s := c.session; s.home == home && s.clients < p.env.InFlight {
			s.clients++
			return s
		}
	}
	return &session{id: id, home: home, clients: 1}
}

// next is the id of a new operation.
func (s *session) next() register.ID {
	s.last++
	s.open = append(s.open, s.last)
	return register.ID{Session: s.id, Number: s.last, FirstIncomplete: s.open[0]}
}

// end notes that the outcome of an operation is known.
func (s *session) end(number uint64) {
	s.open = slices.DeleteFunc(s.open, func(n uint64) bool { return n == number })
}

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

// keys are those of every simulated cluster.
var keys = func() *proof.Keys {
	keys, err := proof.Parse([]byte(strings.Repeat("0123456789abcdef", 4)), "simulated")
	if err != nil {
		panic(err)
	}
	return keys
}()

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
	a := c.Asides[0]
	if a.At > c.Now {
		c.After(a.At-c.Now, c.issue)
		return true
	}
	c.Asides = c.Asides[1:]
	switch a.Kind {
	case schedule.AsideMove:
		c.Took("session.move")
		c.home = a.Whom
	case schedule.AsideDie:
		c.Took("session.die")
		c.reborn()
	case schedule.AsideTell, schedule.AsideHand:
		c.Took("session.tell")
		c.past.Prove(keys.Prove)
		c.tell(a, c.past.Encode())
	case schedule.AsideFence:
		c.fence(schedule.Aside{})
		return true
	case schedule.AsideFenceAndTell:
		c.fence(a)
		return true
	}
	c.After(0, c.issue)
	return true
}

// reborn has another client come in the place of this one.
func (c *Client) reborn() {
	c.session.clients--
	c.session = &session{id: c.draw.Uint64() | 1, clients: c.env.InFlight}
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
	to := c.All[a.Whom]
	c.diagram.Remark("%s tells %s, with a past of %d", c.Name, to.Name, len(past))
	t := telling{from: c.Name, sent: c.Recorder.Stamp(), past: past, about: c.about}
	if a.Kind == schedule.AsideHand {
		t.about = ""
	}
	c.After(a.Delay, func() { to.told(t) })
}

// told handles a message of another client. Who is told of something looks at it.
func (c *Client) told(t telling) {
	if c.stopped {
		return
	}
	past, err := register.DecodePast(t.past, register.DefaultLimits())
	if err == nil {
		err = past.Check(keys.Check)
	}
	if err != nil && t.past != nil {
		c.Fail("the past that %s told %s: %w", t.from, c.Name, err)
		return
	}
	c.past.Join(&past)
	c.diagram.Remark("%s is told by %s", c.Name, t.from)
	c.Messages = append(c.Messages, history.Message{From: t.from, Sent: t.sent, To: c.Name, Received: c.Recorder.Stamp()})
	if t.about != "" {
		op := register.Operation{Kind: register.Read, Key: t.about, Regular: true}
		c.Source = &delayed{op: op, at: c.Now, then: c.Source}
		c.After(0, c.issue)
	}
}

// fence writes the past back, in as many fences as that takes, before anything else.
func (c *Client) fence(then schedule.Aside) {
	c.fencing, c.began, c.then = true, c.Recorder.Stamp(), then
	c.goOnFencing()
}

func (c *Client) goOnFencing() {
	if c.past.Len() == 0 {
		c.fenced()
		c.After(0, c.issue)
		return
	}
	c.begin(c.past.Fence())
	c.diagram.Invoked(c.Name, c.home, c.Operation)
	c.ask(c.store.Serving(c.home))
}

// fenced notes the end of a fence.
func (c *Client) fenced() {
	c.fencing = false
	c.Took("session.fence")
	c.Fences = append(c.Fences, history.Fence{Client: c.Name, Invoked: c.began, Returned: c.Recorder.Stamp()})
	if c.then.Kind == schedule.AsideFenceAndTell {
		c.tell(c.then, nil)
	}
	c.then = schedule.Aside{}
}

// fenceAnswered handles the outcome of an attempt at a fence. A client may give one up: then it has not been.
func (c *Client) fenceAnswered(r register.Result) {
	switch {
	case r.Status == register.OK:
		c.Took("session.fence-of-something")
	case r.Status == register.Unknown && c.draw.Chance(c.abandon):
		c.Took("session.fence-given-up")
	case r.Status == register.Unknown || r.Status == register.Unavailable:
		c.retry()
		return
	default:
		c.Fail("a fence of %s is answered %s: %s", c.Name, r.Status, r.Message)
		return
	}
	c.end(r)
	c.past.Learn(&c.Operation, r)
	if r.Status == register.OK {
		c.goOnFencing()
		return
	}
	c.fencing, c.then = false, schedule.Aside{}
	c.After(0, c.issue)
}

// learned notes what a session's operation has told it.
func (c *Client) learned(r register.Result) {
	if r.Depends {
		c.Took("session.depends")
	}
	c.past.Learn(&c.Operation, r)
}
