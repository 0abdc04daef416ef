package redis

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// transaction holds commands on one key from MULTI to EXEC, which makes one rmw of all of them, and what WATCH found.
type transaction struct {
	begun   bool
	refused bool    // MULTI was: what it was to hold together is refused as well
	broken  bool    // a command was refused: EXEC executes none
	key     string  // of the commands; empty: there is none yet
	calls   []*call // that were not submitted
	steps   int     // of these
	size    int     // bytes that their operations hold
	watch   *watch  // nil: nothing is watched
}

// watch is the value that a key had when it was watched.
type watch struct {
	key   string
	guard []byte // register.Guard of it; nil: it could not be read. The store's goroutine sets it before the reply
}

// endTransaction forgets a transaction, and what was watched for it.
func (c *connection) endTransaction() (t transaction) {
	t = c.client.transaction
	if t.size > 0 {
		c.calls.hold(-t.size)
	}
	c.client.transaction = transaction{}
	return t
}

// transactionControls are the commands that take effect at once within a transaction.
var transactionControls = map[string]bool{
	"multi": true, "exec": true, "discard": true, "watch": true, "reset": true, "quit": true,
}

// holds reports whether a command is to be held by a transaction instead of being executed. What can't be is refused.
func (c *connection) holds(k *call, known *command, args [][]byte) bool {
	t := &c.client.transaction
	switch {
	case !t.begun || transactionControls[known.name]:
		return false
	case t.refused:
		k.fail("EXECABORT not executed, since MULTI was refused; DISCARD or RESET ends this")
	case known.firstKey == 0:
		k.fail(fmt.Sprintf("ERR %s is not served within MULTI, which holds commands on one key",
			strings.ToUpper(known.name)))
	default:
		c.hold(k, known, args)
	}
	return true
}

// hold has a transaction hold a command, of which the call becomes the reply.
func (c *connection) hold(k *call, known *command, args [][]byte) {
	t := &c.client.transaction
	for i, arg := range args {
		switch {
		case !known.isKey(i):
		case t.watch != nil && t.watch.key != string(arg):
			k.fail("ERR WATCH and MULTI are about one key here, and this one was not watched; UNWATCH first")
			return
		case t.key != "" && t.key != string(arg):
			k.fail("ERR MULTI holds commands on one key here, and this is another one: send them without MULTI " +
				"(redis-py: pipeline(transaction=False), go-redis: Pipelined)")
			return
		default:
			t.key = string(arg)
		}
	}
	held := &call{queue: c.calls, command: known, version: c.client.version}
	if known.run(c, held, args); len(held.steps) == 0 {
		k.text, k.refused = held.text, held.refused
		return
	}
	size := 0
	for i := range held.steps {
		size += held.steps[i].Op.Size() + callBytes
	}
	limit := c.server.options.Limits.ValueBytes
	switch {
	case t.steps+len(held.steps) > register.MaxCalls:
		k.fail(fmt.Sprintf("ERR the commands of MULTI are too many: the limit is %d", register.MaxCalls))
		return
	case t.size+size > limit:
		k.fail(fmt.Sprintf("ERR the commands of MULTI are too large together: the limit is %d bytes", limit))
		return
	}
	t.calls, t.steps, t.size = append(t.calls, held), t.steps+len(held.steps), t.size+size
	c.calls.hold(size)
	k.command = c.server.commands["multi"] // it counts as a part of that: what becomes of it EXEC counts
	k.reply(resp.AppendSimple(nil, "QUEUED"))
}

// callBytes is about what a held command takes beside its operation's bytes, and more than it takes in an argument.
const callBytes = 64

func runMulti(c *connection, k *call, _ [][]byte) {
	t := &c.client.transaction
	if t.begun {
		k.fail("ERR MULTI calls can not be nested")
		return
	}
	t.begun = true
	if err := c.server.options.CheckTransaction(); err != nil {
		t.refused = true
		k.fail("ERR not supported by protocol " + c.server.options.Identity.Protocol + ": " + err.Error())
		return
	}
	k.ok()
}

