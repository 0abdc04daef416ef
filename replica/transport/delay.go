package transport

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// timerSlack is how late Go's timers may be in an idle process: the poller counts whole milliseconds.
const timerSlack = 1200 * time.Microsecond

// nap waits in the kernel, where waiting is exact to some 50 us; it may end early.
func nap(d time.Duration) {
	timeout := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &timeout)
}

// delayLine holds what arrives on a stream as long as the distance asks, in order.
type delayLine struct {
	peer    *peer
	delay   time.Duration
	jitter  time.Duration
	mutex   sync.Mutex
	held    []heldFrame
	latest  time.Time     // when the last of held is due
	wake    chan struct{} // capacity 1
	stopped chan struct{}
	task    sync.WaitGroup
}

type heldFrame struct {
	due   time.Time
	frame *peerv1.Frame
}

// newDelayLine returns a line that must be closed. Without a delay it passes everything on at once.
func newDelayLine(p *peer, delay func(view.MemberID) time.Duration, jitter time.Duration) *delayLine {
	l := &delayLine{peer: p, jitter: jitter, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	if delay != nil {
		l.delay = delay(p.member.ID)
	}
	if l.delayed() {
		l.task.Go(l.run)
	}
	return l
}

func (l *delayLine) delayed() bool { return l.delay > 0 || l.jitter > 0 }

func (l *delayLine) put(frame *peerv1.Frame) {
	if !l.delayed() {
		l.peer.deliver(frame)
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
	l.held = append(l.held, heldFrame{due, frame})
	l.mutex.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next takes the first frame if it is due, else says how long it has to wait; 0 if nothing is held.
func (l *delayLine) next() (*peerv1.Frame, time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.held) == 0 {
		return nil, 0
	}
	if wait := time.Until(l.held[0].due); wait > 0 {
		return nil, wait
	}
	frame := l.held[0].frame
	l.held[0].frame = nil
	l.held = l.held[1:]
	return frame, 0
}

func (l *delayLine) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		frame, wait := l.next()
		switch {
		case frame != nil:
			l.peer.deliver(frame)
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
func (l *delayLine) close() {
	close(l.stopped)
	l.task.Wait()
}
