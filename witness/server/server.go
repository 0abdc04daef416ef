// Package server puts a witness behind gRPC: one process serves the masters of any number of partitions.
package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/witness/core"
	"github.com/georegister/georegister/witness/disk"
)

// DefaultCompactAbove is the size of a log below which garbage is left in it, bytes.
const DefaultCompactAbove = 16 << 20

// Options say who the witness is.
type Options struct {
	Cluster      string
	Self         uint32                // the witness's ID
	CompactAbove int64                 // 0: DefaultCompactAbove
	Log          *zap.Logger           // nil: none
	Registerer   prometheus.Registerer // nil: nobody sees the metrics
}

// Server is a witness that runs.
type Server struct {
	options Options
	witness *core.Witness // the loop's
	disk    *disk.Disk    // the loop's, and that of its commit in flight
	metrics *metrics
	grpc    *grpc.Server
	in      chan *inbound
	calls   chan func(*loop)
	running context.Context // until the witness is to stop, or fails; its cause says why
	stop    context.CancelCauseFunc
	done    chan struct{} // the loop has ended; err says why, if the witness failed
	err     error
	ids     atomic.Uint32 // of streams
	refused atomic.Pointer[string]
}

// New starts a witness, whose core has been restored from the disk. Both are the server's until Shutdown has returned;
// the disk is the caller's to close then.
func New(o Options, w *core.Witness, d *disk.Disk) *Server {
	o.Log, o.CompactAbove = cmp.Or(o.Log, zap.NewNop()), cmp.Or(o.CompactAbove, DefaultCompactAbove)
	s := &Server{
		options: o, witness: w, disk: d, in: make(chan *inbound, inboundFrames), calls: make(chan func(*loop)),
		done: make(chan struct{}),
	}
	s.running, s.stop = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(s, o.Registerer)
	s.metrics.logBytes.Set(float64(d.Size()))
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(frameCodec{}),
		grpc.MaxRecvMsgSize(maxFrame),
		grpc.MaxHeaderListSize(codec.MaxHeaderBytes),
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(4<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minKeepalive, PermitWithoutStream: true}),
	)
	witnessv1.RegisterWitnessesServer(s.grpc, &acceptor{server: s})
	go newLoop(s).run()
	return s
}

// Serve answers on a listener until Shutdown, and then returns nil.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Failed is closed when the witness has ended. It answers nothing any more.
func (s *Server) Failed() <-chan struct{} { return s.done }

// Shutdown answers what has arrived, makes it durable, and ends all streams. It returns why the witness failed, if it
// did. When the context ends, streams that still don't take their answers are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop(errStopped)
	<-s.done
	ended := context.AfterFunc(ctx, s.grpc.Stop)
	defer ended()
	s.grpc.GracefulStop()
	return s.err
}

// Err is nil while the witness serves, and says why it does not.
func (s *Server) Err() error { return context.Cause(s.running) }

// failure is why the witness failed, or nil.
func (s *Server) failure() error {
	if err := s.Err(); err != errStopped {
		return err
	}
	return nil
}

// call has the loop run something, and returns false if it has ended.
func (s *Server) call(f func(*loop)) bool {
	ran := make(chan struct{})
	select {
	case s.calls <- func(l *loop) {
		f(l)
		close(ran)
	}:
		<-ran
		return true
	case <-s.done:
		return false
	}
}

// join opens the way for answers to an asker.
func (s *Server) join(from uint32) (*stream, error) {
	st := newStream(s.ids.Add(1), from)
	if !s.call(func(l *loop) { l.streams[st.id] = st }) {
		return nil, status.Error(codes.Unavailable, s.Err().Error())
	}
	return st, nil
}

func (s *Server) leave(st *stream) {
	s.call(func(l *loop) { delete(l.streams, st.id) })
}

// note logs a refusal, once: the asker calls again and again.
func (s *Server) note(err error) {
	reason := status.Convert(err).Message()
	if earlier := s.refused.Swap(&reason); earlier == nil || *earlier != reason {
		s.options.Log.Warn("Asker refused", zap.String("reason", reason))
	}
}
