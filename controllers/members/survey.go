package members

import (
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errMute is the answer of whoever says nothing in time.
var errMute = status.Errorf(codes.DeadlineExceeded, "said nothing within %v", askWithin)

// mutes are those who let their last question go without an answer: nobody waits for them until they have answered one.
// They are told apart by cluster.
type mutes struct {
	mu sync.Mutex
	of map[string]map[Target]asked
}

// asked is one who is mute, or has a question out.
type asked struct{ mute, out bool }

// ask notes that a question is about to be sent, and returns what was known before: while one is out there is none to
// send.
func (m *mutes) ask(cluster string, target Target) asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]map[Target]asked{}
	}
	if m.of[cluster] == nil {
		m.of[cluster] = map[Target]asked{}
	}
	before := m.of[cluster][target]
	m.of[cluster][target] = asked{mute: before.mute, out: true}
	return before
}

// end notes how a question ended, unless who was asked was forgotten meanwhile.
func (m *mutes) end(cluster string, target Target, inTime bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.of[cluster][target]; !known {
		return
	}
	if !inTime {
		m.of[cluster][target] = asked{mute: true}
		return
	}
	delete(m.of[cluster], target)
	if len(m.of[cluster]) == 0 {
		delete(m.of, cluster)
	}
}

// forget drops what is known of a cluster's targets but those that are kept.
func (m *mutes) forget(cluster string, kept []Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for target := range m.of[cluster] { // order is irrelevant: each is judged alone
		if !slices.Contains(kept, target) {
			delete(m.of[cluster], target)
		}
	}
	if len(m.of[cluster]) == 0 {
		delete(m.of, cluster)
	}
}

// survey asks all targets at the same time, each within askWithin, and returns the answers in their order.
// Whoever was mute the last time is asked too, and not waited for: its answer counts if it is there when all others
// have answered, and else it shows that the next survey has to wait for it again. So one who takes connections and
// never answers costs one survey its time, and no more.
func survey[T any](
	ctx context.Context, m *mutes, cluster string, targets []Target, ask func(context.Context, int) (T, error),
) []Reply[T] {
	answers := make([]Reply[T], len(targets))
	coming := make([]chan Reply[T], len(targets))
	waits := make([]bool, len(targets))
	for i, target := range targets {
		answers[i].Err = errMute
		before := m.ask(cluster, target)
		if before.out {
			continue
		}
		waits[i], coming[i] = !before.mute, make(chan Reply[T], 1)
		go func() {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
			defer cancel()
			said, err := ask(within, i)
			late := err != nil && errors.Is(within.Err(), context.DeadlineExceeded)
			if late {
				err = errMute
			}
			m.end(cluster, target, !late)
			coming[i] <- Reply[T]{said, err}
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
		if coming[i] != nil && !waits[i] {
			select {
			case answers[i] = <-coming[i]:
			default:
			}
		}
	}
	return answers
}
