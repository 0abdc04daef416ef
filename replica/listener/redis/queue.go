package redis

import (
	"sync"
	"time"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
)

// queue holds the calls of one connection in the order of their replies. The reader of the connection adds them, the
// store answers their operations in any order, and the writer takes those at the head that are complete. Steps on one
// key are submitted one after another.
type queue struct {
	options *Options
	session *operation.Session

	mu         sync.Mutex
	ready      sync.Cond // the writer waits for it
	room       sync.Cond // the reader waits for it
	memory     *operation.Account
	head, tail *call            // calls without a sent reply, in order
	pending    int              // steps of these that are not answered
	unsent     int              // bytes that complete calls hold
	last       map[string]*step // the last step of each key that has one unanswered
	free       *call            // calls for the next commands
	idle       int              // how many
	closing    bool             // no more calls will come
	broken     bool             // no more replies can be sent
	over       bool             // no one reads or writes any more; operations may go on
}

// newQueue returns the queue of a connection, whose account is still to be set.
func newQueue(options *Options, listener *operation.ListenerMetrics) *queue {
	q := &queue{options: options, last: map[string]*step{}}
	q.ready.L, q.room.L = &q.mu, &q.mu
	q.session = operation.NewSession(&options.Options, listener, q.hold)
	return q
}

// hold notes that the connection holds n bytes more, or less.
func (q *queue) hold(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.memory.Hold(n)
}

// newCall returns an empty call.
func (q *queue) newCall() *call {
	q.mu.Lock()
	k := q.free
	if k != nil {
		q.free, k.next = k.next, nil
		q.idle--
		q.memory.Hold(-k.emptyBytes())
	}
	q.mu.Unlock()
	if k == nil {
		return &call{queue: q}
	}
	return k
}

// add puts a call in line for its reply and submits its steps, each as soon as no earlier one has the same key. It
// waits for room. It reports false if the connection is broken.
func (q *queue) add(k *call) bool {
	if !q.memory.Wait() {
		return false
	}
	k.remaining = len(k.steps)
	k.size = k.requestBytes()
	if k.remaining > 0 {
		k.deadline = time.Now().Add(q.options.Timeout)
	}
	q.mu.Lock()
	for (q.pending >= q.options.MaxInFlight || q.unsent >= q.options.MaxOutputBytes) && !q.broken {
		q.ready.Signal()
		q.room.Wait()
	}
	if q.broken {
		q.mu.Unlock()
		return false
	}
	if q.tail == nil {
		q.head = k
	} else {
		q.tail.next = k
	}
	q.tail = k
	q.memory.Hold(k.size)
	if k.remaining == 0 {
		q.unsent += k.replyBytes()
		q.mu.Unlock()
		return true
	}
	q.pending += k.remaining
	// A step that has to wait is submitted after the one before it; the count keeps the call, and with it its
	// steps, from being reused until this loop is over.
	k.remaining++
	for i := range k.steps {
		s := &k.steps[i]
		before := q.last[s.Op.Key]
		q.last[s.Op.Key] = s
		if before != nil {
			before.behind = s
			continue
		}
		q.mu.Unlock()
		q.session.Submit(&s.Pending, k.deadline)
		q.mu.Lock()
	}
	q.countDown(k)
	q.mu.Unlock()
	return true
}

// onResult ends the step, or goes on with its next operation. The store's goroutines call it, so what may block goes to
// a goroutine of its own.
func (s *step) onResult(r register.Result) {
	q := s.call.queue
	if s.then != nil && s.then(s, r) {
		go q.session.Submit(&s.Pending, s.call.deadline)
		return
	}
	if next := q.answered(s, r); next != nil {
		go q.session.Submit(&next.Pending, next.call.deadline)
	}
}

// answered records a step's result and returns the step that waited for it.
func (q *queue) answered(s *step, r register.Result) (next *step) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.memory.Leaving() && !q.broken {
		q.broken = true // before the answer is dropped, which no one may take for one
		q.ready.Signal()
	}
	if !q.broken {
		s.result = r
		s.call.size += len(r.Value)
		q.memory.Hold(len(r.Value))
	}
	next = q.finish(s)
	// no one will read the answers: what has not been submitted ends with what it waited for
	for q.broken && next != nil {
		next = q.finish(next)
	}
	return next
}

// finish ends a step, under the lock, and returns the one that waited for it.
func (q *queue) finish(s *step) (next *step) {
	next, s.behind = s.behind, nil
	if key := s.Op.Key; q.last[key] == s {
		delete(q.last, key)
	}
	q.pending--
	q.room.Signal()
	q.countDown(s.call)
	return next
}

// countDown counts down what a call waits for, under the lock.
func (q *queue) countDown(k *call) {
	if k.remaining--; k.remaining > 0 {
		return
	}
	if q.over {
		q.memory.Hold(-k.size)
		return
	}
	q.unsent += k.replyBytes()
	if q.head == k {
		q.ready.Signal()
	}
}

// take waits for calls at the head of the queue that are complete and takes them off, up to about batchBytes. It
// returns none when there is nothing more to write.
func (q *queue) take() (first, last *call, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && (q.head == nil || q.head.remaining > 0) && !(q.head == nil && q.closing) {
		q.ready.Wait()
	}
	if q.broken || q.head == nil {
		return nil, nil, 0
	}
	first = q.head
	for q.head != nil && q.head.remaining == 0 && size < batchBytes && (last == nil || !last.hangUp) {
		last = q.head
		size += last.replyBytes()
		q.head = last.next
	}
	if q.head == nil {
		q.tail = nil
	}
	q.memory.Hold(size) // the replies are written into a buffer
	return first, last, size
}

// keptCalls is how many calls a connection keeps for its next commands.
const keptCalls = 64

// sent takes calls back whose replies are sent.
func (q *queue) sent(first, last *call, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	freed := 0
	for k, end := first, false; !end; {
		next := k.next
		end = k == last
		freed += k.size
		k.reset()
		if q.idle < keptCalls {
			k.next, q.free = q.free, k
			q.idle++
			freed -= k.emptyBytes()
		}
		k = next
	}
	q.memory.Hold(-freed - size)
	q.unsent -= size
	q.room.Signal()
}

// flush wakes the writer, so that replies made at once leave together before the reader waits for the client.
func (q *queue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready.Signal()
}

// settle waits until all calls are answered, though maybe not replied to. It reports false if the connection is broken.
func (q *queue) settle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.pending > 0 && !q.broken {
		q.ready.Signal()
		q.room.Wait()
	}
	return !q.broken
}

// close notes that no more calls will come.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closing = true
	q.ready.Signal()
}

// breakOff notes that no more replies can be sent.
func (q *queue) breakOff() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken = true
	q.ready.Signal()
	q.room.Signal()
}

// end notes that no one reads or writes any more; only what operations under way hold is still counted.
func (q *queue) end() {
	q.session.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	left := 0
	for k := q.head; k != nil; k = k.next {
		if k.remaining > 0 {
			left += k.size
		}
	}
	q.over = true
	q.memory.End(left)
}
