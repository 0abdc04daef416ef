package grpc

import (
	"cmp"
	"errors"
	"io"
	"runtime"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registerv1 "github.com/georegister/georegister/api/register/v1"
)

// pipeline is one Pipeline stream: its handler reads requests and submits them, a second goroutine sends
// what is answered, in batches of what has come together.
type pipeline struct {
	server *Server
	caller *caller

	mu      sync.Mutex
	changed sync.Cond
	answers []*answer // not sent yet
	pending int       // submitted and not answered
	ended   bool      // no more requests will come
	broken  bool      // the stream is gone: answers are dropped
}

// Pipeline serves a stream of batches.
func (s *Server) Pipeline(stream grpc.BidiStreamingServer[registerv1.Requests, registerv1.Responses]) error {
	p := &pipeline{server: s, caller: callerOf(stream.Context())}
	p.changed.L = &p.mu
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() { sent <- p.send(stream) }()
	go func() { received <- p.receive(stream) }()
	var err error
	select {
	case err = <-received:
	case <-s.stopping:
		err = status.Error(codes.Unavailable, "the replica is going away")
	}
	p.mu.Lock()
	p.ended = true
	p.changed.Signal()
	p.mu.Unlock()
	return cmp.Or(err, <-sent)
}

// receive submits requests until the client has no more.
func (p *pipeline) receive(stream grpc.BidiStreamingServer[registerv1.Requests, registerv1.Responses]) error {
	var batch registerv1.Requests // only its slice is used again
	for {
		clear(batch.Requests)
		room := batch.Requests[:0]
		batch.Reset()
		batch.Requests = room
		err := stream.RecvMsg(&batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			p.drop()
			return err
		}
		// A batch that waits for places counts too.
		left := 0
		for _, request := range batch.Requests {
			left += requestBytes(request)
		}
		p.caller.hold(left)
		callOf(stream.Context()).taken()
		for _, request := range batch.Requests {
			if err := p.caller.gate.enter(stream.Context()); err != nil {
				p.caller.hold(-left)
				p.drop()
				return err
			}
			asked := requestBytes(request)
			left -= asked
			p.mu.Lock()
			p.pending++
			p.mu.Unlock()
			p.server.submit(request, p.server.options.Timeout, p.server.answers.Get().(*answer), asked, p)
		}
	}
}

// drop notes that answers can't be sent any more.
func (p *pipeline) drop() {
	p.mu.Lock()
	p.broken = true
	p.changed.Signal()
	p.mu.Unlock()
}

// answered puts an answer in line to be sent. It is called from the store's goroutines and does not block.
func (p *pipeline) answered(a *answer, asked int) {
	p.caller.hold(requestOverhead + len(a.Value) - asked)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	if p.broken {
		p.caller.hold(-requestOverhead - len(a.Value))
		p.caller.gate.leave()
	} else {
		p.answers = append(p.answers, a)
	}
	p.changed.Signal()
}

// batchBytes is how many bytes of values go out in one message, about.
const batchBytes = 64 << 10

// send sends answers until the last one, or until the stream breaks. It gives places of the gate back
// only once answers are sent, so that a client that does not read holds no more than its own.
func (p *pipeline) send(stream grpc.BidiStreamingServer[registerv1.Requests, registerv1.Responses]) error {
	call := callOf(stream.Context())
	var batch []*answer
	var message registerv1.Responses
	var failed error
	for {
		batch = p.take(batch[:0])
		if len(batch) == 0 {
			p.drop()
			return failed
		}
		for rest := batch; len(rest) > 0 && failed == nil; {
			message.Responses = message.Responses[:0]
			size := 0
			for ; len(rest) > 0 && size < batchBytes; rest = rest[1:] {
				message.Responses = append(message.Responses, &rest[0].Response)
				size += len(rest[0].Value)
			}
			call.answer(size)
			failed = stream.Send(&message)
		}
		sent := 0
		for i, a := range batch {
			sent += requestOverhead + len(a.Value)
			a.Value, a.Message, a.Proof = nil, "", nil
			p.server.answers.Put(a)
			batch[i] = nil
			p.caller.gate.leave()
		}
		p.caller.hold(-sent)
		clear(message.Responses)
		if failed != nil {
			p.drop()
		}
	}
}

// take waits for answers and takes all there are; none means the end.
func (p *pipeline) take(into []*answer) []*answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.answers) == 0 && !(p.ended && (p.broken || p.pending == 0)) {
		p.changed.Wait()
		// Answers that are about to come go into the same message, which costs as much as several of them.
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	taken := append(into, p.answers...)
	clear(p.answers)
	p.answers = p.answers[:0]
	return taken
}
