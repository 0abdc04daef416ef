package rmwpaxos

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// writeRefusal is what the table of protocols says of plain writes at least once.
const writeRefusal = "protocol RMWPaxosAtLeastOnce has no plain writes: it may apply an update more than once, and a " +
	"write that is " +
	"applied again takes back what was written after it; call set-newest.v1, which writes with a version, or use " +
	"protocol RMWPaxos"

// refused ends a request for an update that may be applied only once, in a register that may apply it more often.
func (p *Protocol) refused(r protocol.Request) bool {
	if !p.options.AtLeastOnce {
		return false
	}
	message := ""
	switch op := r.Operation; op.Kind {
	case register.Write:
		message = writeRefusal
	case register.RMW:
		if !p.Config.Functions.Idempotent(op.Call.Function) {
			message = fmt.Sprintf("rmw function %s is not idempotent, and protocol RMWPaxosAtLeastOnce may apply an "+
				"update more than once: call one of %s, or use "+
				"protocol RMWPaxos", op.Call.Function, strings.Join(p.Config.Functions.IdempotentNames(), ", "))
		}
	}
	if message == "" {
		return false
	}
	p.Took(pathRefused)
	p.Complete(r.Handle, register.Result{Status: register.Unsupported, Message: message})
	return true
}
