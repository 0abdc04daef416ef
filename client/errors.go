package client

import (
	"errors"

	"github.com/georegister/georegister/replica/register"
)

// What an operation can fail with; test with errors.Is.
var (
	// ErrUnavailable: no replica could serve the operation in time. It has had no effect and will have none.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutcomeUnknown: the operation may have taken effect, or may yet.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrTooLarge: the key or a value is over the cluster's limit.
	ErrTooLarge = register.ErrTooLarge
	// ErrUnsupported: the cluster's protocol has no such operation.
	ErrUnsupported = errors.New("not supported by the protocol")
	// ErrInvalid: the operation can't be served as it is.
	ErrInvalid = errors.New("invalid operation")
	// ErrClosed: the client was closed before the operation was sent.
	ErrClosed = errors.New("the client is closed")
)

// Refused is the error of an rmw whose function refused the value it found, such as add.v1 one that is
// no integer. Nothing changed. Get at it with errors.As.
type Refused struct {
	Reason string // one of register's Refused constants for the built-in functions
}

func (r *Refused) Error() string { return "refused: " + r.Reason }
