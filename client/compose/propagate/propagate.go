// Package propagate carries contexts of compose along gRPC calls, in their metadata.
//
// A call tells something, and so does its answer. With these interceptors on both sides, what the caller's
// compose.Process has done and seen goes along with the request, and what the handler's has, with the answer (Helt et
// al., Regular Sequential Serializability and Regular Sequential Consistency, section 4.2, with a context instead of a
// fence):
//
//   - The caller puts its process into the context of the call with NewContext. A call without one is refused before it
//     is sent.
//   - The server makes a process for each call, which the handler finds with FromContext. Where the handler calls
//     others itself with that context, it passes on what it knows.
//   - An answer or an error goes back with what the handler's process knows then, in the trailer.
//   - The messages of a stream after its opening have no metadata, so each is preceded by a fence, if its sender has
//     done anything since the opening or the message before.
//
// What a context says is written to the services that it names: a server must take contexts from those only who may
// write there.
package propagate

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/georegister/georegister/client/compose"
)

const (
	// Key is that of the metadata, of the request's header and of the answer's trailer. There is one value, compose's
	// bytes.
	Key = "georegister-context-bin"
	// MaxBytes bounds the value. Servers and proxies refuse headers of more than 8 KiB, and base64 adds a third. A
	// process whose context is longer is fenced first.
	MaxBytes = 4 << 10
)

// ErrNoProcess is in the error of a call whose context has no compose.Process; test with errors.Is where there is no
// network in between.
var ErrNoProcess = errors.New("the context has no compose.Process")

type contextKey struct{}

// NewContext returns a context for calls that process makes.
func NewContext(ctx context.Context, process *compose.Process) context.Context {
	return context.WithValue(ctx, contextKey{}, process)
}

// FromContext returns the process of a call: in a handler, the one that has taken over what the caller knew.
func FromContext(ctx context.Context) (process *compose.Process, ok bool) {
	process, ok = ctx.Value(contextKey{}).(*compose.Process)
	return process, ok && process != nil
}

// export is what a process knows, in at most MaxBytes. It fences what would be more.
func export(ctx context.Context, process *compose.Process) (string, error) {
	exported, err := process.Export(ctx)
	if err == nil && len(exported) > MaxBytes {
		if err = process.Fence(ctx); err == nil {
			exported, err = process.Export(ctx)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(exported) > MaxBytes:
		return "",
			fmt.Errorf("the context has %d bytes even after a fence, and %d are allowed; wait for the process's "+
				"operations to end",
				len(exported), MaxBytes)
	}
	return string(exported), nil
}

// take has a process take over what the other side's metadata tells. There reports whether it tells anything.
func take(ctx context.Context, process *compose.Process, md metadata.MD) (there bool, err error) {
	values := md.Get(Key)
	switch {
	case len(values) == 0:
		return false, nil
	case len(values) > 1:
		return true, fmt.Errorf("metadata %s: %w: it has %d values; install the interceptor once", Key,
			compose.ErrContext, len(values))
	case len(values[0]) > MaxBytes:
		return true, fmt.Errorf("metadata %s: %w: it has %d bytes, and %d are allowed", Key, compose.ErrContext,
			len(values[0]), MaxBytes)
	}
	if err := process.Import(ctx, []byte(values[0])); err != nil {
		return true, fmt.Errorf("metadata %s: %w", Key, err)
	}
	return true, nil
}

// failure makes the status of a call that could not carry its context. Errors.Is still finds the cause.
func failure(method, what string, cause error) error {
	code := codes.Unavailable
	switch {
	case errors.Is(cause, compose.ErrContext):
		code = codes.InvalidArgument
	case errors.Is(cause, compose.ErrNotRegistered), errors.Is(cause, ErrNoProcess):
		code = codes.FailedPrecondition
	case errors.Is(cause, context.Canceled):
		code = codes.Canceled
	case errors.Is(cause, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return &failed{code: code, text: fmt.Sprintf("call of %s: %s: %v", method, what, cause), cause: cause}
}

// failed is a status with a cause.
type failed struct {
	code  codes.Code
	text  string
	cause error
}

func (f *failed) Error() string { return f.text }

func (f *failed) Unwrap() error { return f.cause }

// GRPCStatus has gRPC send it as what it is.
func (f *failed) GRPCStatus() *status.Status { return status.New(f.code, f.text) }

// teller has what a process does be known before each message of a stream that tells of it.
type teller struct {
	process *compose.Process
	told    uint64 // the process's version that the other side knows all of
}

func (t *teller) tell(ctx context.Context) error {
	version := t.process.Version()
	if version == t.told {
		return nil
	}
	if err := t.process.Fence(ctx); err != nil {
		return err
	}
	t.told = version
	return nil
}
