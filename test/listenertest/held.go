package listenertest

import (
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Held is a store that answers when the test lets it.
type Held struct {
	Inner Memory // carries out what is released

	mu      sync.Mutex
	waiting []func()
	opened  bool
}

// Open has it answer by itself what comes from now on, and Shut no more.
func (h *Held) Open() { h.set(true) }

// Shut has it hold what comes from now on.
func (h *Held) Shut() { h.set(false) }

func (h *Held) set(opened bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = opened
}

// Submit holds an operation until it is released.
func (h *Held) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened {
		h.Inner.Submit(op, timeout, done)
		return
	}
	h.waiting = append(h.waiting, func() { h.Inner.Submit(op, timeout, done) })
}

// Count is how many operations it holds.
func (h *Held) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting)
}

// Release answers the i-th operation that it holds.
func (h *Held) Release(i int) {
	h.mu.Lock()
	answer := h.waiting[i]
	h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
	h.mu.Unlock()
	answer()
}
