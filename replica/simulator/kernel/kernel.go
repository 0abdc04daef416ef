// Package kernel is what a simulated run rests on: virtual time, events in their order, and random draws that follow
// from one seed. It knows nothing of what happens in the events.
package kernel

import (
	"context"
	"fmt"
	"time"
)

// pause is after how many events a run looks whether it is to end, and reports how far it is.
const pause = 1024

// Kernel is one run: a thread of events in virtual time.
type Kernel struct {
	Now  time.Duration // virtual, since the start
	Seed uint64

	Context  context.Context // when it ends, so does the run
	Progress func()          // called now and then; nil: no one asks
	Count    func(string)    // called with each path that the run takes; nil: no one asks
	Limit    uint64          // of events; 0: none
	Observed bool            // what happens is told apart from what happens in other runs (package coverage)

	Events  uint64        // that have happened
	Busy    int           // operations of clients in progress
	Settled bool          // the faults are over: from now on everything must make progress
	Calm    time.Duration // since when
	Err     error         // the first thing that must not happen; it ends the run

	sequence uint64
	queue    queue
}

// Took counts a path that the run took.
func (k *Kernel) Took(path string) {
	if k.Count != nil {
		k.Count(path)
	}
}

// TookWithFaults counts a path that the run took, and by a name of its own if the faults were not over.
func (k *Kernel) TookWithFaults(path string) {
	k.Took(path)
	if !k.Settled {
		k.Took(path + ".meanwhile")
	}
}

// After has something happen after some time. What is to happen at one time happens in the order of these calls.
func (k *Kernel) After(wait time.Duration, do func()) {
	k.Schedule(wait, function(do))
}

// AfterIn has something happen to a process after some time, unless that has ended by then: its life is another one.
func (k *Kernel) AfterIn(life *uint32, wait time.Duration, do func()) {
	k.sequence++
	k.queue.push(event{at: k.Now + wait, sequence: k.sequence, Event: function(do), life: life, begun: *life})
}

// Schedule is After for what holds its own data: no function has to be made for each.
func (k *Kernel) Schedule(wait time.Duration, e Event) {
	k.sequence++
	k.queue.push(event{at: k.Now + wait, sequence: k.sequence, Event: e})
}

// Fail notes the first thing that must not happen; the run ends there.
func (k *Kernel) Fail(format string, args ...any) {
	if k.Err == nil {
		k.Err = fmt.Errorf(format, args...)
	}
}

// Draws is the source of random numbers of one purpose, such as one of several links.
func (k *Kernel) Draws(purpose, index uint64) Stream { return NewStream(k.Seed, purpose, index) }

// Run has events happen until done says so, time is up, or something must not have happened. It reports whether done
// said so.
func (k *Kernel) Run(until time.Duration, done func() bool) bool {
	for k.Err == nil {
		if done() {
			return true
		}
		if len(k.queue) == 0 || k.queue[0].at > until {
			k.Now = max(k.Now, until)
			return false
		}
		e := k.queue.pop()
		k.Now = e.at
		if k.Events++; k.Limit > 0 && k.Events > k.Limit {
			k.Fail("there is no end to what members send each other: %d events are waiting after %d", len(k.queue), k.Limit)
			return false
		}
		if k.Events%pause == 0 {
			if k.Err = context.Cause(k.Context); k.Err != nil {
				return false
			}
			if k.Progress != nil {
				k.Progress()
			}
		}
		if e.life == nil || *e.life == e.begun {
			e.Happen()
		}
	}
	return false
}
