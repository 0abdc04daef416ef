package clients

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Source gives a client its operations: the next one and the time before which it does not start, or false
// if there is none.
type Source interface {
	Next(now time.Duration) (op register.Operation, at time.Duration, ok bool)
}

// Client has one operation in progress at a time. It asks the replica at its site; after a failure, the next.
//
// A read may be asked again anywhere. A write is asked again only if it certainly had no effect: replicas
// can't recognise a second attempt. An rmw is asked again under the same ID, which they do recognise, unless the
// client is anonymous, as those of the Redis listener are. Several of a site may be one session
// (schedule.Environment.InFlight), which has as many operations in progress then.
type Client struct {
	*Population
	index   int
	Name    string
	home    int
	session *session
	Source  Source
	// abandon is how many in 1000 rmws the client gives up when an attempt's outcome is unknown, as if it had
	// died and another client, of another session, came in its place.
	abandon int
	draw    kernel.Stream
	// Finished is told every operation that has ended.
	Finished func(history.Operation)

	Working    bool
	since      time.Duration // when the operation began
	Operation  register.Operation
	invocation history.Invocation
	Attempt    uint32 // of all operations; answers to earlier ones are ignored
	Target     int    // the node that the attempt is at
	arrived    bool   // the attempt reached the target's process
	stopped    bool   // there is nothing more for it to do

	causal // of a regular protocol
}

// maxRMWArgument bounds what an rmw may make of a value in the simulator.
const maxRMWArgument = 1 << 20

// Add makes a client at a site.
func (p *Population) Add(home int, s Source, abandon int) *Client {
	c := &Client{
		Population: p, index: len(p.All), home: home, Source: s, abandon: abandon,
		draw: p.Draws(kernel.ForClient, uint64(len(p.All))),
	}
	c.Name = fmt.Sprintf("c%d", c.index+1)
	c.session = p.join(home, c.draw.Uint64()|1)
	p.All = append(p.All, c)
	p.After(0, c.issue)
	return c
}

// issue starts the next operation if its time has come.
func (c *Client) issue() {
	if c.Working || c.stopped {
		return
	}
	if d, ok := c.Source.(*delayed); ok && d.done {
		c.Source = d.then
	}
	op, at, ok := c.Source.Next(c.Now)
	switch {
	case c.aside(at, ok):
		if ok {
			c.Source = &delayed{op: op, at: at, then: c.Source}
		}
		return
	case !ok:
		c.stopped = true
		return
	case c.past.Full():
		c.Source = &delayed{op: op, at: at, then: c.Source}
		c.fence(schedule.Aside{})
		return
	}
	if at > c.Now {
		c.Source = &delayed{op: op, at: at, then: c.Source}
		c.After(at-c.Now, c.issue)
		return
	}
	c.begin(op)
	if !c.anonymous() && (op.Kind == register.RMW || op.Kind == register.Write && c.env.Named) {
		c.Operation.ID = c.session.next()
		c.Operation.ID.IssuedAt = epochStart + c.Now.Truncate(c.env.Coarse).Milliseconds()
	}
	if op.Kind == register.RMW {
		if c.Operation.Call.MaxValueBytes == 0 {
			c.Operation.Call.MaxValueBytes = maxRMWArgument
		}
	}
	if c.env.Regular {
		c.attach(&c.Operation)
	}
	c.invocation = c.Recorder.Invoke(c.Name, c.env.Network.Sites[c.home], c.Operation)
	c.diagram.Invoked(c.Name, c.home, c.Operation)
	c.ask(c.store.Serving(c.home))
}

// Planned is a source of operations that were planned.
type Planned []schedule.Planned

// Next implements Source.
func (p *Planned) Next(time.Duration) (register.Operation, time.Duration, bool) {
	if len(*p) == 0 {
		return register.Operation{}, 0, false
	}
	first := (*p)[0]
	*p = (*p)[1:]
	return first.Operation, first.At, true
}

