// Package checked loads a store through clients whose history is then judged. The embedded cluster and the kubectl
// plugin share it.
package checked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

const (
	// MaxOperations bounds what a check keeps in memory.
	MaxOperations = 1_000_000
	// judgeWithin bounds the search for a violation.
	judgeWithin = 2 * time.Minute
)

// Spec is the workload of a check: few keys, so that clients of different sites meet, and all kinds of operations
// that the protocol has.
func Spec(protocol string) (workload.Spec, error) {
	p, err := capability.Find(protocol)
	if err != nil {
		return workload.Spec{}, err
	}
	spec := workload.Default()
	spec.Keys, spec.KeyCount, spec.RMWs = workload.Zipf, 200, workload.RMWMixed
	spec.Mix = workload.Mix{Read: 50, Write: 50}
	if p.CheckOperation(register.RMW) == nil {
		spec.Mix = workload.Mix{Read: 45, Write: 45, RMW: 10}
	}
	return spec, nil
}

// Keys are the keys of a recorded history, sorted, each once.
func Keys(recorder *history.Recorder) []string {
	var keys []string
	for _, o := range recorder.Operations() {
		keys = append(keys, o.Request.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ReadBack reads every key of the history at every site, and records that: whatever was acknowledged and is lost
// shows at the latest here.
func ReadBack(ctx context.Context, sites []workload.Site, recorder *history.Recorder) error {
	keys := Keys(recorder)
	group, ctx := errgroup.WithContext(ctx)
	for i, site := range sites {
		group.Go(func() error {
			doer, err := site.Connect(ctx, i)
			if err != nil {
				return fmt.Errorf("read back at site %s: %w", site.Name, err)
			}
			for _, key := range keys {
				op := register.Operation{Kind: register.Read, Key: key}
				invocation := recorder.Invoke("read-back-"+site.Name, site.Name, op)
				result := doer.Do(ctx, op)
				invocation.Return(result)
				if result.Status != register.OK {
					return fmt.Errorf("read back key %q at site %s: %s: %s", key, site.Name, result.Status, result.Message)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Judge decides whether a history is linearizable, and notes the verdict in the report. It returns an error unless
// it is.
func Judge(operations []history.Operation, report *workload.Report) error {
	verdict := history.Check(operations, history.Options{Timeout: judgeWithin})
	report.Verdict = verdict.Outcome
	if !verdict.OK() {
		return fmt.Errorf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	return nil
}

// Doer does a workload's operations in a session.
func Doer(session *client.Session) workload.Doer { return doer{session} }

type doer struct{ session *client.Session }

// Do implements workload.Doer. An interrupted workload waits for what is under way: breaking it off would only leave
// its outcome unknown.
func (d doer) Do(ctx context.Context, op register.Operation) register.Result {
	result, err := d.session.Do(context.WithoutCancel(ctx), op)
	if err == nil {
		return result
	}
	var refused *client.Refused
	failed := register.Result{Status: register.Unknown, Message: err.Error()}
	switch {
	case errors.As(err, &refused):
		failed.Status, failed.Message = register.Failed, refused.Reason
	case errors.Is(err, client.ErrUnavailable):
		failed.Status = register.Unavailable
	case errors.Is(err, client.ErrUnsupported):
		failed.Status = register.Unsupported
	case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrTooLarge):
		failed.Status = register.Invalid
	}
	return failed
}
