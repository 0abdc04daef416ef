package netem

import (
	"container/heap"
	"fmt"
	"time"
)

// Link decides when packets leave a netem. Times are durations since any one moment.
type Link struct {
	spec Spec
	dice func() float64 // uniform in [0, 1)

	free               time.Duration // when the last packet so far has been put on the wire, at Spec.Rate
	lastDelay, lastDie float64       // what correlation goes by

	held          int
	passed, lost  uint64
	lagSum, lagTo time.Duration
}

// NewLink makes the link of a netem. Dice gives uniform numbers in [0, 1).
func NewLink(spec Spec, dice func() float64) *Link { return &Link{spec: spec, dice: dice} }

// Admit takes a packet of so many bytes at a moment, and says when it is due. Ok is false if it is lost.
func (l *Link) Admit(now time.Duration, size int) (due time.Duration, ok bool) {
	if l.held >= l.limit() || l.spec.Loss > 0 && l.roll(&l.lastDie, l.spec.LossCorrelation) < l.spec.Loss {
		l.lost++
		return 0, false
	}
	sent := now
	if l.spec.Rate > 0 {
		sent = max(now, l.free) + time.Duration(float64(size)/l.spec.Rate*float64(time.Second))
		l.free = sent
	}
	delay := l.spec.Delay
	if l.spec.Jitter > 0 {
		delay += time.Duration((2*l.roll(&l.lastDelay, l.spec.DelayCorrelation) - 1) * float64(l.spec.Jitter))
	}
	l.held++
	return sent + max(delay, 0), true
}

// Leave tells that a packet which was admitted has left, so much later than it was due.
func (l *Link) Leave(lag time.Duration) {
	l.held--
	l.passed++
	l.lagSum += lag
	l.lagTo = max(l.lagTo, lag)
}

// Lag is the mean and the longest time by which packets left later than they were due.
func (l *Link) Lag() (mean, longest time.Duration) {
	if l.passed > 0 {
		mean = l.lagSum / time.Duration(l.passed)
	}
	return mean, l.lagTo
}

// String says what the link has done.
func (l *Link) String() string {
	mean, longest := l.Lag()
	return fmt.Sprintf("passed %d, lost %d, held %d packets; lag %v in the mean, %v at most",
		l.passed, l.lost, l.held, mean.Round(time.Microsecond), longest.Round(time.Microsecond))
}

func (l *Link) limit() int {
	if l.spec.Limit > 0 {
		return l.spec.Limit
	}
	return defaultLimit
}

// roll draws a number that is, by the given share, the one before.
func (l *Link) roll(last *float64, correlation float64) float64 {
	*last = (1-correlation)*l.dice() + correlation**last
	return *last
}

// Admit takes a packet into all the links of a route, one after the other. A packet that is lost is held by none.
func (r Route) Admit(now time.Duration, size int) (due time.Duration, ok bool) {
	due = now
	for i, l := range r.Path {
		if due, ok = l.Admit(due, size); !ok {
			for _, before := range r.Path[:i] {
				before.held--
			}
			return 0, false
		}
	}
	return due, true
}

// Leave tells all the links of a route that a packet has left.
func (r Route) Leave(lag time.Duration) {
	for _, l := range r.Path {
		l.Leave(lag)
	}
}

// Schedule holds what is due later, and gives it back in the order of time; what is due at once, as it came.
type Schedule[T any] struct {
	waiting entries[T]
	count   uint64
}

type entry[T any] struct {
	due  time.Duration
	nth  uint64
	what T
}

type entries[T any] []entry[T]

func (e entries[T]) Len() int      { return len(e) }
func (e entries[T]) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries[T]) Push(x any)   { *e = append(*e, x.(entry[T])) }
func (e entries[T]) Less(i, j int) bool {
	return e[i].due < e[j].due || e[i].due == e[j].due && e[i].nth < e[j].nth
}
func (e *entries[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry[T]{}
	*e = (*e)[:last]
	return x
}

// Put adds something that is due at a moment. It tells whether nothing is due before it.
func (s *Schedule[T]) Put(due time.Duration, what T) (first bool) {
	s.count++
	heap.Push(&s.waiting, entry[T]{due, s.count, what})
	return s.waiting[0].nth == s.count
}

// Take removes what is due by now, one at a time, and tells when it was due.
func (s *Schedule[T]) Take(now time.Duration) (what T, due time.Duration, ok bool) {
	if len(s.waiting) == 0 || s.waiting[0].due > now {
		return what, 0, false
	}
	e := heap.Pop(&s.waiting).(entry[T])
	return e.what, e.due, true
}

// Next tells when something is due next; ok is false if nothing is.
func (s *Schedule[T]) Next() (due time.Duration, ok bool) {
	if len(s.waiting) == 0 {
		return 0, false
	}
	return s.waiting[0].due, true
}
