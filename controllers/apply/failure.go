package apply

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrStale says that something is not any more as it was when it was decided on: look again.
var ErrStale = errors.New("it was changed since it was looked at")

// ErrBudget says that a disruption budget allows no eviction now.
var ErrBudget = errors.New("the disruption budget allows no eviction now")

// race is a race that was lost, which is ErrStale.
type race struct {
	what  string
	cause error
}

func (r *race) Error() string        { return fmt.Sprintf("%s: %v: %v", r.what, ErrStale, r.cause) }
func (r *race) Is(target error) bool { return target == ErrStale }
func (r *race) Unwrap() error        { return r.cause }

// explain names what failed, and tells a lost race from other failures.
func explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return &race{what, err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Failure is what is left of an error without lost races and evictions that have to wait, which are ordinary: the next
// look sees to them. Of errors that are joined it keeps the others. It is nil if nothing is left.
func Failure(err error) error {
	if err == nil || err == ErrStale || err == ErrBudget {
		return nil
	}
	switch err := err.(type) {
	case *race:
		return nil
	case interface{ Unwrap() []error }:
		var left []error
		for _, part := range err.Unwrap() {
			left = append(left, Failure(part))
		}
		return errors.Join(left...)
	}
	if inner := errors.Unwrap(err); inner != nil && Failure(inner) == nil {
		return nil
	}
	return err
}

// Refused reports whether an error, or one that is joined in it, says that the apiserver does not take something as it
// is asked for: it is not valid, or a quota, a limit, a policy or a Role is against it.
func Refused(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), Refused)
	}
	if inner := errors.Unwrap(err); inner != nil && Refused(inner) {
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}
