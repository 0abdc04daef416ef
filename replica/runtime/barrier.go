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
		go r.answer(&q.submission, register.Result{Status: register.OK, Fast: true})
		return true
	case len(parts) == 0:
		return home.submit(q)
	}
	b := &barrier{replica: r, request: q, home: home, state: state}
	if home != nil {
		if full, stopped := home.reserve(); full || stopped {
			return home.refuse(&q.submission, stopped)
		}
	}
	if !r.barriers.add(b) {
		b.giveBack()
		failed := r.failed()
		if failed {
			go q.submission.done(stopping)
		}
		return failed
	}
	r.metrics.barriers.Inc()
	for _, part := range parts {
		s := r.shards[part.Shard]
		fence := request{
			operation: part.Fence,
			submission: submission{
				begun: q.submission.begun, deadline: q.submission.deadline, kind: register.Fence, part: true,
				done: func(result register.Result) { b.fenced(s.number, result) },
			},
		}
		full, stopped := s.queue(true, fence)
		switch {
		case stopped && r.handingOver.Load(): // the barrier as a whole goes over
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
	b.replica.barriers.remove(b)
	b.replica.answer(&b.request.submission, result)
}

// goOn hands the operation to its shard.
func (b *barrier) goOn() {
	q := b.request
	q.operation = b.state.Operation()
	q.submission.waited += b.state.RoundTrips()
	switch {
	case b.home.redeem(q):
		b.over = true
		b.replica.barriers.remove(b)
	case b.replica.handingOver.Load(): // the barrier as a whole goes over
	default:
		b.end(stopping)
	}
}

func (b *barrier) giveBack() {
	if b.home != nil {
		b.home.giveBack()
	}
}

// barriers are those of a replica that wait.
type barriers struct {
	mutex   sync.Mutex
	waiting map[*barrier]bool
	over    bool // the next replica has them: there are no more
}

// add notes what goes over to the next replica. It is false if that was done already.
func (w *barriers) add(b *barrier) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.over {
		return false
	}
	if w.waiting == nil {
		w.waiting = map[*barrier]bool{}
	}
	w.waiting[b] = true
	return true
}

func (w *barriers) remove(b *barrier) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.waiting, b)
}

// take ends them all, and returns their operations, which begin again at the next replica.
func (w *barriers) take() (all []request) {
	w.mutex.Lock()
	waiting := w.waiting
	w.waiting, w.over = nil, true
	w.mutex.Unlock()
	for b := range waiting {
		b.mutex.Lock()
		if !b.over {
			b.over = true
			all = append(all, b.request)
		}
		b.mutex.Unlock()
	}
	return all
}

// answer ends an operation that is in no shard.
func (r *Replica) answer(f *submission, result register.Result) {
	r.metrics.finished(f.kind, &result, r.clock.now().Sub(f.begun))
	f.done(result)
}

// handover is an operation on its way to the next replica.
func (r *Replica) handover(q request) *Handover {
	c := &Handover{
		operation: q.operation, resume: q.resume, begun: r.clock.moment(q.submission.begun),
		waited: q.submission.waited, done: q.submission.done,
	}
	if q.submission.deadline != 0 {
		c.deadline = r.clock.moment(q.submission.deadline)
	}
	return c.watched()
}
