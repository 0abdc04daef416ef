package runtime

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// Handover is an operation on its way into another view: taken from the replica that stops (Replica.HandOver), or
// submitted while there is none (NewHandover). The next replica goes on with it (Replica.Resume), or it ends without
// one (End); it ends once in any case, soon after its deadline at the latest.
type Handover struct {
	operation register.Operation
	resume    protocol.Resume
	begun     time.Time
	waited    int       // submission's
	deadline  time.Time // zero: there is none
	done      func(register.Result)
	timer     *time.Timer // ends it at the deadline; nil: there is none
}

// NewHandover keeps an operation for the next replica; what it is given is as Replica.Submit says.
func NewHandover(op register.Operation, timeout time.Duration, done func(register.Result)) *Handover {
	h := &Handover{operation: op, begun: time.Now(), done: done}
	if timeout > 0 {
		h.deadline = h.begun.Add(timeout)
	}
	return h.watched()
}

func (h *Handover) watched() *Handover {
	if !h.deadline.IsZero() {
		h.timer = time.AfterFunc(time.Until(h.deadline), func() {
			h.done(unserved(h.resume, "this member took on another view until the operation's time was up; try again"))
		})
	}
	return h
}

// claim is true for one caller, unless the deadline has ended the operation.
func (h *Handover) claim() bool { return h.timer == nil || h.timer.Stop() }

// End ends the operation, for which nobody does anything any more. What others may have heard of may yet take effect.
func (h *Handover) End(why string) {
	if h.claim() {
		h.done(unserved(h.resume, why))
	}
}

func unserved(done protocol.Resume, why string) register.Result {
	if done == nil {
		return register.Result{Status: register.Unavailable, Message: why}
	}
	return register.Result{Status: register.Unknown, Message: why}
}

// Inheritance is what a replica leaves to the one of the next view, in the same process and on the same store.
type Inheritance struct {
	// Away are members that did not answer: they are asked last until they are heard.
	Away []view.MemberID
	// Distances are what was measured of peers and witnesses. Nil: nothing is known.
	Distances *transport.Distances
	// Continued says that the replica before (storage.Store.Reboot) had asked others whether the disk holds all that it
	// held (Replica.Doubted). Otherwise members ask before they vote, or take the part that the view gives them.
	Continued bool
	// Promised is until when promises of its protocols to others may hold, by shard: zero where that is not known. Nil:
	// nothing is known.
	Promised []time.Time
}

// HandOver stops the replica as Close does, but at once: what was done reaches the disk, and what is answered with that
// is answered; the operations that are left are returned. What the protocol can't name ends as unknown, as does
// everything after a failure.
func (r *Replica) HandOver() (all []*Handover, left Inheritance, err error) {
	left.Away, left.Distances = r.away(), r.transport.Distances()
	r.closing.Do(func() {
		r.handingOver.Store(true)
		r.closed = r.end()
	})
	for _, s := range r.shards {
		s.mutex.Lock() // after a failure the loop may be at work yet
		all = append(all, s.handovers...)
		s.handovers = nil
		s.mutex.Unlock()
	}
	for _, q := range r.barriers.take() {
		all = append(all, r.handover(q))
	}
	if r.closed == nil {
		left.Continued, left.Promised = !r.Doubted(), r.promises()
	}
	return all, left, r.closed
}

// promises is until when those of the shards' protocols may hold, once the loops have ended.
func (r *Replica) promises() []time.Time {
	all := make([]time.Time, len(r.shards))
	for i, s := range r.shards {
		if s.partitioned == nil {
			continue
		}
		if until := s.partitioned.Promised(); until != 0 {
			all[i] = r.clock.moment(until)
		}
	}
	return all
}

// Resume goes on with operations from before. What comes from another replica has to come before anything is submitted:
// protocols ask for that.
func (r *Replica) Resume(operations []*Handover) {
	requests := make([][]request, len(r.shards))
	var barriers []request
	for _, c := range operations {
		if !c.claim() {
			continue
		}
		if err := r.options.check(&c.operation); err != nil {
			c.done(register.Result{Status: register.Invalid, Message: err.Error()})
			continue
		}
		q := request{
			operation: c.operation, resume: c.resume,
			submission: submission{
				done: c.done, begun: r.clock.instant(c.begun), kind: c.operation.Kind, waited: c.waited,
			},
		}
		if !c.deadline.IsZero() {
			// Zero is no deadline, and whatever is not above it is over since this replica began.
			q.submission.deadline = max(r.clock.instant(c.deadline), 1)
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
				q.submission.done(unserved(q.resume, stopping.Message))
			}
		}
	}
	for _, q := range barriers {
		if !r.submitAfter(q) {
			q.submission.done(stopping)
		}
	}
}

// promised is what was promised before for a shard, by the clock of this replica; zero if that is not known, as for a
// shard that is new.
func (r *Replica) promised(shard int) protocol.Instant {
	if o := &r.options; shard < len(o.Promised) && !o.Promised[shard].IsZero() {
		return max(r.clock.instant(o.Promised[shard]), 1)
	}
	return 0
}

// handOver ends the loop of a replica that hands its operations over. It begins no more turns.
func (s *shard) handOver() {
	s.awaits.Store(true)
	for s.release(s.persisted.Load()); s.durable < s.handed; s.release(s.persisted.Load()) {
		select {
		case <-s.wake:
		case <-s.replica.store.Done():
			s.replica.fail(s.replica.store.Err())
			return
		case <-s.replica.Done():
			return
		}
	}
	for _, q := range s.protocol.Unfinished() {
		if f, known := s.inFlight[q.Handle]; known {
			delete(s.inFlight, q.Handle)
			s.addHandover(request{operation: q.Operation, resume: q.Resume, submission: f})
		}
	}
	for _, q := range append(s.forsake(), s.shut()...) {
		s.addHandover(q)
	}
	s.publishPartition() // counts of what ended since the last one
}

func (s *shard) addHandover(q request) {
	s.state.inFlight.Add(-1)
	if q.submission.part { // the whole goes over
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.handovers = append(s.handovers, s.replica.handover(q))
}
