package operation

import "github.com/georegister/georegister/replica/register"

// Outcome classifies results by what a client may do next; a higher one is worse for the client.
type Outcome int

// The outcomes, which metrics count.
const (
	OK          Outcome = iota
	Refused             // the request is wrong, or the function refused it
	Unavailable         // certainly without effect
	Unknown             // with effect, or without, or with effect later
	outcomes
)

// OutcomeOf classifies a result.
func OutcomeOf(r register.Result) Outcome { return outcomeOf[r.Status] }

var outcomeOf = [...]Outcome{
	0:           Unknown, // there is no such status
	register.OK: OK, register.Failed: Refused, register.Invalid: Refused, register.Unsupported: Refused,
	register.Unavailable: Unavailable, register.Unknown: Unknown,
}

// Prove adds to the result of an operation on key the proof of what the client depends on from now on, if it does.
func (o *Options) Prove(key string, r register.Result) register.Result {
	if r.Depends && o.Proofs != nil {
		r.Proof = o.Proofs.Prove(
			register.Dependency{
				Key: key, Versioned: register.Versioned{Carstamp: r.Carstamp, Value: r.Value}, Holders: r.Holders,
			})
	}
	return r
}