func runExec(c *connection, k *call, _ [][]byte) {
	if !c.client.transaction.begun {
		k.fail("ERR EXEC without MULTI")
		return
	}
	t := c.endTransaction()
	var guard []byte
	if t.watch != nil {
		if !c.calls.settle() { // for the value that is watched
			return
		}
		guard, t.key = t.watch.guard, t.watch.key
	}
	switch {
	case t.refused:
		k.fail("EXECABORT not executed, since MULTI was refused")
	case t.broken:
		k.fail("EXECABORT Transaction discarded because of previous errors.")
	case t.watch != nil && guard == nil:
		k.fail("EXECABORT not executed, since WATCH could not read the key")
	case t.key == "":
		k.reply(resp.AppendArray(nil, 0))
	default:
		k.single(c.rmw([]byte(t.key), register.Multi, guard, register.EncodeCalls(t.registerCalls())),
			func(b []byte, k *call) []byte { return renderTransaction(b, k, t.calls) })
	}
}

// registerCalls are the operations of the commands, as calls of one rmw.
func (t *transaction) registerCalls() (calls []register.Call) {
	for _, k := range t.calls {
		for i := range k.steps {
			op := &k.steps[i].Op
			switch {
			case op.Kind == register.Read:
				calls = append(calls, register.Call{Function: register.Get})
			case op.Kind == register.Write:
				calls = append(calls, register.Call{Function: register.Set, Args: [][]byte{op.Value}})
			default:
				calls = append(calls, op.Call)
			}
			*op = register.Operation{Kind: op.Kind} // the rest is in the rmw from now on
		}
	}
	return calls
}

// renderTransaction appends the replies to the commands of a transaction, or that what was watched has changed.
func renderTransaction(b []byte, k *call, commands []*call) []byte {
	replies, done, err := register.DecodeReplies(k.steps[0].result.Value)
	switch {
	case err != nil:
		return resp.AppendError(b, "ERR the replies to the commands of MULTI can't be read: "+err.Error())
	case !done:
		return resp.AppendNullArray(b, k.version)
	}
	b = resp.AppendArray(b, len(commands))
	for _, held := range commands {
		refused := ""
		for i := range held.steps {
			if len(replies) == 0 { // as another program would have it
				refused = "a reply is missing"
				break
			}
			held.steps[i].result = register.Result{Status: register.OK, Value: replies[0].Value}
			if refused == "" {
				refused = replies[0].Refused
			}
			replies = replies[1:]
		}
		if refused != "" {
			b = resp.AppendError(b, "ERR "+refused)
		} else {
			b = held.render(b, held)
		}
	}
	return b
}

func runDiscard(c *connection, k *call, _ [][]byte) {
	if !c.client.transaction.begun {
		k.fail("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	k.ok()
}

// runWatch reads the key: EXEC is refused if it has another value then. In Redis it is, too, if the key had other
// values meanwhile and has the same one again.
func runWatch(c *connection, k *call, args [][]byte) {
	t := &c.client.transaction
	if t.begun {
		k.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	key := string(args[1])
	for _, arg := range args[1:] {
		if string(arg) != key || t.watch != nil && t.watch.key != string(arg) {
			k.fail("ERR WATCH and MULTI are about one key here; UNWATCH ends it for the one before")
			return
		}
	}
	if t.watch != nil {
		k.ok() // what it found first counts
		return
	}
	w := &watch{key: key}
	t.watch = w
	k.single(register.Operation{Kind: register.Read, Key: key}, renderOK)
	k.steps[0].then = func(_ *step, r register.Result) bool {
		if r.Status == register.OK {
			w.guard = register.Guard(r.Value)
		}
		return false
	}
}

func runUnwatch(c *connection, k *call, _ [][]byte) {
	c.endTransaction() // there is nothing else outside of MULTI
	k.ok()
}
