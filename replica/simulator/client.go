package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// source gives a client its operations: the next one and the time before which it does not start, or false
// if there is none.
type source interface {
	next(now time.Duration) (op register.Operation, at time.Duration, ok bool)
}

// client has one operation in progress at a time. It asks the replica at its site; after a failure, the next.
//
// A read may be asked again anywhere. A write is asked again only if it certainly had no effect: replicas
// can't recognise a second attempt. An rmw is asked again under the same ID, which they do recognise, unless the
// client is anonymous, as those of the Redis listener are.
type client struct {
	world   *world
	index   int
	name    string
	home    int
	session uint64
	rmws    uint64
	source  source
	// abandon is how many in 1000 rmws the client gives up when an attempt's outcome is unknown, as if it had
	// died and another client, of another session, came in its place.
	abandon int
	draw    kernel.Stream
	// finished is told every operation that has ended.
	finished func(history.Operation)

	working    bool
	since      time.Duration // when the operation began
	operation  register.Operation
	invocation history.Invocation
	attempt    uint32 // of all operations; answers to earlier ones are ignored
	target     *node
	arrived    bool // the attempt reached the target's process
	stopped    bool

	causal // of a regular protocol
}

// maxRMWArgument bounds what an rmw may make of a value in the simulator.
const maxRMWArgument = 1 << 20

func (w *world) addClient(home int, s source, abandon int) *client {
	c := &client{
		world: w, index: len(w.clients), home: home, source: s, abandon: abandon,
		draw: w.Draws(kernel.ForClient, uint64(len(w.clients))),
	}
	c.name = fmt.Sprintf("c%d", c.index+1)
	c.session = c.draw.Uint64() | 1
	w.clients = append(w.clients, c)
	w.After(0, c.issue)
	return c
}

// issue starts the next operation if its time has come.
func (c *client) issue() {
	if c.working || c.stopped {
		return
	}
	w := c.world
	if d, ok := c.source.(*delayed); ok && d.done {
		c.source = d.then
	}
	op, at, ok := c.source.next(w.Now)
	switch {
	case c.aside(at, ok):
		if ok {
			c.source = &delayed{op: op, at: at, then: c.source}
		}
		return
	case !ok:
		c.stopped = true
		return
	case c.past.Full():
		c.source = &delayed{op: op, at: at, then: c.source}
		c.fence(schedule.Aside{})
		return
	}
	if at > w.Now {
		c.source = &delayed{op: op, at: at, then: c.source}
		w.After(at-w.Now, c.issue)
		return
	}
	c.working, c.since = true, w.Now
	c.operation = op
	w.Busy++
	if !c.anonymous() && (op.Kind == register.RMW || op.Kind == register.Write && w.env.Named) {
		c.rmws++
		c.operation.ID = register.ID{
			Session: c.session, Number: c.rmws, FirstIncomplete: c.rmws,
			IssuedAt: epochStart + w.Now.Milliseconds(),
		}
	}
	if op.Kind == register.RMW {
		if c.operation.Call.MaxValueBytes == 0 {
			c.operation.Call.MaxValueBytes = maxRMWArgument
		}
	}
	if w.env.Regular {
		c.attach(&c.operation)
	}
	c.invocation = w.recorder.Invoke(c.name, w.env.Network.Sites[c.home], c.operation)
	w.trace.Invoked(c.name, c.home, c.operation)
	c.ask(w.serving[c.home].index)
}

// delayed gives back an operation that was taken too early.
type delayed struct {
	op   register.Operation
	at   time.Duration
	then source
	done bool
}

func (d *delayed) next(now time.Duration) (register.Operation, time.Duration, bool) {
	if !d.done {
		d.done = true
		return d.op, d.at, true
	}
	return d.then.next(now)
}

// ask makes an attempt at a node.
func (c *client) ask(node int) {
	w := c.world
	c.attempt++
	c.target, c.arrived = w.nodes[node], false
	w.trace.Happened("%s asks %d", c.name, c.target.index+1)
	if after, ok := c.hop(c.home, node); ok {
		attempt, target := c.attempt, c.target
		w.After(after, func() { target.requested(c, attempt) })
	}
	if w.env.Patience > 0 && !w.Settled {
		attempt := c.attempt
		w.After(w.env.Patience, func() { c.answered(attempt, register.Result{Status: register.Unknown, Message: "timed out"}) })
	}
}

// hop is how long it takes from one site's client to a node or back, unless it does not arrive.
func (c *client) hop(from, to int) (time.Duration, bool) {
	w := c.world
	if from == to {
		return w.env.ClientRTT / 2, true
	}
	l := &w.links[from*len(w.nodes)+to]
	if l.partition != nil {
		l.partition.touch(w)
		return 0, false
	}
	if l.loss != nil && l.draw.Chance(l.loss.Rate) {
		l.loss.touch(w)
		return 0, false
	}
	return w.env.ClientRTT/2 + w.delay(l), true
}

// requested handles the arrival of an attempt.
func (nd *node) requested(c *client, attempt uint32) {
	if c.attempt != attempt || !c.working {
		return
	}
	if nd.down {
		nd.world.respond(nd, asked{client: c, attempt: attempt}, register.Result{Status: register.Unavailable, Message: "connection refused"})
		return
	}
	c.arrived = true
	nd.input(input{client: c, attempt: attempt})
}

// respond sends a result to a client.
func (w *world) respond(nd *node, who asked, result register.Result) {
	after, ok := who.client.hop(nd.index, who.client.home)
	if !ok {
		return
	}
	w.After(after, func() { who.client.answered(who.attempt, result) })
}

// reset tells a client that its connection to a crashed node broke.
func (c *client) reset(nd *node) {
	if c.working && c.target == nd && c.arrived {
		c.arrived = false
		c.world.respond(nd, asked{client: c, attempt: c.attempt}, register.Result{Status: register.Unknown, Message: "connection reset"})
	}
}

// answered handles a result, unless it comes too late.
func (c *client) answered(attempt uint32, result register.Result) {
	if c.working && c.attempt == attempt {
		c.learn(result)
	}
}

// learn handles the outcome of an attempt.
func (c *client) learn(r register.Result) {
	if c.fencing {
		c.fenceAnswered(r)
		return
	}
	kind := c.operation.Kind
	switch r.Status {
	case register.Unavailable:
		c.retry()
	case register.Unknown:
		switch {
		case kind != register.Read && c.operation.ID.Session == 0:
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
		c.world.Fail("%s of key %q by %s is answered %s: %s", kind, c.operation.Key, c.name, r.Status, r.Message)
	}
}

// anonymous clients, about a third of all, give their rmws no ID.
func (c *client) anonymous() bool { return c.session>>56%3 == 0 }

// retry asks the next node.
func (c *client) retry() {
	if c.world.env.SessionMistakes.DropAtFailover {
		c.operation.After = nil
	}
	next := c.target.index
	for {
		next = (next + 1) % len(c.world.nodes)
		if nd := c.world.nodes[next]; nd.witness == nil && (nd.born || c.world.env.Partitioned == nil) {
			break
		}
	}
	c.ask(next)
}

func (c *client) finish(r register.Result) {
	w := c.world
	c.working = false
	c.attempt++
	w.Busy--
	if r.Status == register.OK {
		w.answered++
	}
	done := c.invocation.Return(r)
	w.trace.Returned(c.name, c.home, c.operation, r)
	c.learned(r)
	if c.finished != nil {
		c.finished(done)
	}
	w.After(0, c.issue)
}
