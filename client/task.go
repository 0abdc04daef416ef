package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/register/wire"
)

// task is an operation on its way, over one or more attempts. Its judge is where it is decided what may be
// retried.
type task struct {
	op register.Operation
	// uncertain: an earlier attempt may have taken effect, or may yet.
	uncertain bool
	trouble   error // why the last attempt gave no outcome, or nil
}

// request makes the message of an attempt; messages are not reused, a lost stream may still hold them.
func (t *task) request(timeout time.Duration) *registerv1.Request {
	r := &registerv1.Request{TimeoutMs: uint32(max(timeout.Milliseconds(), 1))}
	wire.SetRequest(r, &t.op)
	return r
}

// changes reports whether the operation has an effect of its own. That of a fence is what its session has seen already.
func (t *task) changes() bool { return t.op.Kind != register.Read && t.op.Kind != register.Fence }

// repeatable reports whether an attempt may follow one that may have taken effect.
func (t *task) repeatable() bool {
	return !t.changes() || t.op.Kind == register.RMW && t.op.ID.Session != 0
}

// judge decides what an attempt's end means. If it is not final, another attempt is safe.
func (t *task) judge(r *registerv1.Response, err error) (result register.Result, final bool, _ error) {
	t.trouble = nil
	if err != nil {
		var l *lost
		if errors.Is(err, ErrClosed) && errors.As(err, &l) && !l.sent && !t.uncertain {
			return result, true, ErrClosed
		}
		if errors.Is(err, ErrClosed) {
			return result, true, t.maybe(err)
		}
		if !errors.As(err, &l) || l.sent {
			return t.unclear(err)
		}
		t.trouble = err
		return result, false, nil
	}
	switch r.Status {
	case registerv1.Status_OK:
		return wire.Result(r), true, nil
	case registerv1.Status_FAILED:
		return wire.Result(r), true, &Refused{Reason: r.Message}
	case registerv1.Status_UNAVAILABLE:
		t.trouble = errors.New(r.Message)
		return result, false, nil
	case registerv1.Status_INVALID, registerv1.Status_UNSUPPORTED:
		if t.uncertain {
			// It says nothing of the earlier attempts.
			return result, true, t.maybe(errors.New(r.Message))
		}
		kind := ErrInvalid
		if r.Status == registerv1.Status_UNSUPPORTED {
			kind = ErrUnsupported
		} else if r.TooLarge {
			kind = ErrTooLarge
		}
		return result, true, fmt.Errorf("%w: %s", kind, r.Message)
	}
	return t.unclear(errors.New(r.Message))
}

// unclear is the end of an attempt that may have taken effect.
func (t *task) unclear(cause error) (result register.Result, final bool, _ error) {
	t.trouble = cause
	if t.changes() {
		t.uncertain = true
	}
	if t.repeatable() {
		return result, false, nil
	}
	return result, true, t.maybe(cause)
}

// maybe is the error of a task that ends without its outcome.
func (t *task) maybe(cause error) error {
	if !t.changes() {
		return fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
}

// giveUp is the error of a task whose time is up.
func (t *task) giveUp(ctx context.Context) error {
	cause := ctx.Err()
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	if t.trouble != nil {
		cause = fmt.Errorf("%w; the last attempt failed: %w", cause, t.trouble)
	}
	if t.uncertain {
		return t.maybe(cause)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}