// delayed gives back an operation that was taken too early.
type delayed struct {
	op   register.Operation
	at   time.Duration
	then Source
	done bool
}

func (d *delayed) Next(now time.Duration) (register.Operation, time.Duration, bool) {
	if !d.done {
		d.done = true
		return d.op, d.at, true
	}
	return d.then.Next(now)
}

// ask makes an attempt at a node.
func (c *Client) ask(node int) {
	c.Attempt++
	c.Target, c.arrived = node, false
	attempt := c.Attempt
	c.diagram.Happened("%s asks %d", c.Name, node+1)
	if after, ok := c.network.Hop(c.home, node); ok {
		c.After(after, func() { c.store.Request(node, c, attempt) })
	}
	if c.env.Patience > 0 && !c.Settled {
		c.After(c.env.Patience, func() { c.answered(attempt, register.Result{Status: register.Unknown, Message: "timed out"}) })
	}
}

// Receive has a result that a node gives go to the client: the answer to an attempt.
func (c *Client) Receive(from int, attempt uint32, result register.Result) {
	if after, ok := c.network.Hop(from, c.home); ok {
		c.After(after, func() { c.answered(attempt, result) })
	}
}

// Arrived notes that an attempt reached the process of the node, and reports whether the client still waits for it.
func (c *Client) Arrived(attempt uint32, up bool) bool {
	if c.Attempt != attempt || !c.Working {
		return false
	}
	c.arrived = up
	return true
}

// Reset tells the client that its connection to a node that crashed broke.
func (c *Client) Reset(node int) {
	if c.Working && c.Target == node && c.arrived {
		c.arrived = false
		c.Receive(node, c.Attempt, register.Result{Status: register.Unknown, Message: "connection reset"})
	}
}

// answered handles a result, unless it comes too late.
func (c *Client) answered(attempt uint32, result register.Result) {
	if c.Working && c.Attempt == attempt {
		c.learn(result)
	}
}

// learn handles the outcome of an attempt.
func (c *Client) learn(r register.Result) {
	if c.fencing {
		c.fenceAnswered(r)
		return
	}
	kind := c.Operation.Kind
	switch r.Status {
	case register.Unavailable:
		c.retry()
	case register.Unknown:
		switch {
		case kind != register.Read && c.Operation.ID.Session == 0:
			c.finish(r)
		case kind != register.Read && c.draw.Chance(c.abandon):
			c.finish(r)
			c.reborn()
		default:
			c.retry()
		}
	case register.OK, register.Failed, register.Unsupported:
		c.finish(r)
	default:
		c.Fail("%s of key %q by %s is answered %s: %s", kind, c.Operation.Key, c.Name, r.Status, r.Message)
	}
}

// anonymous clients, about a third of all, give their rmws no ID.
func (c *Client) anonymous() bool { return c.session.id>>56%3 == 0 }

// retry asks the next node.
func (c *Client) retry() {
	c.ask(c.store.Next(c.Target))
}

// begin has an operation be the one in progress.
func (c *Client) begin(op register.Operation) {
	c.Working, c.since, c.Operation = true, c.Now, op
	c.Busy++
}

// end has the operation in progress be over.
func (c *Client) end(r register.Result) {
	c.Working = false
	c.Attempt++
	c.Busy--
	c.diagram.Returned(c.Name, c.home, c.Operation, r)
}

func (c *Client) finish(r register.Result) {
	if r.Status == register.OK {
		c.Answered++
	}
	if r.Status != register.Unknown {
		c.session.end(c.Operation.ID.Number)
	}
	done := c.invocation.Return(r)
	c.end(r)
	c.learned(r)
	if c.Finished != nil {
		c.Finished(done)
	}
	c.After(0, c.issue)
}

// epochStart is the wall-clock reading, in Unix milliseconds, at which virtual time starts.
const epochStart = 1_700_000_000_000
