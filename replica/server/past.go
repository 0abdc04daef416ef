package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/server/resp"
)

// A connection is one session: under a protocol whose reads may be answered before a quorum holds what they read, each command
// comes after all that the replies before it told. What is submitted before a reply is there has no part in that.

// regular reports whether reads may be answered so: who depends on something needs a proof of it.
func (o *Options) regular() bool { return o.Proofs != nil }

// session is what a connection has read that a quorum may not hold, under the connection's lock. It has at most
// register.MaxDependencies of them, those that were under way when it got there, and those of one token.
type session struct {
	past    register.Past
	size    int     // of the past, as the connection's memory has it
	fencing bool    // a fence is under way
	full    []*step // begin once the past can be carried again
}

// admit has the operation of a step that is about to begin come after what the connection has read. It reports false if that is more than
// an operation carries: the step then begins once enough of it is fenced.
func (c *connection) admit(s *step) bool {
	if !c.server.regular || s.op.Kind == register.Fence {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.past.Full() {
		c.session.past.Attach(&s.op)
		return true
	}
	c.session.full = append(c.session.full, s)
	if !c.session.fencing {
		c.session.fencing = true
		go c.fence(c.session.past.Fence(), s.call.deadline)
	}
	return false
}

// fence submits a fence for the steps that wait for one. It may block as long as Store.Submit does.
func (c *connection) fence(op register.Operation, deadline time.Time) {
	left := time.Until(deadline)
	if left <= 0 {
		c.fenced(&op, deadline, register.Result{Status: register.Unavailable, Message: "the time was up"})
		return
	}
	c.server.fences.Inc()
	c.server.carried.Add(float64(len(op.After)))
	c.server.options.Store.Submit(op, left, func(r register.Result) { c.fenced(&op, deadline, r) })
}

// fenced goes on with the steps that waited for a fence, or with the next one. It does not block.
func (c *connection) fenced(op *register.Operation, deadline time.Time, r register.Result) {
	c.mu.Lock()
	c.session.past.Learn(op, r)
	c.remember()
	if r.Status == register.OK && c.session.past.Full() {
		next := c.session.past.Fence()
		c.mu.Unlock()
		go c.fence(next, deadline)
		return
	}
	waited := c.session.full
	c.session.full, c.session.fencing = nil, false
	c.mu.Unlock()
	go func() {
		for _, s := range waited {
			if r.Status == register.OK {
				s.start()
				continue
			}
			s.answered(register.Result{Status: register.Unavailable, Message: "what the connection read before could not be fenced: " + r.Message})
		}
	}()
}

// learn notes what the answer to an operation makes of the connection's past.
func (c *connection) learn(op *register.Operation, r register.Result) {
	if !c.server.regular || !r.Depends && len(op.After) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.past.Learn(op, r)
	c.remember()
}

// remember has the connection's memory count what the session depends on, under the lock.
func (c *connection) remember() {
	if c.over {
		c.session.past = register.Past{}
		return
	}
	size := c.session.past.Size()
	c.memory.hold(size - c.session.size)
	c.session.size = size
}

// settle waits until all commands of the connection are answered, though maybe not replied to, and copies what they read. It reports
// false if the connection is broken.
func (c *connection) settle() (past *register.Past, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending > 0 && !c.broken {
		c.ready.Signal()
		c.room.Wait()
	}
	past = &register.Past{}
	past.Join(&c.session.past)
	return past, !c.broken
}

func runFence(c *connection, k *call, args [][]byte) bool {
	if len(args) == 1 {
		return c.fenceUntil(k, renderOK, func(past *register.Past) bool { return past.Len() == 0 })
	}
	switch sub := strings.ToLower(string(args[1])); {
	case sub == "export" && len(args) == 2:
		return c.export(k)
	case sub == "import" && len(args) == 3:
		return c.importPast(k, args[2])
	case sub == "export" || sub == "import":
		return c.wrongArity(k, "fence|"+sub)
	}
	return c.fail(k, fmt.Sprintf("ERR unknown subcommand '%s'. Known are EXPORT and IMPORT; without one, FENCE waits.", args[1]))
}

// fenceUntil fences what the commands before have read, in parts, until no more than a copy of the past that is enough for the caller is
// left. No command after it begins before those before it are answered.
func (c *connection) fenceUntil(k *call, render func([]byte, *call) []byte, enough func(past *register.Past) bool) bool {
	if !c.server.regular {
		return c.reply(k, render(nil, k))
	}
	past, ok := c.settle()
	if !ok {
		return false
	}
	if enough(past) {
		return c.reply(k, render(nil, k))
	}
	s := &k.prepare(1)[0]
	s.op = past.Fence()
	s.then = func(s *step, r register.Result) bool {
		past.Learn(&s.op, r)
		if r.Status != register.OK || enough(past) {
			return false
		}
		s.op = past.Fence()
		return true
	}
	k.render = render
	return c.enqueue(k)
}

// export replies a token of what the connection has read: another connection that imports it comes after that. Of more than a token can
// have, or an argument of a command, it fences a part.
func (c *connection) export(k *call) bool {
	token := new(register.Past).Encode()
	return c.fenceUntil(k, func(b []byte, _ *call) []byte { return resp.AppendBulk(b, token) }, func(past *register.Past) bool {
		if past.Full() {
			return false
		}
		past.Prove(c.server.options.Proofs.Prove)
		token = past.Encode()
		return len(token) <= c.server.limits.ArgumentBytes
	})
}

// importPast has the commands from now on come after what another connection has read.
func (c *connection) importPast(k *call, token []byte) bool {
	past, err := register.DecodePast(token, c.server.options.Limits)
	switch {
	case err != nil:
		return c.fail(k, "ERR "+err.Error()+"; give what FENCE EXPORT replied")
	case past.Full():
		return c.fail(k, fmt.Sprintf("ERR the token has %d dependencies, and at most %d are allowed; give what FENCE EXPORT replied",
			past.Len(), register.MaxDependencies))
	case past.Len() == 0:
		return c.ok(k)
	case !c.server.regular:
		return c.fail(k, fmt.Sprintf("ERR protocol %s is linearizable and takes no token; "+
			"FENCE where the token is from", c.server.options.Identity.Protocol))
	}
	if err := past.Check(c.server.options.Proofs.Check); err != nil {
		return c.fail(k, "ERR "+err.Error()+"; give what FENCE EXPORT replied, at this cluster")
	}
	c.mu.Lock()
	full := c.session.past.Full()
	if !full {
		c.session.past.Join(&past)
		c.remember()
	}
	c.mu.Unlock()
	if full { // tokens could be many
		return c.fail(k, "ERR the connection depends on too much already; FENCE first")
	}
	return c.ok(k)
}
