package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/georegister/georegister/client/compose"
	"github.com/georegister/georegister/replica/register"
)

// A session can be one of several services of a process, and its past goes along with what the process tells others.
var _ compose.Carrier = (*Session)(nil)

// membership is that of a session in a process that uses several services.
type membership struct {
	process *compose.Process // nil: none
	name    string
}

// Fence returns once everything that the session has seen and done comes before every operation that anyone invokes
// later, through whichever session: a real-time fence (Helt et al., Regular Sequential Serializability and Regular
// Sequential Consistency, section 7.1). It costs nothing unless the session depends on something, and never does where
// the protocol is linearizable. Operations that are under way are not part of it. After an error, ErrUnavailable or
// ErrClosed, the session depends on what it did before.
func (s *Session) Fence(ctx context.Context) error {
	var left register.Past
	s.mu.Lock()
	left.Join(&s.past)
	s.mu.Unlock()
	for left.Len() > 0 {
		op := left.Fence()
		result, err := s.fence(ctx, op)
		if err != nil {
			return err
		}
		left.Learn(&op, result)
	}
	return nil
}

// fence carries out a fence of what op carries.
func (s *Session) fence(ctx context.Context, op register.Operation) (register.Result, error) {
	result, err := s.router.do(ctx, op)
	s.learn(&op, result, err)
	if err != nil {
		return result, fmt.Errorf("fence: %w", err)
	}
	return result, nil
}

// ExportContext returns what the session depends on, in two bytes if that is nothing. Another session of the same
// cluster that imports it comes after all that this one has seen and done until now. There are at most
// register.MaxDependencies keys and values in it, of register.MaxDependencyBytes each at most, and some more while
// several goroutines read: Fence makes it short. There is no error.
func (s *Session) ExportContext() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past.Encode(), nil
}

// ImportContext has the operations of this session come after what another session of the same cluster had exported,
// beside what it depends on already. Bytes that no session exports are refused, with an error that wraps
// register.ErrPast. But what is taken over is written to the cluster before the next operation, so take it only from
// those who may write.
func (s *Session) ImportContext(past []byte) error {
	limits := s.router.limits.Load()
	if limits == nil { // a Client is there once one replica has given them
		return fmt.Errorf("import what a session depends on: %w: no replica has given its limits yet", ErrUnavailable)
	}
	other, err := register.DecodePast(past, *limits)
	if err != nil {
		return fmt.Errorf("import what a session depends on: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Join(&other)
	return nil
}

// Compose makes the session one of the services of a process, under a name that means the same to all processes: from
// now on each operation begins with the fences that it needs at the other services, so that all of them together are
// regular sequentially consistent (section 4.1). The error is the process's, such as compose.ErrRegistered, or that the
// session has a process already. Call it before the first operation.
func (s *Session) Compose(process *compose.Process, name string) error {
	if process == nil {
		return errors.New("compose a session: process is nil; make one with compose.NewProcess")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member.process != nil {
		return fmt.Errorf("compose a session: it is service %q of a process already; make another with "+
			"Client.NewSession", s.member.name)
	}
	if err := process.Register(name, s); err != nil {
		return err
	}
	s.member = membership{process, name}
	return nil
}

// attach has an operation that is about to be sent come after the session's past. Call end, unless it is nil, when the
// operation is over. After an error it must not be sent.
func (s *Session) attach(ctx context.Context, op *register.Operation) (end func(), err error) {
	s.mu.Lock()
	if m := s.member; m.process != nil {
		s.mu.Unlock() // the process may fence this session for another one
		if end, err = m.process.Start(ctx, m.name); err != nil {
			return nil, err
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	for s.past.Full() {
		fence := s.past.Fence()
		s.mu.Unlock()
		_, err = s.fence(ctx, fence)
		s.mu.Lock()
		if err != nil {
			if end != nil {
				end()
			}
			return nil, err
		}
	}
	s.past.Attach(op)
	return end, nil
}

// learn notes how an operation ended that was attached.
func (s *Session) learn(op *register.Operation, result register.Result, err error) {
	if err != nil {
		var refused *Refused
		if !errors.As(err, &refused) {
			return
		}
		result.Status = register.Failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Learn(op, result)
}
