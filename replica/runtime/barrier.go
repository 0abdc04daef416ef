package runtime

import (
	"sync"

	"github.com/georegister/georegister/replica/register"
)

// barrier is an operation that waits for fences in other shards than its own (register.Barrier).
type barrier struct {
	replica *Replica
	request request // as submitted
	home    *shard  // which has room for it; nil: it is a fence

	mutex sync.Mutex
	state register.Barrier
	over  bool // it went on, or ended, or another replica has it
}

// submitAfter is Submit of a fence, or of an operation that comes after others.
func (r *Replica) submitAfter(q request) bool {
	home := r.home(&q.operation)
	state, parts := register.NewBarrier(q.operation, r.place)
	switch {
	case home == nil && len(parts) == 0:
		go r.answer(&q.flight, register.Result{Status: register.OK, Fast: true})
		return true
	case len(parts) == 0:
		return home.submit(q)
	}
	b := &barrier{replica: r, request: q, home: home, state: state}
	if home != nil {
		if full, stopped := home.reserve(); full || stopped {
			return home.refuse(&q.flight, stopped)
		}
	}
	if !r.keepBarrier(b) {
		b.giveBack()
		failed := r.failed()
		if failed {
			go q.flight.done(stopping)
		}
		return failed
	}
	r.metrics.barriers.Inc()
	for _, part := range parts {
		s := r.shards[part.Shard]
		fence := request{
			operation: part.Fence,
			flight: flight{
				begun: q.flight.begun, deadline: q.flight.deadline, kind: register.Fence, part: true,
				done: func(result register.Result) { b.fenced(s.number, result) },
			},
		}
		full, stopped := s.queue(true, fence)
		switch {
		case stopped && r.carrying.Load(): // the barrier as a whole goes over
		case stopped:
			go b.fenced(s.number, stopping)
		case full:
			go b.fenced(s.number, tooMany)
		}
	}
	return true
}

// spans reports whether an operation has to wait for other shards.
func (r *Replica) spans(op *register.Operation) bool {
	for i := range op.After {
		if r.place(op.After[i].Key) != r.place(op.Key) {
			return true
		}
	}
	return false
}

// home is the shard of an operation; a fence has none.
func (r *Replica) home(op *register.Operation) *shard {
	if op.Kind == register.Fence {
		return nil
	}
	return r.shards[r.place(op.Key)]
}

// fenced goes on when the last fence is done, and ends the operation with the first that fails.
func (b *barrier) fenced(at int, result register.Result) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	step, ended := b.state.Fenced(at, result)
	switch {
	case b.over:
	case step == register.BarrierEnds:
		b.end(ended)
	case step == register.BarrierGoesOn:
		b.goOn()
	}
}

// end answers the operation, of which no shard has heard.
func (b *barrier) end(result register.Result) {
	b.over = true
	b.giveBack()
	b.replica.forgetBarrier(b)
	b.replica.answer(&b.request.flight, result)
}

// goOn hands the operation to its shard.
func (b *barrier) goOn() {
	q := b.request
	q.operation = b.state.Operation()
	q.flight.waited += b.state.RoundTrips()
	switch {
	case b.home.redeem(q):
		b.over = true
		b.replica.forgetBarrier(b)
	case b.replica.carrying.Load(): // the barrier as a whole goes over
	default:
		b.end(stopping)
	}
}

func (b *barrier) giveBack() {
	if b.home != nil {
		b.home.giveBack()
	}
}

// keepBarrier notes what goes over to the next replica. It is false if that was done already.
func (r *Replica) keepBarrier(b *barrier) bool {
	r.waiting.mutex.Lock()
	defer r.waiting.mutex.Unlock()
	if r.waiting.taken {
		return false
	}
	if r.waiting.barriers == nil {
		r.waiting.barriers = map[*barrier]bool{}
	}
	r.waiting.barriers[b] = true
	return true
}

func (r *Replica) forgetBarrier(b *barrier) {
	r.waiting.mutex.Lock()
	defer r.waiting.mutex.Unlock()
	delete(r.waiting.barriers, b)
}

// waiting are the barriers of a replica.
type waiting struct {
	mutex    sync.Mutex
	barriers map[*barrier]bool
	taken    bool // by Carry: there are no more
}

// carryBarriers takes what waits for fences. It begins again at the next replica.
func (r *Replica) carryBarriers() (all []*Carried) {
	r.waiting.mutex.Lock()
	barriers := r.waiting.barriers
	r.waiting.barriers, r.waiting.taken = nil, true
	r.waiting.mutex.Unlock()
	for b := range barriers {
		b.mutex.Lock()
		if !b.over {
			b.over = true
			all = append(all, r.carried(b.request))
		}
		b.mutex.Unlock()
	}
	return all
}

// answer ends an operation that is in no shard.
func (r *Replica) answer(f *flight, result register.Result) {
	r.metrics.finished(f.kind, &result, r.clock().Sub(f.begun))
	f.done(result)
}

// carried is an operation on its way to the next replica.
func (r *Replica) carried(q request) *Carried {
	c := &Carried{operation: q.operation, resume: q.resume, begun: r.moment(q.flight.begun), waited: q.flight.waited, done: q.flight.done}
	if q.flight.deadline != 0 {
		c.deadline = r.moment(q.flight.deadline)
	}
	return c.watched()
}
