package server

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

// WireVersion is the meaning of the frames that this code speaks. Another one is refused.
const WireVersion = 1

// maxAsker is the highest ID of a member.
const maxAsker = 1<<16 - 1

// queueBytes bounds the answers that wait for an asker who does not take them.
const queueBytes = 32 << 20

// stream is the answers' way to one asker.
type stream struct {
	id, from uint32
	wake     chan struct{} // something changed; capacity 1
	next     []byte        // what the loop appends, and nobody else sees yet

	mutex  sync.Mutex
	frames [][]byte // to be sent
	spare  [][]byte // memory for frames
	queued int      // bytes in frames
	over   bool     // no more will come
	why    error
}

func newStream(id, from uint32) *stream {
	return &stream{id: id, from: from, wake: make(chan struct{}, 1)}
}

// flush queues what the loop has appended, and reports whether there was room.
func (s *stream) flush() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	data := s.next
	s.next = s.next[:0]
	if s.over || s.queued+len(data) > queueBytes {
		return s.over
	}
	s.queued += len(data)
	if n := len(s.frames); n > 0 && len(s.frames[n-1])+len(data) <= frameBytes {
		s.frames[n-1] = append(s.frames[n-1], data...)
	} else {
		var frame []byte
		if n := len(s.spare); n > 0 {
			frame, s.spare = s.spare[n-1], s.spare[:n-1]
		}
		s.frames = append(s.frames, append(frame, data...))
	}
	s.signal()
	return true
}

// finish ends the stream, once what is queued has left; why is what the asker is told.
func (s *stream) finish(why error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.over {
		s.over, s.why = true, why
		s.signal()
	}
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be sent, or that nothing will come any more.
func (s *stream) take(sent [][]byte) (frames [][]byte, over bool, why error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, frame := range sent {
		if cap(frame) <= 2*frameBytes && len(s.spare) < 4 {
			s.spare = append(s.spare, frame[:0])
		}
	}
	frames, s.frames = s.frames, nil
	s.queued = 0
	return frames, s.over, s.why
}

// send sends answers until the stream is finished.
func (s *stream) send(g witnessv1.Witnesses_StreamServer) error {
	var sent [][]byte
	for {
		frames, over, why := s.take(sent)
		for _, frame := range frames {
			if err := g.SendMsg(outbound(frame)); err != nil {
				return err
			}
		}
		if sent = frames; len(frames) > 0 {
			continue
		}
		if over {
			return why
		}
		select {
		case <-s.wake:
		case <-g.Context().Done():
			return g.Context().Err()
		}
	}
}

// acceptor serves the askers.
type acceptor struct {
	witnessv1.UnimplementedWitnessesServer
	server *Server
}

// Stream serves one asker until it, or the witness, ends.
func (a *acceptor) Stream(g witnessv1.Witnesses_StreamServer) error {
	first := newInbound(0, 0)
	if err := g.RecvMsg(first); err != nil {
		return err
	}
	s := a.server
	if err := s.check(first.hello); err != nil {
		s.note(err)
		return err
	}
	answer := &witnessv1.Hello{
		Cluster: s.options.Cluster, From: s.options.Self, To: first.hello.From, WireVersion: WireVersion,
		Disk: s.witness.Disk(),
	}
	st, err := s.join(first.hello.From)
	if err != nil {
		return err
	}
	defer s.leave(st)
	if err := g.SendMsg(&witnessv1.Frame{Hello: answer}); err != nil {
		return err
	}
	first.from, first.stream = st.from, st.id
	go s.receive(g, st, first) // until this function returns, at the latest
	return st.send(g)
}

// receive hands questions to the loop until the asker has no more.
func (s *Server) receive(g witnessv1.Witnesses_StreamServer, st *stream, in *inbound) {
	for {
		select {
		case s.in <- in:
		case <-s.done:
			return
		}
		in = newInbound(st.from, st.id)
		if err := g.RecvMsg(in); err != nil {
			st.finish(nil)
			return
		}
	}
}

// check refuses an asker that means another witness, and says why.
func (s *Server) check(h *witnessv1.Hello) error {
	o := &s.options
	refuse := func(format string, args ...any) error {
		return status.Errorf(codes.FailedPrecondition, format, args...)
	}
	switch {
	case h == nil:
		return refuse("the stream does not begin with a hello")
	case h.WireVersion != WireVersion:
		return refuse("wire version %d is not %d, that of witness %d", h.WireVersion, WireVersion, o.Self)
	case h.Cluster != o.Cluster:
		return refuse("cluster %q is not %q, that of witness %d", h.Cluster, o.Cluster, o.Self)
	case h.To != o.Self:
		return refuse("witness %d was called at the address of witness %d", h.To, o.Self)
	case h.From > maxAsker:
		return refuse("member %d is above %d, the highest ID", h.From, maxAsker)
	case h.From == o.Self:
		return refuse("member %d has the ID of this witness", h.From)
	}
	return nil
}
