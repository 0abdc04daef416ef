package operation

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/register"
)

// Session submits the operations of one client. Under a protocol whose reads may be answered before a quorum holds what
// they read, each operation comes after all that the operations before it have read by the time when it is submitted.
// Under the others, nothing depends on anything.
type Session struct {
	store        Store
	regular      bool
	dependencies prometheus.Counter // that operations carried
	fences       prometheus.Counter
	hold         func(bytes int)

	mu      sync.Mutex
	past    register.Past // at most register.MaxDependencies, those under way when it got there, and those of one token
	size    int           // of the past, as hold has it
	fencing bool          // a fence is under way
	waiting []waiting     // for it, since they could not carry the past
	closed  bool
}

// waiting is an operation that is submitted once the past can be carried again.
type waiting struct {
	pending  *Pending
	deadline time.Time
}

// NewSession returns the session of a client of a listener. Hold is told how many bytes more, or less, the session
// holds.
func NewSession(o *Options, listener *ListenerMetrics, hold func(bytes int)) *Session {
	return &Session{
		store: o.Store, regular: o.Regular(), dependencies: listener.Dependencies, fences: o.Metrics.fences, hold: hold,
	}
}

// Pending is an operation of a session from Submit to its result. It can be used again after that.
type Pending struct {
	Op      register.Operation
	session *Session
	done    func(register.Result)
	answer  func(register.Result) // what the store calls: done, or onResult if the session learns from results
}

// Init prepares a Pending for its first use. Done is called with the result of each operation, as Store.Submit's is.
func (p *Pending) Init(s *Session, done func(register.Result)) {
	p.session, p.done, p.answer = s, done, done
	if s.regular {
		p.answer = p.onResult
	}
}

// ended is the result of an operation that the end of its session has kept from being submitted: what the session had
// read is forgotten, so the operation can't come after it.
var ended = register.Result{Status: register.Unavailable, Message: "the connection ended before the command began"}

// Submit starts a pending operation, after all that the session has read. It may block as long as Store.Submit does.
func (s *Session) Submit(p *Pending, deadline time.Time) {
	if s.regular {
		switch s.admit(p, deadline) {
		case deferred:
			return
		case refused:
			p.done(ended)
			return
		}
	}
	left := time.Until(deadline)
	if left <= 0 {
		p.done(register.Result{Status: register.Unavailable,
			Message: "the time was up while it waited for earlier commands of the connection on the same key"})
		return
	}
	if n := len(p.Op.After); n > 0 {
		s.dependencies.Add(float64(n))
	}
	s.store.Submit(p.Op, left, p.answer)
}

// onResult has the session learn from a result before the client is told.
func (p *Pending) onResult(r register.Result) {
	p.session.learn(&p.Op, r)
	p.done(r)
}

// admission says what becomes of an operation.
type admission uint8

const (
	admitted admission = iota // with the session's past attached
	deferred                  // until enough of the past is fenced, since it is more than an operation carries
	refused                   // the session is closed, and its past is gone
)

// admit attaches the session's past to an operation.
func (s *Session) admit(p *Pending, deadline time.Time) admission {
	if p.Op.Kind == register.Fence {
		return admitted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return refused
	}
	if !s.past.Full() {
		s.past.Attach(&p.Op)
		return admitted
	}
	s.waiting = append(s.waiting, waiting{p, deadline})
	if !s.fencing {
		s.fencing = true
		go s.fence(s.past.Fence(), deadline)
	}
	return deferred
}

// fence submits a fence for the operations that wait for one. It may block as long as Store.Submit does.
func (s *Session) fence(op register.Operation, deadline time.Time) {
	left := time.Until(deadline)
	if left <= 0 {
		s.onFenced(&op, deadline, register.Result{Status: register.Unavailable, Message: "the time was up"})
		return
	}
	s.fences.Inc()
	s.dependencies.Add(float64(len(op.After)))
	s.store.Submit(op, left, func(r register.Result) { s.onFenced(&op, deadline, r) })
}

// onFenced goes on with the operations that waited for a fence, or with the next one. It does not block.
func (s *Session) onFenced(op *register.Operation, deadline time.Time, r register.Result) {
	s.mu.Lock()
	s.past.Learn(op, r)
	s.charge()
	if r.Status == register.OK && s.past.Full() {
		next := s.past.Fence()
		s.mu.Unlock()
		go s.fence(next, deadline)
		return
	}
	waited := s.waiting
	s.waiting, s.fencing = nil, false
	s.mu.Unlock()
	go func() {
		for _, w := range waited {
			if r.Status == register.OK {
				s.Submit(w.pending, w.deadline)
				continue
			}
			w.pending.done(register.Result{Status: register.Unavailable,
				Message: "what the connection read before could not be fenced: " + r.Message})
		}
	}()
}

// learn notes what the answer to an operation makes of the past.
func (s *Session) learn(op *register.Operation, r register.Result) {
	if !r.Depends && len(op.After) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Learn(op, r)
	s.charge()
}

// charge counts what the past holds, under the lock.
func (s *Session) charge() {
	if s.closed {
		s.past = register.Past{}
		return
	}
	size := s.past.Size()
	s.hold(size - s.size)
	s.size = size
}

// Past returns a copy of what the session depends on. Only once no operation is pending is it all that the session has
// read.
func (s *Session) Past() *register.Past {
	s.mu.Lock()
	defer s.mu.Unlock()
	past := &register.Past{}
	past.Join(&s.past)
	return past
}

// Join has the operations from now on come after another session's past as well. It reports false if the session
// depends on more than an operation carries already, since pasts could be many.
func (s *Session) Join(past *register.Past) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past.Full() {
		return false
	}
	s.past.Join(past)
	s.charge()
	return true
}

// Close ends the session, and with it what hold was told. Operations may still be pending.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.past, s.size = true, register.Past{}, 0
}
