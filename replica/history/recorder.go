package history

import (
	"slices"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Recorder stamps operations with a strictly increasing clock and keeps them. It may be used by several
// goroutines.
type Recorder struct {
	mu         sync.Mutex
	clock      func() time.Duration
	last       time.Duration
	operations []*Operation // nil if the recorder only stamps
	fences     []Fence
	keep       bool
}

// NewRecorder records with the given clock, which may stand still but must not go back: the simulator
// gives its virtual time. A nil clock is the machine's monotonic clock, from 0 at this call.
func NewRecorder(clock func() time.Duration) *Recorder {
	r := NewStamper(clock)
	r.keep = true
	return r
}

// NewStamper is a Recorder that keeps nothing, for measurements that are too long to be held in memory.
func NewStamper(clock func() time.Duration) *Recorder {
	if clock == nil {
		start := time.Now()
		clock = func() time.Duration { return time.Since(start) }
	}
	return &Recorder{clock: clock, last: -1}
}

// Invocation is an operation that has begun.
type Invocation struct {
	recorder  *Recorder
	operation *Operation
}

// Invoke notes that a client is about to send a request. Call it before the request can take effect.
func (r *Recorder) Invoke(client, site string, request register.Operation) Invocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &Operation{Client: client, Site: site, Request: request, Invoked: r.stamp()}
	o.Result.Status = register.Unknown
	if r.keep {
		r.operations = append(r.operations, o)
	}
	return Invocation{recorder: r, operation: o}
}

// Return notes what the client got, and returns the finished record. Call it once, after the answer came.
func (i Invocation) Return(result register.Result) Operation {
	i.recorder.mu.Lock()
	defer i.recorder.mu.Unlock()
	i.operation.Returned = i.recorder.stamp()
	i.operation.Result = result
	return *i.operation
}

// Stamp is a reading for what is no operation, such as a message between clients: after everything that was noted
// before.
func (r *Recorder) Stamp() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stamp()
}

// Fence notes that a client is about to fence. Call end once the fence has ended without an error, and never after one.
func (r *Recorder) Fence(client string) (end func()) {
	f := Fence{Client: client, Invoked: r.Stamp()}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.Returned = r.stamp(); r.keep {
			r.fences = append(r.fences, f)
		}
	}
}

// Record copies out all operations, as Operations does, and the fences that have ended.
func (r *Recorder) Record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := Record{Operations: make([]Operation, len(r.operations)), Fences: slices.Clone(r.fences)}
	for i, o := range r.operations {
		record.Operations[i] = *o
	}
	return record
}

// Operations copies out all operations in the order of their invocation. Those that have not returned have
// an unknown outcome.
func (r *Recorder) Operations() []Operation { return r.Record().Operations }

// Len is how many operations there are so far.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.operations)
}

// stamp is the clock, pushed on where it stands still: what happened one after the other is never concurrent.
func (r *Recorder) stamp() time.Duration {
	r.last = max(r.clock(), r.last+1)
	return r.last
}
