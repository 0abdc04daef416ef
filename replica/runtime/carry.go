package runtime

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Carried is an operation on its way into another view: taken from the replica that stops (Replica.Carry), or submitted
// while there is none (Hold). The next replica goes on with it (Replica.Resume), or it ends without one (End); it ends
// once in any case, soon after its deadline at the latest.
type Carried struct {
	operation register.Operation
	resume    protocol.Resume
	begun     time.Time
	waited    int       // flight's
	deadline  time.Time // zero: there is none
	done      func(register.Result)
	timer     *time.Timer // ends it at the deadline; nil: there is none
}

// Hold keeps an operation for the next replica; what it is given is as Replica.Submit says.
func Hold(op register.Operation, timeout time.Duration, done func(register.Result)) *Carried {
	c := &Carried{operation: op, begun: time.Now(), done: done}
	if timeout > 0 {
		c.deadline = c.begun.Add(timeout)
	}
	return c.watched()
}

func (c *Carried) watched() *Carried {
	if !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() {
			c.done(unserved(c.resume, "this member took on another view until the operation's time was up; try again"))
		})
	}
	return c
}

// claim is true for one caller, unless the deadline has ended the operation.
func (c *Carried) claim() bool { return c.timer == nil || c.timer.Stop() }

// End ends the operation, for which nobody does anything any more. What others may have heard of may yet take effect.
func (c *Carried) End(why string) {
	if c.claim() {
		c.done(unserved(c.resume, why))
	}
}

func unserved(done protocol.Resume, why string) register.Result {
	if done == nil {
		return register.Result{Status: register.Unavailable, Message: why}
	}
	return register.Result{Status: register.Unknown, Message: why}
}

// Carry stops the replica as Close does, but at once: what was done reaches the disk, and what is answered with that is
// answered; the operations that are left are returned. What the protocol can't name ends as unknown, as does everything
// after a failure.
func (r *Replica) Carry() ([]*Carried, error) {
	r.closing.Do(func() {
		r.carrying.Store(true)
		r.closed = r.end()
	})
	var all []*Carried
	for _, s := range r.shards {
		s.mutex.Lock() // after a failure the loop may be at work yet
		all = append(all, s.carried...)
		s.carried = nil
		s.mutex.Unlock()
	}
	return append(all, r.carryBarriers()...), r.closed
}

// Resume goes on with operations from before. What comes from another replica has to come before anything is submitted:
// protocols ask for that.
func (r *Replica) Resume(operations []*Carried) {
	requests := make([][]request, len(r.shards))
	var barriers []request
	for _, c := range operations {
		if !c.claim() {
			continue
		}
		if err := r.check(&c.operation); err != nil {
			c.done(register.Result{Status: register.Invalid, Message: err.Error()})
			continue
		}
		q := request{
			operation: c.operation, resume: c.resume,
			flight: flight{done: c.done, begun: r.instant(c.begun), kind: c.operation.Kind, waited: c.waited},
		}
		if !c.deadline.IsZero() {
			// Zero is no deadline, and whatever is not above it is over since this replica began.
			q.flight.deadline = max(r.instant(c.deadline), 1)
		}
		if home := r.home(&q.operation); home != nil && !r.spans(&q.operation) {
			requests[home.number] = append(requests[home.number], q)
		} else { // nobody has heard of it
			barriers = append(barriers, q)
		}
	}
	for i, all := range requests { // at once: a batch of rmws that comes in parts could be decided between them
		if _, stopped := r.shards[i].queue(false, all...); stopped {
			for _, q := range all {
				q.flight.done(unserved(q.resume, stopping.Message))
			}
		}
	}
	for _, q := range barriers {
		if !r.submitAfter(q) {
			q.flight.done(stopping)
		}
	}
}

// instant is a moment on the clock of the protocols, which is another one for each replica, and not the one of Go: time
// that the machine was suspended is no part of how far the moment is away. The clock of the result is read last: a
// pause between the two readings makes the moment later, and never ends a promise before it ends for others.
func (r *Replica) instant(t time.Time) protocol.Instant {
	ahead := time.Until(t)
	return r.clock().Add(ahead)
}

// moment is the reverse of instant, with the same order of readings.
func (r *Replica) moment(t protocol.Instant) time.Time {
	ahead := t.Sub(r.clock())
	return time.Now().Add(ahead)
}

// Promised is until when promises of this replica's protocols to others may hold, by shard: zero where that is not
// known. It is to be asked once the replica has stopped (Carry), and counts for the next one of this process.
func (r *Replica) Promised() []time.Time {
	all := make([]time.Time, len(r.shards))
	for i, s := range r.shards {
		if s.partitioned == nil {
			continue
		}
		if until := s.partitioned.Promised(); until != 0 {
			all[i] = r.moment(until)
		}
	}
	return all
}

// promised is what was promised before for a shard, by the clock of this replica; zero if that is not known, as for a
// shard that is new.
func (r *Replica) promised(shard int) protocol.Instant {
	if o := &r.options; shard < len(o.Promised) && !o.Promised[shard].IsZero() {
		return max(r.instant(o.Promised[shard]), 1)
	}
	return 0
}

// carry ends the loop of a replica that hands its operations over. It begins no more turns.
func (s *shard) carry() {
	for s.release(s.persisted.Load()); s.durable < s.handed; s.release(s.persisted.Load()) {
		select {
		case <-s.wake:
		case <-s.replica.store.Done():
			s.replica.fail(s.replica.store.Err())
			return
		case <-s.replica.done:
			return
		}
	}
	for _, q := range s.protocol.Unfinished() {
		if f, known := s.flying[q.Handle]; known {
			delete(s.flying, q.Handle)
			s.keep(request{operation: q.Operation, resume: q.Resume, flight: f})
		}
	}
	for _, q := range s.shut() {
		s.keep(q)
	}
	s.publishPartition() // counts of what ended since the last one
}

func (s *shard) keep(q request) {
	s.state.flying.Add(-1)
	if q.flight.part { // the whole goes over
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.carried = append(s.carried, s.replica.carried(q))
}
