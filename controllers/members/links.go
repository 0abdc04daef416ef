package members

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// links are the ways to members, or to witnesses, by cluster. Each is used again from one call to the next.
type links[C io.Closer] struct {
	dial func(Target) (C, error) // sends nothing: the first call does
	mu   sync.Mutex
	of   map[string]map[Target]*link[C]
}

// link is the connection to one target, or why there is none, and what became of the last question to it.
type link[C io.Closer] struct {
	conn C
	err  error
	// mute says that it let its last question go without an answer: no one waits for it until it has answered one.
	mute atomic.Bool
	// out says that a question is under way: no other one is sent.
	out atomic.Bool
}

// get returns the link to a target.
func (l *links[C]) get(cluster string, target Target) *link[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.of[cluster][target]; at != nil {
		return at
	}
	if l.of == nil {
		l.of = map[string]map[Target]*link[C]{}
	}
	if l.of[cluster] == nil {
		l.of[cluster] = map[Target]*link[C]{}
	}
	at := &link[C]{}
	at.conn, at.err = l.dial(target)
	l.of[cluster][target] = at
	return at
}

// keep closes the connections of a cluster to others than the targets.
func (l *links[C]) keep(cluster string, targets []Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, at := range l.of[cluster] { // order is irrelevant: each is judged alone
		if !slices.Contains(targets, target) {
			at.close()
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
	for _, targets := range l.of { // order is irrelevant: all are closed
		for _, at := range targets { // order is irrelevant: all are closed
			at.close()
		}
	}
	l.of = nil
}

func (l *link[C]) close() {
	if l.err == nil {
		_ = l.conn.Close() // fails only when it is closed already
	}
}

// call calls all targets of a cluster at the same time, and joins the errors in their order.
func (l *links[C]) call(cluster string, targets []Target, call func(C, Target) error) error {
	errs := make([]error, len(targets))
	var calls sync.WaitGroup
	for i, target := range targets {
		calls.Go(func() {
			at := l.get(cluster, target)
			if errs[i] = at.err; at.err == nil {
				errs[i] = call(at.conn, target)
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}
