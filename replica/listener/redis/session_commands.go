package redis

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// The command in this file concerns the session of the connection: what its commands come after.

func runFence(c *connection, k *call, args [][]byte) {
	sub := ""
	if len(args) > 1 {
		sub = strings.ToLower(string(args[1]))
	}
	switch {
	case len(args) == 1:
		c.fenceUntil(k, renderOK, func(past *register.Past) bool { return past.Len() == 0 })
	case sub == "export" && len(args) == 2:
		c.export(k)
	case sub == "import" && len(args) == 3:
		c.importPast(k, args[2])
	case sub == "export" || sub == "import":
		k.wrongArity("fence|" + sub)
	default:
		k.fail(
			fmt.Sprintf("ERR unknown subcommand '%s'. Known are EXPORT and IMPORT; without one, FENCE waits.", args[1]))
	}
}

// fenceUntil fences what the commands before have read, in parts, until no more than a copy of the past that is enough
// for the caller is left. No command after it begins before those before it are answered.
func (c *connection) fenceUntil(k *call, render func([]byte, *call) []byte, enough func(past *register.Past) bool) {
	if !c.server.options.Regular() {
		k.reply(render(nil, k))
		return
	}
	if !c.calls.settle() {
		return
	}
	past := c.calls.session.Past()
	if enough(past) {
		k.reply(render(nil, k))
		return
	}
	s := &k.prepare(1)[0]
	s.Op = past.Fence()
	s.then = func(s *step, r register.Result) bool {
		past.Learn(&s.Op, r)
		if r.Status != register.OK || enough(past) {
			return false
		}
		s.Op = past.Fence()
		return true
	}
	k.render = render
}

// export replies a token of what the connection has read: another connection that imports it comes after that. Of more
// than a token can have, or an argument of a command, it fences a part.
func (c *connection) export(k *call) {
	token := new(register.Past).Encode()
	c.fenceUntil(k, func(b []byte, _ *call) []byte {
		return resp.AppendBulk(b, token)
	}, func(past *register.Past) bool {
		if past.Full() {
			return false
		}
		past.Prove(c.server.options.Proofs.Prove)
		token = past.Encode()
		return len(token) <= c.server.limits.ArgumentBytes
	})
}

// importPast has the commands from now on come after what another connection has read.
func (c *connection) importPast(k *call, token []byte) {
	options := &c.server.options
	past, err := register.DecodePast(token, options.Limits)
	switch {
	case err != nil:
		k.fail("ERR " + err.Error() + "; give what FENCE EXPORT replied")
	case past.Full():
		k.fail(
			fmt.Sprintf("ERR the token has %d dependencies, and at most %d are allowed; give what FENCE EXPORT replied",
				past.Len(), register.MaxDependencies))
	case past.Len() == 0:
		k.ok()
	case !options.Regular():
		k.fail(
			fmt.Sprintf("ERR protocol %s is linearizable and takes no token; FENCE where the token is from",
				options.Identity.Protocol))
	default:
		if err := past.Check(options.Proofs.Check); err != nil {
			k.fail("ERR " + err.Error() + "; give what FENCE EXPORT replied, at this cluster")
		} else if !c.calls.session.Join(&past) {
			k.fail("ERR the connection depends on too much already; FENCE first")
		} else {
			k.ok()
		}
	}
}
