package node

import (
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
)

// maxHeld bounds the operations that wait for the next view; more is refused.
const maxHeld = 16 << 10

// holding keeps the operations that clients submit while the member takes on a view.
type holding struct {
	mutex    sync.Mutex
	held     []*runtime.Carried
	released bool
}

// add keeps an operation, or refuses it. It is false, and does nothing, after the release.
func (h *holding) add(op register.Operation, timeout time.Duration, done func(register.Result)) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case h.released:
		return false
	case len(h.held) >= maxHeld:
		go done(register.Result{Status: register.Unavailable,
			Message: "too many operations wait until this member has taken on its view; slow down or ask another one"})
	default:
		h.held = append(h.held, runtime.Hold(op, timeout, done))
	}
	return true
}

// release hands over what was kept. Whoever comes later finds what the member is by then.
func (h *holding) release() []*runtime.Carried {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.released = true
	return h.held
}
