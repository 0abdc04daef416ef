package transport

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late Go's timers may be in an idle process: the poller counts whole milliseconds.
const timerSlack = 1200 * time.Microsecond

// nap waits in the kernel, where waiting is exact to some 50 us; it may end early.
func nap(d time.Duration) {
	timeout := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &timeout)
}

// delayLine holds what passes as long as the distance asks, in order.
type delayLine[T any] struct {
	deliver func(T)
	delay   time.Duration
	jitter  time.Duration
	mutex   sync.Mutex
	held    []held[T]
	latest  time.Time     // when the last of held is due
	wake    chan struct{} // capacity 1
	stopped chan struct{}
	task    sync.WaitGroup
}

type held[T any] struct {
	due  time.Time
	what T
}

// newDelayLine returns a line that must be closed. Without a delay it passes everything on at once.
func newDelayLine[T any](delay, jitter time.Duration, deliver func(T)) *delayLine[T] {
	l := &delayLine[T]{
		deliver: deliver, delay: delay, jitter: jitter, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	if l.delayed() {
		l.task.Go(l.run)
	}
	return l
}

func (l *delayLine[T]) delayed() bool { return l.delay > 0 || l.jitter > 0 }

func (l *delayLine[T]) put(what T) {
	if !l.delayed() {
		l.deliver(what)
		return
	}
	due := time.Now().Add(l.delay)
	if l.jitter > 0 {
		due = due.Add(rand.N(l.jitter))
	}
	l.mutex.Lock()
	if due.Before(l.latest) {
		due = l.latest // a link does not reorder
	}
	l.latest = due
	l.held = append(l.held, held[T]{due, what})
	l.mutex.Unlock()
	signal(l.wake)
}

// next takes the first that is held if it is due, else says how long it has to wait; 0 if nothing is held.
func (l *delayLine[T]) next() (what T, due bool, wait time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.held) == 0 {
		return what, false, 0
	}
	if wait := time.Until(l.held[0].due); wait > 0 {
		return what, false, wait
	}
	what = l.held[0].what
	l.held[0] = held[T]{}
	l.held = l.held[1:]
	return what, true, 0
}

func (l *delayLine[T]) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		what, due, wait := l.next()
		switch {
		case due:
			l.deliver(what)
		case wait > 0 && wait <= timerSlack:
			nap(wait)
		case wait > 0:
			timer.Reset(wait - timerSlack)
			select {
			case <-timer.C:
			case <-l.stopped:
				return
			}
		default:
			select {
			case <-l.wake:
			case <-l.stopped:
				return
			}
		}
	}
}

// close drops what is held.
func (l *delayLine[T]) close() {
	close(l.stopped)
	l.task.Wait()
}
