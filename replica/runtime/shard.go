package runtime

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const (
	// maxOperations bounds what a shard has accepted and not finished; more is refused.
	maxOperations = 16 << 10
	// maxMessages bounds what has arrived and was not stepped; more is dropped.
	maxMessages = 128 << 10
	// turnInputs bounds the inputs between two calls of Ready, so that answers don't wait for a long queue.
	turnInputs = 1024
	// tickGrain is how exact the protocol's clock is when operations arrive.
	tickGrain = time.Millisecond
)

// shard runs one protocol instance: a queue of inputs, one goroutine, and the effects that wait for the disk.
type shard struct {
	replica    *Replica
	number     int
	tickEvery  time.Duration
	wake       chan struct{}   // capacity 1
	drained    context.Context // ends once it drains and nothing is under way
	sayDrained context.CancelFunc

	mutex     sync.Mutex
	inputs    inputs
	draining  bool
	stopped   bool
	handovers []*Handover // at the loop's end

	persisted atomic.Uint64 // the latest durable batch, as the committer told
	awaits    atomic.Bool   // something waits for a batch: the committer wakes the loop
	state     loopState

	// What follows belongs to the loop.
	protocol protocol.Protocol
	capabilities
	journal   *protocol.Journal
	spare     inputs
	ticked    protocol.Instant
	handle    uint64
	inFlight  map[uint64]submission
	handed    uint64 // the latest batch that the committer has
	durable   uint64 // the latest batch that the journal knows to be durable
	held      []held
	outgoing  map[view.MemberID]*[]*peerv1.Message
	order     []view.MemberID // of the peers, as Options.Nearest
	witnesses []view.MemberID // in the order of the view
	preferred []view.MemberID // the peers, as the protocol knows it
	retry     time.Duration   // Config.Retry, as the protocol knows it
	waiting   waiting
}

// capabilities are those of the shard's protocol; nil: it has not got that one.
type capabilities struct {
	joiner      protocol.Joiner
	thrifty     protocol.Thrifty
	partitioned protocol.Partitioned
	timed       protocol.Timed
	keyed       protocol.Keyed // never nil
}

func capabilitiesOf(p protocol.Protocol) (c capabilities) {
	c.joiner, _ = p.(protocol.Joiner)
	c.thrifty, _ = p.(protocol.Thrifty)
	c.partitioned, _ = p.(protocol.Partitioned)
	c.timed, _ = p.(protocol.Timed)
	c.keyed = protocol.KeyedOf(p)
	return c
}

// inputs is what arrived since the last turn.
type inputs struct {
	requests []request
	messages []received
}

type request struct {
	handle     uint64 // given by the loop
	operation  register.Operation
	resume     protocol.Resume
	submission submission
}

// submission is an operation under way.
type submission struct {
	done     func(register.Result)
	begun    protocol.Instant
	deadline protocol.Instant // zero: there is none
	kind     register.Kind
	part     bool // a fence of a barrier, which counts as one operation with what waits for it
	waited   int  // round trips before it came to the shard
}

type received struct {
	from    view.MemberID
	message *peerv1.Message
}

func newShard(r *Replica, number int) (*shard, error) {
	s := &shard{
		replica: r, number: number, tickEvery: r.options.tickEvery(),
		ticked:   -protocol.Instant(r.options.tickEvery()), // the first step tells the time
		wake:     make(chan struct{}, 1),
		inFlight: map[uint64]submission{}, outgoing: map[view.MemberID]*[]*peerv1.Message{},
	}
	s.drained, s.sayDrained = context.WithCancel(context.Background())
	for _, id := range r.options.Nearest {
		s.outgoing[id] = &[]*peerv1.Message{}
		s.order = append(s.order, id)
	}
	for _, w := range r.options.View.Witnesses {
		s.outgoing[w.ID] = &[]*peerv1.Message{}
		s.witnesses = append(s.witnesses, w.ID)
	}
	s.preferred, s.retry = r.options.first(), r.options.Retry
	disk := r.store.Shard(number)
	s.journal = protocol.NewJournal(disk)
	s.waiting.fetcher, _ = disk.(protocol.Fetcher)
	p, err := r.options.start(r.config(number), s.journal)
	if err != nil {
		return nil, err
	}
	s.protocol, s.capabilities = p, capabilitiesOf(p)
	s.publish()
	s.publishChange()
	s.publishPartition()
	return s, nil
}

func (s *shard) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// submit queues an operation, or refuses it. It is false, and nothing is done, if the operations go over to another
// replica.
func (s *shard) submit(q request) bool {
	if full, stopped := s.queue(true, q); full || stopped {
		return s.refuse(&q.submission, stopped)
	}
	return true
}

