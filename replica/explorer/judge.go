package explorer

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// patience bounds the check of one history, which has a few operations.
const patience = time.Minute

// judge checks histories, each once.
type judge struct {
	*world
	verdicts map[string]*Failure // of histories, by what was seen; nil: they are right
}

// check is what is wrong with what clients saw until a state; nil: nothing.
func (j *judge) check(ctx context.Context, s *state) *Failure {
	key := make([]byte, 0, 8*len(s.attempts))
	for _, a := range s.attempts {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(a.result)), uint64(a.after))
	}
	if f, known := j.verdicts[string(key)]; known {
		return f
	}
	f := j.decide(ctx, j.history(s))
	if ctx.Err() == nil {
		j.verdicts[string(key)] = f
	}
	return f
}

// decide asks the checkers that the simulator and the tools ask.
func (j *judge) decide(ctx context.Context, record history.Record) *Failure {
	strict := record.Operations
	if j.scope.Regular {
		v, err := record.CheckRSC(ctx, history.RSCOptions{})
		switch {
		case err != nil:
			return &Failure{Class: Undecided, Why: err.Error()}
		case v.Outcome == history.Violation:
			return &Failure{Class: Violation, Why: v.Explanation}
		case !v.OK():
			return &Failure{Class: Undecided, Why: v.Explanation}
		}
		// What is not regular is linearizable among itself.
		strict = slices.DeleteFunc(slices.Clone(strict), func(o history.Operation) bool { return o.Request.Regular })
	}
	switch v := history.Check(ctx, strict, history.Options{Timeout: patience}); v.Outcome {
	case history.Linearizable:
		return nil
	case history.Violation:
		return &Failure{Class: Violation, Why: v.Explanation}
	default:
		return &Failure{Class: Undecided, Why: v.Explanation}
	}
}

// history is what clients saw. The operations that had returned when another one was invoked are a chain of sets: the
// size of one is when that was, and an operation returned just before the first set that has it.
func (j *judge) history(s *state) (record history.Record) {
	for i, op := range j.before { // they come one after the other, before all others
		at := time.Duration(2*(i-len(j.before))) * time.Second
		record.Operations = append(record.Operations, j.seen(op, j.ended[i].result, at, at+time.Second))
	}
	const last = 64
	for i, a := range s.attempts {
		if a.result == notInvoked {
			continue
		}
		op := uint32(i)
		invoked := time.Duration(bits.OnesCount32(a.after))*time.Second + time.Duration(i)
		returned := time.Duration(last) * time.Second
		for _, later := range s.attempts {
			if later.result != notInvoked && later.after>>i&1 == 1 {
				returned = min(returned, time.Duration(bits.OnesCount32(later.after))*time.Second-time.Millisecond)
			}
		}
		if j.operations[op].request.Kind == register.Fence {
			if a.result >= firstResult && j.results[a.result-firstResult].Status == register.OK {
				record.Fences = append(record.Fences, history.Fence{
					Client: j.client(op), Invoked: invoked, Returned: returned,
				})
			}
			continue
		}
		record.Operations = append(record.Operations, j.seen(op, a.result, invoked, returned))
	}
	return record
}

func (j *judge) client(op uint32) string { return fmt.Sprintf("client %d", j.operations[op].session+1) }

// seen is an operation as its client saw it.
func (j *judge) seen(op, result uint32, invoked, returned time.Duration) history.Operation {
	o := &j.operations[op]
	request := o.request
	request.Regular = j.scope.Regular && int(op) < j.scoped() && request.Kind == register.Read
	request.ID = register.ID{Session: request.ID.Session, Number: request.ID.Number}
	seen := history.Operation{
		Client: j.client(op), Site: fmt.Sprint(o.member + 1), Request: request, Invoked: invoked, Returned: returned,
		Result: register.Result{Status: register.Unknown},
	}
	if result >= firstResult {
		seen.Result = j.results[result-firstResult]
	}
	return seen
}
