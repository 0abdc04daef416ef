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
	// endWithin is how long an interrupted check goes on.
	endWithin = 5 * time.Second
	// readBackPause is between two tries to read a key back.
	readBackPause = 200 * time.Millisecond
)

// ErrViolation is in the error of a history that is not what the store promises, and of no other: whatever else fails
// decides nothing about the store.
var ErrViolation = errors.New("the history is not what the store's protocol promises")

// fenceEvery is after how many operations a client of a regular store fences: so seldom that most reads are passed on
// by what their session does next.
const fenceEvery = 50

// Regular reports whether a protocol is regular sequentially consistent, so that its histories are judged as that. An
// unknown one is not.
func Regular(protocol string) bool {
	p, err := capability.Find(protocol)
	return err == nil && p.Regular()
}

// FenceEvery is after how many operations the clients of a Loop should fence: never, unless the protocol is regular.
func FenceEvery(protocol string) int {
	if Regular(protocol) {
		return fenceEvery
	}
	return 0
}

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
	switch {
	case p.CheckOperation(register.Write) != nil: // it may apply an update more than once
		spec.Mix, spec.RMWs = workload.Mix{Read: 50, RMW: 50}, workload.RMWIdempotent
	case p.CheckOperation(register.RMW) == nil:
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

// Ending is a context for what comes after an interrupted load, such as reading back: it ends some seconds after the
// one that was interrupted, so that what takes a moment is whole, and nothing else keeps a program from ending. Call
// the function when that is over.
func Ending(ctx context.Context) (context.Context, context.CancelFunc) {
	ending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(endWithin, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(ending, func() { late.Stop() })
	})
	return ending, func() { stop(); cancel(nil) }
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

// Conclude writes the history to a file, unless that is empty, and judges it.
func Conclude(
	ctx context.Context, protocol string, recorder *history.Recorder, report *workload.Report, file string,
) error {
	record := recorder.Record()
	if file != "" {
		if err := history.WriteRecordFile(file, record); err != nil {
			return err
		}
	}
	return Judge(ctx, protocol, record, report)
}

// Judge decides whether a history is what a protocol promises: regular sequentially consistent, with the fences of the
// record, or linearizable. It notes the verdict in the report, and returns an error unless the history is that. Once
// the context ends, nothing is decided.
func Judge(ctx context.Context, protocol string, record history.Record, report *workload.Report) error {
	if Regular(protocol) {
		return judgeRSC(ctx, record, report)
	}
	verdict := history.Check(ctx, record.Operations, history.Options{Timeout: judgeWithin})
	report.Verdict = verdict.Outcome
	return wrong(verdict.Outcome, fmt.Sprintf(", key %q", verdict.Key), verdict.Explanation)
}

func judgeRSC(ctx context.Context, record history.Record, report *workload.Report) error {
	verdict, err := record.CheckRSC(ctx, history.RSCOptions{})
	if err != nil {
		return err
	}
	report.Verdict = verdict.Outcome
	return wrong(verdict.Outcome, "", verdict.Explanation)
}

// wrong makes the error of a verdict.
func wrong(outcome history.Outcome, where, explanation string) error {
	switch outcome {
	case history.Linearizable, history.RegularSequential:
		return nil
	case history.Violation:
		return fmt.Errorf("verdict %s%s: %s: %w", outcome, where, explanation, ErrViolation)
	}
	return fmt.Errorf("verdict %s%s: %s", outcome, where, explanation)
}
