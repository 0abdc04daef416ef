package server

import (
	"fmt"

	"github.com/georegister/georegister/replica/register"
)

// failure is the error reply of a call whose steps are answered, if any of them failed. The first word of
// the text is what clients match on:
//
//	TRYAGAIN  no quorum answered in time, and the command certainly has no effect: it may be repeated
//	UNKNOWN   the command may have taken effect, or may yet, or did in part
//	ERR       the command can't be served as it is, and has no effect
func (c *call) failure() (message string, outcome int) {
	worst, applied := -1, 0
	for i := range c.steps {
		s := &c.steps[i]
		if s.result.Status == register.OK {
			if s.op.Kind != register.Read {
				applied++
			}
			continue
		}
		if worst < 0 || outcomeOf(s.result) > outcomeOf(c.steps[worst].result) {
			worst = i
		}
	}
	if worst < 0 {
		return "", outcomeOK
	}
	r := c.steps[worst].result
	if applied > 0 {
		return fmt.Sprintf("UNKNOWN outcome: %d of %d keys were changed, for the others: %s", applied, len(c.steps), r.Message),
			outcomeUnknown
	}
	return c.conn.server.errorText(r), outcomeOf(r)
}

// outcomeOf classifies a result; a higher one is worse for the client.
func outcomeOf(r register.Result) int {
	switch r.Status {
	case register.OK:
		return outcomeOK
	case register.Failed, register.Invalid, register.Unsupported:
		return outcomeRefused
	case register.Unavailable:
		return outcomeUnavailable
	}
	return outcomeUnknown
}

// errorText is a failed result as a Redis error.
func (r *Redis) errorText(result register.Result) string {
	switch result.Status {
	case register.Failed, register.Invalid:
		return "ERR " + result.Message
	case register.Unsupported:
		return fmt.Sprintf("ERR not supported by protocol %s: %s", r.options.Identity.Protocol, result.Message)
	case register.Unavailable:
		return "TRYAGAIN no quorum answered in time, the command has no effect: " + result.Message
	}
	return "UNKNOWN outcome: the command may have taken effect, or may yet: " + result.Message
}
