package server

import (
	"cmp"
	"errors"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/georegister/georegister/witness/core"
	"github.com/georegister/georegister/witness/disk"
)

const (
	// inboundFrames is how many frames wait for the loop.
	inboundFrames = 256
	// stepFrames and stepBytes are how much is taken, at least one frame, before the answers leave.
	stepFrames, stepBytes = 32, 4 << 20
	// maxPending is from where the loop takes nothing more until the commit in flight is durable. With what is taken at
	// once, a commit stays below the log's limit.
	maxPending = 16 << 20
	// lazyBytes is from where records that no answer waits for are committed: drops of gc, as a rule.
	lazyBytes = 256 << 10
)

// loop owns the core. It steps while a commit is in flight, and what gathers meanwhile is the next commit: one fsync
// serves all that has arrived.
type loop struct {
	s       *Server
	streams map[uint32]*stream
	touched []*stream // answers were appended for them
	pending *disk.Commit
	spare   *disk.Commit
	after   []core.Envelope // answers that wait for pending, and for the commit in flight
	flying  []core.Envelope // answers that wait for the commit in flight
	busy    bool            // a commit is in flight
	commits chan func() error
	ended   chan error // of the commit in flight
}

func newLoop(s *Server) *loop {
	return &loop{
		s: s, streams: map[uint32]*stream{}, pending: &disk.Commit{}, spare: &disk.Commit{},
		commits: make(chan func() error), ended: make(chan error, 1),
	}
}

// errStopped is what the loop ends with when it was asked to.
var errStopped = errors.New("the witness stops")

// run is the loop's goroutine.
func (l *loop) run() {
	go func() {
		for commit := range l.commits {
			l.ended <- commit()
		}
	}()
	err := l.serve()
	if err == errStopped {
		err = l.drain()
	}
	if l.busy {
		<-l.ended // nobody touches the disk after this
	}
	if forgotten := (*core.Forgotten)(nil); errors.As(err, &forgotten) {
		err = errors.Join(err, l.s.disk.Lose(err.Error()))
	}
	close(l.commits)
	if err != nil {
		l.s.options.Log.Error("Witness failed", zap.Error(err))
	}
	for _, st := range l.streams {
		st.finish(status.Error(codes.Unavailable, cmp.Or(err, errStopped).Error()))
	}
	l.s.err = err
	l.s.stop(err)
	close(l.s.done)
}

func (l *loop) serve() error {
	for {
		in := l.s.in
		if l.pending.Size() > maxPending {
			in = nil
		}
		select {
		case b := <-in:
			l.more(stepFrames, l.take(b))
		case call := <-l.s.calls:
			call(l)
		case err := <-l.ended:
			if err := l.settle(err); err != nil {
				return err
			}
		case <-l.s.running.Done():
			return errStopped
		}
		if err := l.step(); err != nil {
			return err
		}
	}
}

// more takes what has arrived, after so many bytes, up to stepBytes.
func (l *loop) more(frames, bytes int) {
	for ; frames > 0 && bytes < stepBytes; frames-- {
		select {
		case b := <-l.s.in:
			bytes += l.take(b)
		default:
			return
		}
	}
}

// drain answers what has arrived, and makes all of it durable.
func (l *loop) drain() error {
	for n := inboundFrames; n > 0 && len(l.s.in) > 0; n-- {
		l.take(<-l.s.in)
		if err := l.step(); err != nil {
			return err
		}
		if l.pending.Size() > maxPending { // a commit is in flight, or step would have begun this one
			if err := l.settle(<-l.ended); err != nil {
				return err
			}
		}
	}
	for l.busy || l.pending.Size() > 0 {
		if !l.busy {
			l.commit()
		}
		if err := l.settle(<-l.ended); err != nil {
			return err
		}
	}
	return nil
}

// take steps through a frame, and returns its size.
func (l *loop) take(b *inbound) int {
	size := len(b.data)
	for _, m := range b.messages {
		l.s.witness.ReceiveOn(b.from, b.stream, m)
	}
	b.release()
	return size
}

// step lets answers leave that wait for nothing, and begins the next commit if the disk is free. It fails if the disk
// turns out to be an older copy.
func (l *loop) step() error {
	e := l.s.witness.Ready()
	if e.Forgotten != nil {
		return e.Forgotten
	}
	for _, r := range e.Persist {
		l.pending.Add(r)
	}
	l.deliver(e.Send)
	switch {
	case len(e.After) == 0:
	case !l.busy && l.pending.Size() == 0:
		l.deliver(e.After)
	case len(l.after) == 0:
		l.after, e.After = e.After, nil
	default:
		l.after = append(l.after, e.After...)
		clear(e.After)
		e.After = e.After[:0]
	}
	l.s.witness.Reuse(e)
	l.flush()
	if !l.busy && (len(l.after) > 0 || l.pending.Size() > lazyBytes) {
		l.commit()
	}
	return nil
}

// commit hands what is pending to the disk. Where garbage has come to exceed what is live, the present state, which has
// all that is pending, replaces the log.
func (l *loop) commit() {
	w, d := l.s.witness, l.s.disk
	c := l.pending
	l.pending, l.spare = l.spare, nil
	l.flying, l.after = l.after, nil
	l.busy = true
	work := func() error { return d.Append(c) }
	if d.Size()+int64(c.Size()) > max(l.s.options.CompactAbove, 2*w.LiveBytes()) {
		records := w.Snapshot()
		work = func() error { return d.Rewrite(records) }
		l.s.metrics.rewrites.Inc()
	}
	l.commits <- func() error {
		begin := time.Now()
		err := work()
		l.s.metrics.commits.Observe(time.Since(begin).Seconds())
		c.Reset()
		l.spare = c // read by the loop after the commit has ended
		return err
	}
}

// settle lets answers leave whose commit is durable. After an error nothing leaves any more.
func (l *loop) settle(err error) error {
	l.busy = false
	if err != nil {
		return err
	}
	l.s.metrics.logBytes.Set(float64(l.s.disk.Size()))
	l.deliver(l.flying)
	l.s.witness.Reuse(core.Effects{After: l.flying})
	l.flying = nil
	if l.pending.Size() == 0 && len(l.after) > 0 { // all before them is durable
		l.deliver(l.after)
		l.s.witness.Reuse(core.Effects{After: l.after})
		l.after = nil
	}
	l.flush()
	return nil
}

// deliver appends answers to their streams; flush has to follow.
func (l *loop) deliver(envelopes []core.Envelope) {
	for _, e := range envelopes {
		st := l.streams[e.Stream]
		if st == nil {
			continue // the asker is gone, and asks again if it wants to know
		}
		if len(st.next) == 0 {
			l.touched = append(l.touched, st)
		}
		var err error
		if st.next, err = appendMessage(st.next, e.Message); err != nil {
			l.s.options.Log.Error("Answer can't be encoded", zap.Error(err))
			st.next = st.next[:0]
			st.finish(status.Error(codes.Internal, err.Error()))
		}
		if len(st.next) > frameBytes/2 {
			l.flushOne(st)
		}
	}
}

func (l *loop) flush() {
	for _, st := range l.touched {
		if len(st.next) > 0 {
			l.flushOne(st)
		}
	}
	l.touched = l.touched[:0]
}

func (l *loop) flushOne(st *stream) {
	if !st.flush() {
		l.s.metrics.dropped.Inc()
	}
}
