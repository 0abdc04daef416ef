package grpc

import (
	"fmt"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/register/wire"
)

// operationOf makes an operation of a request, which must not be changed afterwards. The error is for the
// client; it wraps register.ErrTooLarge if a limit is exceeded.
func operationOf(o *operation.Options, r *registerv1.Request) (register.Operation, error) {
	op := register.Operation{Key: string(r.GetKey())}
	if r.GetKind() == registerv1.Kind_FENCE {
		if op.Key != "" {
			return op, fmt.Errorf("key is set, and kind is FENCE; leave it out, a fence is of all that after names")
		}
	} else if err := o.Limits.CheckKey(op.Key); err != nil {
		return op, err
	}
	switch read := r.GetKind() == registerv1.Kind_READ; {
	case r.GetStale() && !read:
		return op, fmt.Errorf("stale is set, and kind is %v; leave it out, only a READ may be stale", r.GetKind())
	case r.GetRegular() && !read:
		return op, fmt.Errorf("regular is set, and kind is %v; leave it out, only a READ may be regular", r.GetKind())
	case r.GetStale() && r.GetRegular():
		return op,
			fmt.Errorf("stale and regular are both set; leave out regular for an older value, or stale for one that " +
				"may not be held yet")
	}
	if err := addDependencies(o, &op, r.GetAfter()); err != nil {
		return op, err
	}
	switch r.GetKind() {
	case registerv1.Kind_READ:
		op.Kind, op.Stale, op.Regular = register.Read, r.Stale, r.Regular
	case registerv1.Kind_FENCE:
		op.Kind = register.Fence
	case registerv1.Kind_WRITE:
		op.Kind = register.Write
		if err := o.Limits.CheckValue(len(r.Value)); err != nil {
			return op, err
		}
		if !r.Present && len(r.Value) > 0 {
			return op,
				fmt.Errorf(
					"present is false and value has %d bytes; set present to write, or leave value out to delete",
					len(r.Value))
		}
		op.Value = register.ValueOf(r.Present, r.Value)
	case registerv1.Kind_RMW:
		op.Kind = register.RMW
		op.Call = register.Call{Function: r.Function, Args: r.Arguments, MaxValueBytes: o.Limits.ValueBytes}
		if err := o.Functions.Check(op.Call); err != nil {
			return op, err
		}
		if err := o.Limits.CheckArguments(op.Call.Args); err != nil {
			return op, err
		}
		return withID(op, r.Id)
	default:
		return op, fmt.Errorf("kind %d is unknown; known are READ (1), WRITE (2), RMW (3) and FENCE (4)", r.GetKind())
	}
	return op, nil
}

// addDependencies has an operation come after what its session depends on.
func addDependencies(o *operation.Options, op *register.Operation, dependencies []*registerv1.Dependency) error {
	switch n := len(dependencies); {
	case n == 0:
		return nil
	case o.Proofs == nil:
		return fmt.Errorf("protocol %s is linearizable, and nothing comes after anything: leave out after",
			o.Identity.Protocol)
	case n > register.MaxDependencies:
		return fmt.Errorf("after has %d dependencies; fence some of them first, a request carries at most %d", n,
			register.MaxDependencies)
	}
	op.After = make([]register.Dependency, len(dependencies))
	for i, from := range dependencies {
		d := &op.After[i]
		*d = wire.Dependency(from)
		if n := len(from.GetValue()); n > 0 && !from.GetPresent() {
			return fmt.Errorf("after[%d]: present is false and value has %d bytes; "+
				"send present and value as the answer had them", i, n)
		}
		err := d.Check(o.Limits)
		if err == nil {
			err = o.Proofs.Check(d)
		}
		if err != nil {
			return fmt.Errorf("after[%d]: %w", i, err)
		}
	}
	return nil
}

// maxAhead is how far ahead a client's clock may be. What a key remembers of sessions is bounded by their issue
// times: one from the far future would make it forget all others.
const maxAhead = time.Minute

// withID gives an rmw the id that its client has drawn for it, if any.
func withID(op register.Operation, id *registerv1.RmwID) (register.Operation, error) {
	if id == nil {
		return op, nil
	}
	switch {
	case id.Session == 0:
		return op, fmt.Errorf("id.session is 0; draw one at random, or leave id out")
	case id.Number == 0:
		return op, fmt.Errorf("id.number is 0; numbers of a session count from 1")
	case id.FirstIncomplete > id.Number:
		return op, fmt.Errorf("id.first_incomplete %d is above id.number %d, which has no outcome yet",
			id.FirstIncomplete, id.Number)
	}
	switch ahead := time.Duration(id.IssuedAt-time.Now().UnixMilli()) * time.Millisecond; {
	case id.IssuedAt <= 0:
		return op, fmt.Errorf("id.issued_at is %d; give the time of the first attempt, in Unix milliseconds",
			id.IssuedAt)
	case ahead > maxAhead:
		return op, fmt.Errorf("id.issued_at is %v ahead of this replica's clock; set the client's clock", ahead)
	}
	op.ID = register.ID{
		Session: id.Session, Number: id.Number, FirstIncomplete: id.FirstIncomplete, IssuedAt: id.IssuedAt,
	}
	return op, nil
}

// timeoutOf is how long the replica tries, which is no longer than most.
func timeoutOf(r *registerv1.Request, most time.Duration) time.Duration {
	if asked := time.Duration(r.GetTimeoutMs()) * time.Millisecond; asked > 0 {
		return min(asked, most)
	}
	return most
}

// answer is a response with room for its carstamp.
type answer struct {
	registerv1.Response
	carstamp registerv1.Carstamp
}

// fill makes the response of a result. The value is shared, not copied.
func (a *answer) fill(tag uint64, r register.Result) {
	a.Tag = tag
	wire.SetResponse(&a.Response, &a.carstamp, r)
}

// requestBytes is how much memory a request takes until it is answered, about.
func requestBytes(r *registerv1.Request) int {
	n := requestOverhead + len(r.GetKey()) + len(r.GetValue()) + len(r.GetFunction())
	for _, argument := range r.GetArguments() {
		n += len(argument) + 24
	}
	for _, d := range r.GetAfter() {
		n += requestOverhead + len(d.GetKey()) + len(d.GetValue())
	}
	return n
}

const requestOverhead = 512
