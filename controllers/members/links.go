package members

import (
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// links are the connections to members, or to witnesses, by cluster. Each is used again from one call to the next.
type links[C io.Closer] struct {
	mu    sync.Mutex
	of    map[string]map[Target]C
	mutes mutes
}

// get returns the connection to a target. Nothing is sent before the first call.
func (l *links[C]) get(cluster string, target Target, dial func(Target) (C, error)) (C, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn, ok := l.of[cluster][target]; ok {
		return conn, nil
	}
	conn, err := dial(target)
	if err != nil {
		return conn, err
	}
	if l.of == nil {
		l.of = map[string]map[Target]C{}
	}
	if l.of[cluster] == nil {
		l.of[cluster] = map[Target]C{}
	}
	l.of[cluster][target] = conn
	return conn, nil
}

// keep closes the connections of a cluster to others than the targets, and forgets who of these others was mute.
func (l *links[C]) keep(cluster string, targets []Target) {
	l.mutes.forget(cluster, targets)
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, conn := range l.of[cluster] { // order is irrelevant: each is judged alone
		if !slices.Contains(targets, target) {
			_ = conn.Close() // fails only when it is closed already
			delete(l.of[cluster], target)
		}
	}
	if len(l.of[cluster]) == 0 {
		delete(l.of, cluster)
	}
}

// close closes all connections.
func (l *links[C]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conns := range l.of { // order is irrelevant: all are closed
		for _, conn := range conns { // order is irrelevant: all are closed
			_ = conn.Close() // fails only when it is closed already
		}
	}
	l.of = nil
}

// each calls all targets at the same time, and joins the errors in their order.
func each(targets []Target, call func(Target) error) error {
	errs := make([]error, len(targets))
	var calls errgroup.Group
	for i, target := range targets {
		calls.Go(func() error {
			errs[i] = call(target)
			return nil
		})
	}
	_ = calls.Wait() // joined below
	return errors.Join(errs...)
}
