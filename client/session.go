package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Session owns what belongs together in time: the ids that make rmws exactly-once, and what the session depends on.
//
// Each rmw is sent under the session's random number and a number of its own, which it keeps however often and to
// whichever replica it is sent. With a regular protocol the session also keeps what its reads found that a quorum may
// not hold yet, and has every later operation carry it (see the package's text and Fence). A session may be used by
// many goroutines, which then all come after what one of them has read.
type Session struct {
	id     uint64
	router *router

	mu         sync.Mutex
	next       uint64
	incomplete []uint64      // numbers of rmws under way, ascending
	past       register.Past // what operations from now on come after
	member     membership
}

// Do carries out one operation. An rmw without an id gets the session's next one; one that has an id keeps it. A result
// whose status is not OK becomes the error that stands for it; beside a Refused it is given too, since it tells the
// carstamp that the refusal observed. The operation comes after all that the session depends on, whatever its After
// says; a register.Fence is Fence.
func (s *Session) Do(ctx context.Context, op register.Operation) (register.Result, error) {
	if op.Kind == register.Fence {
		if err := s.Fence(ctx); err != nil {
			return register.Result{}, err
		}
		return register.Result{Status: register.OK}, nil
	}
	end, err := s.attach(ctx, &op)
	if err != nil {
		return register.Result{}, fmt.Errorf("%s of %.64q: before it: %w", op.Kind, op.Key, err)
	}
	if end != nil {
		defer end()
	}
	if op.Kind == register.RMW && op.ID == (register.ID{}) {
		op.ID = s.begin()
		defer s.end(op.ID.Number)
	}
	result, err := s.router.do(ctx, op)
	s.learn(&op, result, err)
	if err != nil {
		return result, fmt.Errorf("%s of %.64q: %w", op.Kind, op.Key, err)
	}
	return result, nil
}

// begin issues the next id.
func (s *Session) begin() register.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.next
	s.next++
	s.incomplete = append(s.incomplete, number)
	return register.ID{
		Session: s.id, Number: number, FirstIncomplete: s.incomplete[0], IssuedAt: time.Now().UnixMilli(),
	}
}

// end records that a number will not be sent any more, whether its outcome is known or given up.
func (s *Session) end(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := slices.BinarySearch(s.incomplete, number); ok {
		s.incomplete = slices.Delete(s.incomplete, i, i+1)
	}
}

// ReadOption changes what a read asks for.
type ReadOption func(*register.Operation)

// Stale has a read wait for less: it may be answered with a value that was the register's a little before, and that
// can't be lost any more. Under CURP that is within the lease, two seconds unless the cluster is configured otherwise,
// and reads of one session need not agree on what is newer; under the other protocols it is a read as any other.
func Stale() ReadOption { return func(op *register.Operation) { op.Stale = true } }

// Get returns the value of a key, nil if it is absent.
func (s *Session) Get(ctx context.Context, key string, options ...ReadOption) (register.Value, error) {
	op := register.Operation{Kind: register.Read, Key: key}
	for _, o := range options {
		o(&op)
	}
	result, err := s.Do(ctx, op)
	return result.Value, err
}

// Set sets a key, whatever its value was. A nil value is an empty one. It takes no rmw, and is therefore not
// retried once it may have taken effect: see SetOnce.
func (s *Session) Set(ctx context.Context, key string, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	_, err := s.Do(ctx, register.Operation{Kind: register.Write, Key: key, Value: value})
	return err
}

// SetOnce is Set by an rmw, which has an id: it is retried when its outcome is lost, and takes effect at most once, at
// one time between call and return, so that it never takes back what others wrote meanwhile. It costs what an rmw costs
// in the protocol, and ends with ErrUnsupported where there are none (ABD, Gus). To make a key absent in the same way,
// use Delete.
func (s *Session) SetOnce(ctx context.Context, key string, value []byte) error {
	_, err := s.RMW(ctx, key, register.Set, value)
	return err
}

// Clear makes a key absent, whatever its value was, as Set does.
func (s *Session) Clear(ctx context.Context, key string) error {
	_, err := s.Do(ctx, register.Operation{Kind: register.Write, Key: key})
	return err
}

// RMW applies a registered function, such as register.Add, and returns its reply.
func (s *Session) RMW(ctx context.Context, key, function string, args ...[]byte) (register.Value, error) {
	result, err := s.Do(ctx, register.Operation{Kind: register.RMW, Key: key,
		Call: register.Call{Function: function, Args: args}})
	return result.Value, err
}

// Delete makes a key absent and reports whether it was present.
func (s *Session) Delete(ctx context.Context, key string) (bool, error) {
	return yes(s.RMW(ctx, key, register.Delete))
}

// CompareAndSwap sets a key to next if its value is expected, and reports whether it was.
func (s *Session) CompareAndSwap(ctx context.Context, key string, expected, next []byte) (bool, error) {
	return yes(s.RMW(ctx, key, register.CompareAndSwap, expected, next))
}

// SetIfAbsent sets a key if it has no value, and reports whether it had none.
func (s *Session) SetIfAbsent(ctx context.Context, key string, value []byte) (bool, error) {
	return yes(s.RMW(ctx, key, register.SetIfAbsent, value))
}

// SetIfPresent sets a key if it has a value, and reports whether it had one.
func (s *Session) SetIfPresent(ctx context.Context, key string, value []byte) (bool, error) {
	return yes(s.RMW(ctx, key, register.SetIfPresent, value))
}

// GetAndSet sets a key and returns its old value, nil if it was absent.
func (s *Session) GetAndSet(ctx context.Context, key string, value []byte) (register.Value, error) {
	return s.RMW(ctx, key, register.GetAndSet, value)
}

// GetAndDelete makes a key absent and returns its old value, nil if it was absent.
func (s *Session) GetAndDelete(ctx context.Context, key string) (register.Value, error) {
	return s.RMW(ctx, key, register.GetAndDelete)
}

// Add adds to a decimal integer, an absent one being 0, and returns the sum.
func (s *Session) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return number(s.RMW(ctx, key, register.Add, strconv.AppendInt(nil, delta, 10)))
}

// Append appends to a value, an absent one being empty, and returns the new length.
func (s *Session) Append(ctx context.Context, key string, suffix []byte) (int64, error) {
	return number(s.RMW(ctx, key, register.Append, suffix))
}

// yes reads the reply of a function that answers 1 or 0.
func yes(v register.Value, err error) (bool, error) { return string(v) == "1", err }

func number(v register.Value, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the reply: %w", err)
	}
	return n, nil
}
