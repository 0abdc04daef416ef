package client

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	registerv1 "github.com/georegister/georegister/api/register/v1"
)

// lost is the end of an attempt without an answer.
type lost struct {
	sent  bool // the replica may have got the request
	cause error
}

func (l *lost) Error() string { return l.cause.Error() }
func (l *lost) Unwrap() error { return l.cause }

// attempt is one request on its way through a stream.
type attempt struct {
	request  *registerv1.Request
	sent     bool // taken by the sender; under the stream's lock
	response *registerv1.Response
	err      error
	ready    chan struct{} // has room for one: response or err is set
	timer    *time.Timer
}

// stream carries the operations of all goroutines to one replica and back. It opens with the first
// operation, and again with the next one after it broke.
type stream struct {
	replica registerv1.RegisterClient
	idle    sync.Pool // of *attempt

	mu      sync.Mutex
	queued  sync.Cond
	tag     uint64
	queue   []*attempt          // not sent yet
	pending map[uint64]*attempt // sent or queued, by tag
	current *lifetime           // nil: no stream
	closed  bool
}

// lifetime is one stream of gRPC, from its opening to its breaking.
type lifetime struct {
	cancel context.CancelFunc
	over   bool
}

func newStream(conn grpc.ClientConnInterface) *stream {
	s := &stream{replica: registerv1.NewRegisterClient(conn), pending: map[uint64]*attempt{}}
	s.queued.L = &s.mu
	s.idle.New = func() any {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		return &attempt{ready: make(chan struct{}, 1), timer: timer}
	}
	return s
}

// errSilent is why an attempt ends whose replica takes too long.
var errSilent = errors.New("the replica does not answer")

// roundTrip sends a request and waits for its response, for ctx and for at most patience, whose end is for
// the reason overdue. Its error is always a *lost.
func (s *stream) roundTrip(
	ctx context.Context, request *registerv1.Request, patience time.Duration, overdue error,
) (*registerv1.Response, error) {
	a := s.idle.Get().(*attempt)
	a.request, a.response, a.err, a.sent = request, nil, nil, false
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.idle.Put(a)
		return nil, &lost{cause: ErrClosed}
	}
	s.tag++
	tag := s.tag
	request.Tag = tag
	s.pending[tag] = a
	s.queue = append(s.queue, a)
	if s.current == nil {
		s.open()
	}
	s.queued.Signal()
	s.mu.Unlock()

	a.timer.Reset(patience)
	var cause error
	select {
	case <-a.ready:
		response, err := a.response, a.err
		a.timer.Stop()
		s.idle.Put(a)
		return response, err
	case <-ctx.Done():
		cause = ctx.Err()
	case <-a.timer.C:
		cause = overdue
	}
	a.timer.Stop()
	return s.forsake(a, tag, cause)
}

// forsake gives an attempt up, unless its answer came in the meantime.
func (s *stream) forsake(a *attempt, tag uint64, cause error) (*registerv1.Response, error) {
	s.mu.Lock()
	_, waiting := s.pending[tag]
	delete(s.pending, tag)
	s.queue = slices.DeleteFunc(s.queue, func(queued *attempt) bool { return queued == a })
	sent := a.sent
	s.mu.Unlock()
	if !waiting {
		<-a.ready // whoever took it off the map has just answered it
		response, err := a.response, a.err
		s.idle.Put(a)
		return response, err
	}
	// A sender may still hold it: it is not used again.
	return nil, &lost{sent: sent, cause: cause}
}

// open starts a stream, under the lock.
func (s *stream) open() {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lifetime{cancel: cancel}
	s.current = l
	go func() {
		// WaitForReady is off: a replica that can't be reached fails what is queued at once.
		pipe, err := s.replica.Pipeline(ctx)
		if err != nil {
			s.broke(l, err)
			return
		}
		go s.send(l, pipe)
		s.receive(l, pipe)
	}()
}

// batchBytes is how many bytes of requests go into one message, about.
const batchBytes = 256 << 10

// send sends what is queued, in batches of what has come together.
func (s *stream) send(l *lifetime, pipe grpc.BidiStreamingClient[registerv1.Requests, registerv1.Responses]) {
	var message registerv1.Requests
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !l.over {
			s.queued.Wait()
			// Others that are about to send get their turn first: a message costs as much as several operations.
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
		if l.over {
			s.queued.Signal() // it may have been meant for the next lifetime's sender
			s.mu.Unlock()
			return
		}
		taken := 0
		for size := 0; taken < len(s.queue) && size < batchBytes; taken++ {
			a := s.queue[taken]
			a.sent = true
			message.Requests = append(message.Requests, a.request)
			size += a.request.SizeVT()
		}
		rest := copy(s.queue, s.queue[taken:])
		clear(s.queue[rest:])
		s.queue = s.queue[:rest]
		s.mu.Unlock()
		err := pipe.Send(&message)
		clear(message.Requests)
		message.Requests = message.Requests[:0]
		if err != nil {
			return // the receiver learns why
		}
	}
}

// receive hands responses to those who wait, until the stream breaks.
func (s *stream) receive(l *lifetime, pipe grpc.BidiStreamingClient[registerv1.Requests, registerv1.Responses]) {
	var batch registerv1.Responses // only its slice is used again
	for {
		clear(batch.Responses)
		room := batch.Responses[:0]
		batch.Reset()
		batch.Responses = room
		if err := pipe.RecvMsg(&batch); err != nil {
			s.broke(l, err)
			return
		}
		s.mu.Lock()
		for _, response := range batch.Responses {
			if a, ok := s.pending[response.GetTag()]; ok {
				delete(s.pending, response.GetTag())
				a.response = response
				a.ready <- struct{}{}
			}
		}
		s.mu.Unlock()
	}
}

// broke ends a lifetime and everything that waits on it.
func (s *stream) broke(l *lifetime, cause error) {
	l.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	s.current = nil
	for tag, a := range s.pending {
		delete(s.pending, tag)
		a.err = &lost{sent: a.sent, cause: cause}
		a.ready <- struct{}{}
	}
	clear(s.queue)
	s.queue = s.queue[:0]
	s.queued.Broadcast()
}

// close breaks the stream for good.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	l := s.current
	s.mu.Unlock()
	if l != nil {
		s.broke(l, ErrClosed)
	}
}
