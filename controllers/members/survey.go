package members

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errMute is the answer of whoever says nothing in time.
var errMute = status.Errorf(codes.DeadlineExceeded, "said nothing within %v", askWithin)

// survey asks all targets of a cluster at the same time, each within askWithin, and returns the answers in their order.
// Connections of the cluster to others are closed. Whoever was mute the last time is asked too, and not waited for: its
// answer counts if it is there when all others have answered, and else it shows that the next survey has to wait for it
// again. So one who takes connections and never answers costs one survey its time, and no more.
func survey[C io.Closer, T any](
	ctx context.Context, l *links[C], cluster string, targets []Target,
	ask func(context.Context, C, Target) (T, error),
) []Reply[T] {
	l.keep(cluster, targets)
	answers := make([]Reply[T], len(targets))
	coming := make([]chan Reply[T], len(targets))
	waits := make([]bool, len(targets))
	for i, target := range targets {
		at := l.get(cluster, target) // now: a question may outlive this call, and its target
		answers[i].Err = errMute
		if !at.out.CompareAndSwap(false, true) {
			continue
		}
		waits[i], coming[i] = !at.mute.Load(), make(chan Reply[T], 1)
		go func() {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
			defer cancel()
			answer := Reply[T]{Err: at.err}
			if at.err == nil {
				answer.Report, answer.Err = ask(within, at.conn, target)
			}
			late := answer.Err != nil && errors.Is(within.Err(), context.DeadlineExceeded)
			if late {
				answer.Err = errMute
			}
			at.mute.Store(late)
			at.out.Store(false)
			coming[i] <- answer
		}()
	}
	for i := range targets {
		if waits[i] {
			select {
			case answers[i] = <-coming[i]:
			case <-ctx.Done():
				answers[i].Err = ctx.Err()
			}
		}
	}
	for i := range targets {
		if !waits[i] {
			select {
			case answers[i] = <-coming[i]: // of one that was not asked, never
			default:
			}
		}
	}
	return answers
}
