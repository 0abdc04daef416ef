package redis

import (
	"time"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// call is a command in progress, from its parsing to its reply: its operations with their results, or the text of a
// reply that needs none. The reader of the connection owns it until it is in the queue, and the writer once it is
// complete.
type call struct {
	queue   *queue
	command *command     // nil: none that is served
	version resp.Version // of the reply: the one in force when the command was parsed
	// render appends the reply to a command of the store, all steps being answered OK.
	render    func(b []byte, k *call) []byte
	text      []byte // the reply to a command that needs no store
	refused   bool   // text is an error
	start     int64  // GETRANGE: first and last byte
	end       int64
	hangUp    bool // close the connection behind the reply
	deadline  time.Time
	steps     []step
	remaining int   // steps not answered yet
	size      int   // bytes that it holds in the queue; under the queue's lock, as next
	next      *call // in the queue
}

// step is the part of a call that concerns one key: mostly one operation, sometimes several in turn.
type step struct {
	operation.Pending
	call *call
	// then sees the result of the operation; it may replace the operation by the next one and report true.
	then   func(s *step, r register.Result) bool
	result register.Result
	behind *step // waits until this one is answered: the next on the same key
}

// prepare gives the call n empty steps.
func (k *call) prepare(n int) []step {
	if cap(k.steps) < n {
		k.steps = make([]step, n)
	}
	k.steps = k.steps[:n]
	for i := range k.steps {
		s := &k.steps[i]
		if s.call == nil {
			s.call = k
			s.Init(k.queue.session, s.onResult)
		}
	}
	return k.steps
}

// single gives the call one operation. The key and what the operation holds must be copies: arguments are the parser's.
func (k *call) single(op register.Operation, render func([]byte, *call) []byte) {
	k.prepare(1)[0].Op = op
	k.render = render
}

// fail gives the call an error as its reply.
func (k *call) fail(message string) { k.text, k.refused = resp.AppendError(nil, message), true }

// wrongArity gives the call the error of a wrong number of arguments.
func (k *call) wrongArity(name string) {
	k.fail("ERR wrong number of arguments for '" + name + "' command")
}

// ok gives the call the reply OK.
func (k *call) ok() { k.reply(resp.AppendSimple(nil, "OK")) }

// reply gives the call a reply that needs no store.
func (k *call) reply(text []byte) { k.text = text }

const (
	// callOverhead is what a waiting reply counts for beside its value, in bytes.
	callOverhead = 256
	// stepOverhead is what a step takes beside what it holds, with its place among those of its key, in bytes.
	stepOverhead = 512
)

// emptyBytes is how much memory the call takes without what its steps hold.
func (k *call) emptyBytes() int { return callOverhead + stepOverhead*cap(k.steps) }

// requestBytes is about how much memory the call takes when it comes into the queue.
func (k *call) requestBytes() int {
	n := k.emptyBytes() + len(k.text)
	for i := range k.steps {
		n += k.steps[i].Op.Size()
	}
	return n
}

// replyBytes is about how much memory the reply of a complete call takes.
func (k *call) replyBytes() int {
	n := callOverhead + len(k.text)
	for i := range k.steps {
		n += len(k.steps[i].result.Value)
	}
	return n
}

// reset makes the call empty, keeping its steps for the next command.
func (k *call) reset() {
	steps := k.steps[:cap(k.steps)]
	if len(steps) > 4 {
		steps = nil
	}
	for i := range steps {
		s := &steps[i]
		s.Op, s.then, s.result, s.behind = register.Operation{}, nil, register.Result{}, nil
	}
	*k = call{queue: k.queue, steps: steps[:0]}
}
