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
	// readBackPatience is how long a site may answer nothing while its keys are read back: a member that has just
	// been healed needs a moment.
	readBackPatience = time.Minute
	// readBackPause is between two tries to read a key back.
	readBackPause = 200 * time.Millisecond
)

// ErrViolation is in the error of a history that is not linearizable, and of no other: whatever else fails decides
// nothing about the store.
var ErrViolation = errors.New("the history is not linearizable")

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
// shows at the latest here. What is unavailable is tried again for a minute.
func ReadBack(ctx context.Context, sites []workload.Site, recorder *history.Recorder) error {
	keys := Keys(recorder)
	group, ctx := errgroup.WithContext(ctx)
	for i, site := range sites {
		group.Go(func() error {
			doer, err := site.Connect(ctx, i)
			if err != nil {
				return fmt.Errorf("read back at site %s: %w", site.Name, err)
			}
			reader := reader{site: site.Name, doer: doer, recorder: recorder, patience: readBackPatience}
			for _, key := range keys {
				if err := reader.read(ctx, key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// reader reads keys back at a site.
type reader struct {
	site     string
	doer     workload.Doer
	recorder *history.Recorder
	patience time.Duration
}

// read reads a key until it is answered, or refused, or patience is at its end.
func (r reader) read(ctx context.Context, key string) error {
	op := register.Operation{Kind: register.Read, Key: key}
	over := time.NewTimer(r.patience)
	defer over.Stop()
	for {
		invocation := r.recorder.Invoke("read-back-"+r.site, r.site, op)
		result := r.doer.Do(ctx, op)
		invocation.Return(result)
		if result.Status == register.OK {
			return nil
		}
		failed := fmt.Errorf("read back key %q at site %s: %s: %s", key, r.site, result.Status, result.Message)
		if result.Status != register.Unavailable && result.Status != register.Unknown {
			return failed
		}
		select {
		case <-over.C:
			return failed
		case <-ctx.Done():
			return failed
		case <-time.After(readBackPause):
		}
	}
}

// Judge decides whether a history is linearizable, and notes the verdict in the report. It returns an error unless
// it is.
func Judge(operations []history.Operation, report *workload.Report) error {
	verdict := history.Check(operations, history.Options{Timeout: judgeWithin})
	report.Verdict = verdict.Outcome
	switch {
	case verdict.OK():
		return nil
	case verdict.Outcome == history.Violation:
		return fmt.Errorf("verdict %s, key %q: %s: %w", verdict.Outcome, verdict.Key, verdict.Explanation, ErrViolation)
	}
	return fmt.Errorf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
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
