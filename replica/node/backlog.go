package node

import (
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
)

// maxBacklog bounds the operations that wait for the next view; more is refused.
const maxBacklog = 16 << 10

// backlog keeps the operations that clients submit while the member takes on a view.
type backlog struct {
	mutex    sync.Mutex
	waiting  []*runtime.Handover
	released bool
}

// add keeps an operation, or refuses it. It is false, and does nothing, after the release.
func (b *backlog) add(op register.Operation, timeout time.Duration, done func(register.Result)) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case b.released:
		return false
	case len(b.waiting) >= maxBacklog:
		go done(register.Result{Status: register.Unavailable,
			Message: "too many operations wait until this member has taken on its view; slow down or ask another one"})
	default:
		b.waiting = append(b.waiting, runtime.NewHandover(op, timeout, done))
	}
	return true
}

// release hands over what was kept. Whoever comes later finds what the member is by then.
func (b *backlog) release() []*runtime.Handover {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.released = true
	return b.waiting
}