// refuse ends an operation that was not taken, because the shard has stopped or has too many. It is false, and does
// nothing, if the operations go over to another replica.
func (s *shard) refuse(f *submission, stopped bool) bool {
	switch {
	case stopped && s.replica.handingOver.Load() && !s.replica.failed():
		return false
	case stopped:
		go f.done(stopping)
	default:
		go f.done(tooMany)
	}
	return true
}

// reserve makes room for an operation that will come once other shards let it: redeem and giveBack end that.
func (s *shard) reserve() (full, stopped bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	full = s.state.inFlight.Load() >= maxOperations
	if !full && !s.stopped {
		s.state.inFlight.Add(1)
	}
	return full, s.stopped
}

// redeem hands an operation to the loop for which there is room. It is false, and the room is kept, if the loop has
// stopped.
func (s *shard) redeem(q request) bool {
	s.mutex.Lock()
	if !s.stopped {
		s.inputs.requests = append(s.inputs.requests, q)
	}
	stopped := s.stopped
	s.mutex.Unlock()
	s.signal()
	return !stopped
}

// giveBack gives back the room for one operation, which will not come.
func (s *shard) giveBack() {
	s.mutex.Lock()
	if !s.stopped { // else nobody counts any more
		s.state.inFlight.Add(-1)
	}
	s.mutex.Unlock()
	s.signal()
}

// queue hands requests to the loop, unless it has stopped, or, if that counts, it has too many.
func (s *shard) queue(bounded bool, all ...request) (full, stopped bool) {
	s.mutex.Lock()
	full = bounded && s.state.inFlight.Load() >= maxOperations
	stopped = s.stopped
	if !full && !stopped {
		s.state.inFlight.Add(int64(len(all)))
		s.inputs.requests = append(s.inputs.requests, all...)
	}
	s.mutex.Unlock()
	s.signal()
	return full, stopped
}

// receive queues messages of one peer.
func (s *shard) receive(from view.MemberID, messages []*peerv1.Message) {
	s.mutex.Lock()
	room := max(min(len(messages), maxMessages-len(s.inputs.messages)-int(s.state.waiting.Load())), 0)
	for _, m := range messages[:room] {
		s.inputs.messages = append(s.inputs.messages, received{from, m})
	}
	s.mutex.Unlock()
	if room < len(messages) {
		s.replica.metrics.overflow.Add(float64(len(messages) - room))
	}
	s.signal()
}

// drain asks the loop to say when nothing is under way.
func (s *shard) drain() {
	s.mutex.Lock()
	s.draining = true
	s.mutex.Unlock()
	s.signal()
}

// run is the loop. It blocks while there is nothing to do.
func (s *shard) run() {
	defer s.abandon()
	defer func() {
		if reason := recover(); reason != nil {
			s.replica.fail(fmt.Errorf("shard %d: panic: %v\n%s", s.number, reason, debug.Stack()))
		}
	}()
	ticker := time.NewTicker(s.tickEvery)
	defer ticker.Stop()
	s.step(inputs{}) // what the protocol wants to say at its start
	for {
		select {
		case <-s.wake:
			runtime.Gosched() // who has more for this turn comes first, if the processors are busy
		case <-ticker.C:
			s.prefer()
			s.publishChange()
			s.publishPartition()
		case <-s.replica.stopping.Done():
			if s.replica.handingOver.Load() {
				s.handOver()
			}
			return
		}
		if !s.turn() {
			return
		}
	}
}

// turn handles what arrived, and reports whether to go on.
func (s *shard) turn() bool {
	s.mutex.Lock()
	in := s.inputs
	s.inputs = s.spare
	draining := s.draining
	s.mutex.Unlock()
	fetched := s.collect()
	for i := range in.requests { // all of them, so that each is answered whatever happens in a step
		s.handle++
		in.requests[i].handle = s.handle
		s.inFlight[s.handle] = in.requests[i].submission
	}
	if len(fetched.requests)+len(fetched.messages) > 0 { // they came before
		in.requests = append(fetched.requests, in.requests...)
		in.messages = append(fetched.messages, in.messages...)
	}
	ok, least := true, 0
	if len(in.requests) > turnInputs {
		least = resumed(in.requests)
	}
	for rest := in; ok; least = 0 {
		var now inputs
		now.requests, rest.requests = cut(rest.requests, least)
		now.messages, rest.messages = cut(rest.messages, 0)
		ok = s.step(now)
		if len(rest.requests)+len(rest.messages) == 0 {
			break
		}
	}
	clear(in.requests)
	clear(in.messages)
	s.spare = inputs{in.requests[:0], in.messages[:0]}
	if draining && s.state.inFlight.Load() == 0 && len(s.held) == 0 {
		s.sayDrained()
	}
	return ok
}

// cut takes what one step is given off a queue: the first least in any case.
func cut[T any](queue []T, least int) (now, rest []T) {
	n := max(min(len(queue), turnInputs), least)
	return queue[:n], queue[n:]
}

