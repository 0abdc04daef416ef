package wire

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// Command is an rmw as members tell each other of it.
func Command(op register.Operation) *peerv1.Command {
	return &peerv1.Command{
		Function: op.Call.Function, Args: op.Call.Args, MaxValueBytes: uint64(op.Call.MaxValueBytes),
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
	}
}

// Call is what an rmw calls.
func Call(c *peerv1.Command) register.Call {
	return register.Call{Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes)}
}

// Answer is what an operation answers that leads to a carstamp; the value may be another one than the register's.
func Answer(v register.Versioned) *peerv1.Answer {
	return &peerv1.Answer{
		Present: v.Value.Present(), Value: v.Value,
		Timestamp: v.Carstamp.Timestamp, Writer: uint64(v.Carstamp.Writer), Rmws: v.Carstamp.RMWs,
	}
}

// Result is the end of an operation by its answer.
func Result(a *peerv1.Answer, roundTrips int, fast bool) register.Result {
	r := register.Result{
		Carstamp: Carstamp(a.Timestamp, a.Writer, a.Rmws), RoundTrips: roundTrips, Fast: fast,
	}
	switch {
	case a.Expired:
		r.Status = register.Unknown
		r.Message = "the outcome is not kept any more, or the request is too old to be told from a duplicate; " +
			"it may have taken effect"
	case a.Refused != "":
		r.Status, r.Message = register.Failed, a.Refused
	default:
		r.Status, r.Value = register.OK, register.ValueOf(a.Present, a.Value)
	}
	return r
}
