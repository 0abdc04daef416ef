package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

// stream carries questions to a witness, and hands each answer to who asked: they may overtake each other.
type stream struct {
	grpc   grpc.BidiStreamingClient[witnessv1.Frame, witnessv1.Frame]
	cancel context.CancelFunc
	ended  chan struct{} // closed when no answer will come any more

	mutex   sync.Mutex // also keeps questions from being sent at once, which gRPC does not allow
	op      uint64
	waiting map[uint64]chan *witnessv1.Message
	why     error // it has ended
}

// errGivenUp ends a stream on which a question was not answered in time: what is stuck must not fill up with questions.
var errGivenUp = errors.New("the stream was given up, since another question was not answered in time")

// openStream says hello and waits for the witness's. The context bounds this alone; the stream lasts as long as life.
func openStream(ctx, life context.Context, connection *grpc.ClientConn, hello *witnessv1.Hello) (*stream, error) {
	own, cancel := context.WithCancel(life)
	stop := context.AfterFunc(ctx, cancel)
	g, err := witnessv1.NewWitnessesClient(connection).Stream(own)
	var frame *witnessv1.Frame
	if err == nil {
		if err = g.Send(&witnessv1.Frame{Hello: hello}); err == nil || errors.Is(err, io.EOF) { // then Recv says why
			frame, err = g.Recv()
		}
	}
	if err == nil {
		err = answersHello(hello, frame.GetHello())
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, cmp.Or(ctx.Err(), err)
	}
	s := &stream{grpc: g, cancel: cancel, ended: make(chan struct{}), waiting: map[uint64]chan *witnessv1.Message{}}
	go s.receive()
	return s, nil
}

// answersHello reports that somebody else answered than who was called.
func answersHello(mine, its *witnessv1.Hello) error {
	if its == nil || its.From != mine.To || its.Cluster != mine.Cluster {
		return status.Error(codes.FailedPrecondition,
			fmt.Sprintf("witness %d of cluster %q answered, not witness %d of cluster %q",
				its.GetFrom(), its.GetCluster(), mine.To, mine.Cluster))
	}
	return nil
}

// receive hands out answers until the stream ends.
func (s *stream) receive() {
	for {
		frame, err := s.grpc.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "the witness ended the stream")
			}
			s.end(err)
			return
		}
		s.mutex.Lock()
		for _, m := range frame.Messages {
			if answer := s.waiting[m.Op]; answer != nil {
				delete(s.waiting, m.Op)
				answer <- m // it has room for one
			}
		}
		s.mutex.Unlock()
	}
}

// ask sends a question and waits for its answer, for as long as the context lets it.
func (s *stream) ask(ctx context.Context, m *witnessv1.Message) (*witnessv1.Message, error) {
	answer := make(chan *witnessv1.Message, 1)
	if err := s.send(m, answer); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-s.ended:
		return nil, s.failure()
	case <-ctx.Done():
		s.end(errGivenUp)
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

func (s *stream) send(m *witnessv1.Message, answer chan *witnessv1.Message) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.why != nil {
		return s.why
	}
	s.op++
	m.Op = s.op
	s.waiting[m.Op] = answer
	err := s.grpc.Send(&witnessv1.Frame{Messages: []*witnessv1.Message{m}})
	if errors.Is(err, io.EOF) {
		return nil // receive says why the stream ended
	}
	return err
}

// end gives the stream up, for the first reason that is given.
func (s *stream) end(why error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.why == nil {
		s.why = why
		close(s.ended)
	}
	s.cancel()
}

func (s *stream) failure() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.why
}

func (s *stream) over() bool { return s.failure() != nil }