// resumed is where those end that go on from another view. They come in one step, as protocol.Resume says: an instance
// that ends with a part of its key's has the key's next ones proposed, perhaps under the name that another one waits
// for.
func resumed(queue []request) int {
	end := len(queue)
	for end > 0 && queue[end-1].resume == nil {
		end--
	}
	return end
}

// step feeds the protocol and does what it asks. It reports whether the member can go on.
func (s *shard) step(in inputs) bool {
	s.release(s.persisted.Load())
	now := s.replica.clock.now()
	// Leases are judged by the last tick, so it may not be older than a question.
	since := now.Sub(s.ticked)
	if s.partitioned != nil || since >= s.tickEvery || len(in.requests) > 0 && since >= tickGrain {
		s.ticked = now
		if s.timed != nil {
			s.timed.TrueTime(s.replica.options.TrueTime())
		}
		s.protocol.Tick(now)
	}
	for i := range in.requests {
		q := &in.requests[i]
		if s.keepsRequest(q) {
			continue
		}
		s.protocol.Submit(
			protocol.Request{
				Handle: q.handle, Operation: q.operation, Deadline: q.submission.deadline, Resume: q.resume,
			})
	}
	for i := range in.messages {
		if s.keepsMessage(&in.messages[i]) {
			continue
		}
		s.protocol.Receive(in.messages[i].from, in.messages[i].message)
	}
	s.fetch()
	if n := len(in.requests) + len(in.messages); n > 0 {
		s.replica.metrics.turn.Observe(float64(n))
	}
	return s.apply(s.protocol.Ready())
}

// apply does what a step asks: what depends on the disk waits for it, the rest happens now.
func (s *shard) apply(e protocol.Effects) bool {
	s.replica.refusals.log(s.replica.options.Logger, s.number, e.Refused)
	if e.Fault != nil {
		s.replica.condemn(e.Fault)
		s.replica.fail(fmt.Errorf("shard %d: %w", s.number, e.Fault))
		return false
	}
	durable := s.durable
	if e.Persist.Sequence != 0 {
		s.handed = e.Persist.Sequence
		if s.replica.store.Commit(s.number, e.Persist, s.persistedUpTo) {
			durable = s.handed
		}
	}
	if len(e.SendAfterPersist)+len(e.CompleteAfterPersist) > 0 {
		s.held = append(s.held, held{s.handed, e.SendAfterPersist, e.CompleteAfterPersist})
	}
	s.gather(e.Send)
	s.finish(e.Complete)
	s.release(durable)
	s.await()
	s.flush()
	s.publish()
	return true
}

// gather sorts messages by peer.
func (s *shard) gather(envelopes []protocol.Envelope) {
	for _, e := range envelopes {
		if e.Message.Shard != uint32(s.number) {
			e.Message.Shard = uint32(s.number)
		}
		if queue := s.outgoing[e.To]; queue != nil {
			*queue = append(*queue, e.Message)
		}
	}
	clear(envelopes) // they may share a block of memory with later ones
}

// flush hands what was gathered to the transport.
func (s *shard) flush() {
	s.flushTo(s.order)
	s.flushTo(s.witnesses)
}

func (s *shard) flushTo(all []view.MemberID) {
	for _, id := range all {
		if queue := s.outgoing[id]; len(*queue) > 0 {
			s.replica.transport.Send(id, *queue)
			clear(*queue)
			*queue = (*queue)[:0]
		}
	}
}

// finish tells the submitters.
func (s *shard) finish(completions []protocol.Completion) {
	if len(completions) == 0 {
		return
	}
	now := s.replica.clock.now()
	for i := range completions {
		c := &completions[i]
		f, ok := s.inFlight[c.Handle]
		if !ok {
			continue
		}
		if c.Result.More {
			f.done(c.Result)
			continue
		}
		delete(s.inFlight, c.Handle)
		s.state.inFlight.Add(-1)
		c.Result = c.Result.Behind(f.waited)
		if !f.part {
			s.replica.metrics.finished(f.kind, &c.Result, now.Sub(f.begun))
		}
		f.done(c.Result)
	}
	clear(completions)
}

// shut takes no more inputs, and returns the operations that wait to begin.
func (s *shard) shut() []request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.stopped = true
	waiting := s.inputs.requests
	s.inputs = inputs{}
	return waiting
}

// abandon ends what is under way when the loop ends: nobody knows how it would have ended.
func (s *shard) abandon() {
	for _, q := range append(s.forsake(), s.shut()...) {
		q.submission.done(register.Result{Status: register.Unavailable, Message: "this member stopped before it began"})
	}
	for _, f := range s.inFlight {
		f.done(
			register.Result{Status: register.Unknown, Message: "this member stopped while the operation was under way"})
	}
	clear(s.inFlight)
	s.state.inFlight.Store(0)
}
