package history

import (
	"context"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// staleRow is added to the client's name of a read that may be stale: it began before its client's last operation
// ended.
const staleRow = " (stale)"

// CheckStale judges reads that may be stale (register.Operation.Stale) beside the whole history, and nothing that Check
// does not judge if there are none. Each must have found what the register held at some time from the bound before the
// read began to its end: as if it had begun that much earlier, and were linearizable. All of them are put into one
// order with everything else, so that one that told of what was lost later, or never was, is found as well as one that
// is too old. The times in an explanation are those.
func CheckStale(ctx context.Context, operations []Operation, bound time.Duration, options Options) Verdict {
	widened := make([]Operation, len(operations))
	for i, o := range operations {
		if stale(o) {
			o.Client += staleRow
			o.Invoked -= bound
			o.Request.Stale = false
		}
		widened[i] = o
	}
	return Check(ctx, widened, options)
}

// stale reports whether Check leaves an operation to CheckStale.
func stale(o Operation) bool { return o.Request.Kind == register.Read && o.Request.Stale }

// AnyStale reports whether there is a read that may be stale.
func AnyStale(operations []Operation) bool { return slices.ContainsFunc(operations, stale) }
