package transport

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// queue is what waits for a stream: messages, and what measures round trips.
type queue struct {
	size            func(*peerv1.Message) int // the encoded size of a message, about
	messages, bytes int                       // bounds of what waits
	sent, dropped   *atomic.Uint64
	wake            chan struct{} // capacity 1

	mutex   sync.Mutex
	waiting []*peerv1.Message
	waits   int    // bytes, by size
	ping    uint64 // a ping to send, or 0
	pong    uint64 // the answer to one, or 0
}

// newQueue returns a queue to the other end of a link.
func newQueue(l *link, messages, bytes int, size func(*peerv1.Message) int) *queue {
	return &queue{
		size: size, messages: messages, bytes: bytes, sent: &l.sent, dropped: &l.dropped, wake: make(chan struct{}, 1),
	}
}

// signal wakes whoever waits at a channel of capacity 1.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// put queues messages, as far as they fit.
func (q *queue) put(messages []*peerv1.Message) {
	if len(messages) == 0 {
		return
	}
	q.mutex.Lock()
	for _, m := range messages {
		size := q.size(m)
		if len(q.waiting) >= q.messages || q.waits+size > q.bytes {
			q.dropped.Add(1)
			continue
		}
		q.waiting = append(q.waiting, m)
		q.waits += size
	}
	q.mutex.Unlock()
	signal(q.wake)
}

// measure sends a ping, an answer to one, or both; 0 is none. One that was not sent yet is replaced: time in a queue of
// a broken connection is no round trip.
func (q *queue) measure(ping, pong uint64) {
	q.mutex.Lock()
	q.ping, q.pong = cmp.Or(ping, q.ping), cmp.Or(pong, q.pong)
	q.mutex.Unlock()
	signal(q.wake)
}

// discard drops what waits.
func (q *queue) discard() {
	waiting, _, _ := q.take(nil)
	q.dropped.Add(uint64(len(waiting)))
}

// take empties the queue into spare.
func (q *queue) take(spare []*peerv1.Message) (waiting []*peerv1.Message, ping, pong uint64) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	waiting, q.waiting, q.waits = q.waiting, spare[:0], 0
	ping, pong, q.ping, q.pong = q.ping, q.pong, 0, 0
	return waiting, ping, pong
}

// pump sends what is queued, one frame after the other, until the context ends or a frame can't be sent.
func (q *queue) pump(
	ctx context.Context, send func(messages []*peerv1.Message, ping, pong uint64) error,
) error {
	var waiting []*peerv1.Message
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Who wakes this often has more to send in a moment, and so have others: one larger frame costs less than two.
		runtime.Gosched()
		var ping, pong uint64
		waiting, ping, pong = q.take(waiting)
		for rest := waiting; len(rest) > 0 || ping != 0 || pong != 0; ping, pong = 0, 0 {
			n := q.frame(rest)
			if err := send(rest[:n], ping, pong); err != nil {
				q.dropped.Add(uint64(len(rest)))
				return fmt.Errorf("send: %w", err)
			}
			q.sent.Add(uint64(n))
			rest = rest[n:]
		}
		clear(waiting)
	}
}

// frame reports how many of the messages go into one frame.
func (q *queue) frame(messages []*peerv1.Message) int {
	size := 0
	for i, m := range messages {
		if size += q.size(m); size > frameBytes && i > 0 {
			return i
		}
	}
	return len(messages)
}
