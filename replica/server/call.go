package server

import (
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/server/resp"
)

// call is one command of a connection, from its parsing to its reply. Calls are reused: what they hold
// belongs to the connection's reader until it is enqueued, and to its writer once it is complete.
type call struct {
	conn    *connection
	command *command
	version resp.Version // of the reply: the one in force when the command was parsed
	// render appends the reply to a command of the store, all steps being answered OK.
	render    func(b []byte, c *call) []byte
	text      []byte // the reply to a command that needs no store
	refused   bool   // text is an error
	start     int64  // GETRANGE: first and last byte
	end       int64
	hangUp    bool // close the connection behind the reply
	deadline  time.Time
	steps     []step
	remaining int // steps not answered yet
	size      int // bytes that it holds, from enqueue on; under the connection's lock
	next      *call
}

// step is the part of a call that concerns one key: mostly one operation, sometimes several in turn.
type step struct {
	call *call
	op   register.Operation
	// then sees the answer to op; it may replace op by the next one and report true.
	then   func(s *step, r register.Result) bool
	result register.Result
	behind *step // waits until this one is answered: the next on the same key
	answer func(register.Result)
}

// prepare gives the call n empty steps.
func (c *call) prepare(n int) []step {
	if cap(c.steps) < n {
		c.steps = make([]step, n)
	}
	c.steps = c.steps[:n]
	for i := range c.steps {
		s := &c.steps[i]
		if s.answer == nil {
			s.call, s.answer = c, s.answered
		}
	}
	return c.steps
}

// start submits the step's operation, once what it has to come after can be carried. It may block as long as Store.Submit does.
func (s *step) start() {
	c := s.call
	if !c.conn.admit(s) {
		return
	}
	left := time.Until(c.deadline)
	if left <= 0 {
		s.answered(register.Result{Status: register.Unavailable,
			Message: "the time was up while it waited for earlier commands of the connection on the same key"})
		return
	}
	if n := len(s.op.After); n > 0 {
		c.conn.server.carried.Add(float64(n))
	}
	c.conn.server.options.Store.Submit(s.op, left, s.answer)
}

// answered ends the step, or goes on with its next operation. It is called from the store's goroutines,
// so what may block goes to a goroutine of its own.
func (s *step) answered(r register.Result) {
	s.call.conn.learn(&s.op, r) // before anybody is told
	if s.then != nil && s.then(s, r) {
		go s.start()
		return
	}
	if next := s.call.conn.stepAnswered(s, r); next != nil {
		go next.start()
	}
}

// callOverhead is what a waiting reply counts for beside its value, in bytes.
const callOverhead = 256

// asked is how much memory a call takes that is about to be enqueued, about.
func (c *call) asked() int {
	n := c.bare() + len(c.text)
	for i := range c.steps {
		n += c.steps[i].op.Size()
	}
	return n
}

// bare is how much an empty call takes.
func (c *call) bare() int { return callOverhead + stepOverhead*cap(c.steps) }

// stepOverhead is what a step takes beside what it holds, with its place among those of its key.
const stepOverhead = 512

// held is how much memory the complete call holds, about.
func (c *call) held() int {
	n := callOverhead + len(c.text)
	for i := range c.steps {
		n += len(c.steps[i].result.Value)
	}
	return n
}

// appendReply appends the reply of a complete call and counts it.
func (c *call) appendReply(b []byte) []byte {
	if len(c.steps) == 0 {
		outcome := outcomeOK
		if c.refused {
			outcome = outcomeRefused
		}
		c.count(outcome)
		return append(b, c.text...)
	}
	if message, outcome := c.failure(); outcome != outcomeOK {
		c.count(outcome)
		return resp.AppendError(b, message)
	}
	c.count(outcomeOK)
	return c.render(b, c)
}

func (c *call) count(outcome int) {
	c.conn.server.served.Add(1)
	if c.command == nil {
		c.conn.server.other[outcome].Inc()
		return
	}
	c.command.counters[outcome].Inc()
}

// reset makes the call empty, keeping its steps for the next command.
func (c *call) reset() {
	steps := c.steps[:cap(c.steps)]
	if len(steps) > 4 {
		steps = nil
	}
	for i := range steps {
		s := &steps[i]
		s.op, s.then, s.result, s.behind = register.Operation{}, nil, register.Result{}, nil
	}
	*c = call{conn: c.conn, steps: steps[:0]}
}
