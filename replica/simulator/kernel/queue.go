package kernel

import "time"

// Event is what happens.
type Event interface{ Happen() }

type function func()

func (do function) Happen() { do() }

// event is something that happens at a time. Events of one time happen in the order in which they were made.
type event struct {
	at       time.Duration
	sequence uint64
	Event
	life  *uint32 // of the process that it happens to; nil: to none
	begun uint32  // the life in which it was made
}

// queue is a binary heap by (at, sequence), typed because it is the simulator's hottest loop.
type queue []event

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.sequence < other.sequence
}

// push moves what comes later down to make room, and copies no event twice.
func (q *queue) push(e event) {
	*q = append(*q, event{})
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (q *queue) pop() event {
	h := *q
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{} // lets go of what it holds
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(&last) {
			h[i] = last
			return top
		}
		h[i] = h[child]
		i = child
	}
}
