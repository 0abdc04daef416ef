// Package coverage tells runs apart by what happened in them, without values, ids and times: which events there were,
// and which came after which, at a member or by a message from one to another.
package coverage

import (
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Feature is something that a run may have: an event, such as a path that the protocol takes, or two of them in their
// order. It is a hash; IsPair tells the two apart.
type Feature uint64

const pair Feature = 1

// IsPair reports whether the feature is one of two events.
func (f Feature) IsPair() bool { return f&pair != 0 }

// Event names what happens at a member; 0 is none.
type Event uint64

// Named is the event of a name.
func Named(name string) Event { return Event(mix(register.Hash([]byte(name)), 1)) }

// Run is what a run has been seen to have. A nil Run sees nothing.
type Run struct {
	Features []Feature                   // in the order in which they came first
	Moments  map[Feature]schedule.Moment // when that was

	now   func() (time.Duration, uint64)
	names map[string]Event
	last  []Event // by member
	cause Event   // of the message that is handled: what its sender had done last
}

// New observes a run; now tells its time and how many messages were sent.
func New(now func() (time.Duration, uint64)) *Run {
	return &Run{Moments: map[Feature]schedule.Moment{}, now: now, names: map[string]Event{}}
}

// Nowhere stands for no member, where it does not matter at which one something happens.
const Nowhere = -1

// Took notes an event by its name, at a member by its position, or Nowhere.
func (r *Run) Took(member int, name string) {
	if r == nil {
		return
	}
	e, known := r.names[name]
	if !known {
		e = Named(name)
		r.names[name] = e
	}
	r.Note(member, e)
}

// Note notes an event at a member.
func (r *Run) Note(member int, e Event) {
	at := member + 1
	for len(r.last) <= at {
		r.last = append(r.last, 0)
	}
	r.has(Feature(e)&^pair, member)
	r.has(Feature(mix(uint64(r.last[at]), uint64(e)))|pair, member)
	if r.cause != 0 && member != Nowhere {
		r.has(Feature(mix(uint64(r.cause)+1, uint64(e)))|pair, member)
	}
	r.last[at] = e
}

// Handles notes that a member handles a message until Handled. Cause is what its sender had done last when it sent it.
func (r *Run) Handles(cause Event) {
	if r != nil {
		r.cause = cause
	}
}

// Handled notes that it does so no more.
func (r *Run) Handled() {
	if r != nil {
		r.cause = 0
	}
}

// Last is what a member did last.
func (r *Run) Last(member int) Event {
	if r == nil || member+1 >= len(r.last) {
		return 0
	}
	return r.last[member+1]
}

func (r *Run) has(f Feature, member int) {
	if _, known := r.Moments[f]; known {
		return
	}
	now, sent := r.now()
	r.Moments[f] = schedule.Moment{At: now, Message: sent, Member: member}
	r.Features = append(r.Features, f)
}

// mix makes one number of two, from which neither can be told (splitmix64).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
