package propagate

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/georegister/georegister/client/compose"
)

// errSilent is the error of an answer without a context: what the caller does next could miss what the answer tells.
var errSilent = errors.New("the answer has no context; install propagate's interceptor at the server too, or call it " +
	"over a connection without")

// UnaryClientInterceptor carries the context of the process that calls, and takes over what the answer tells. A call
// fails before it is sent if there is no process or what it knows can't be exported; it fails afterwards, though the
// server has carried it out, if the answer's context is missing or can't be taken over.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		process, ctx, err := begin(ctx, method)
		if err != nil {
			return err
		}
		var trailer metadata.MD
		failed := invoke(ctx, method, request, reply, conn, append(slices.Clip(options), grpc.Trailer(&trailer))...)
		return heard(ctx, process, method, trailer, failed)
	}
}

// StreamClientInterceptor does so for streams: the opening carries the context, fences come before the messages that
// tell of something later, and the end of the stream takes over what the server knows. What the server sends in between
// it has fenced.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption) (grpc.ClientStream, error) {
		process, ok := FromContext(ctx)
		var version uint64
		if ok {
			version = process.Version() // what is done after it may be missing in the export
		}
		process, ctx, err := begin(ctx, method)
		if err != nil {
			return nil, err
		}
		stream, err := open(ctx, desc, conn, method, options...)
		if err != nil {
			return nil, err
		}
		return &callerStream{ClientStream: stream, ctx: ctx, method: method, single: !desc.ServerStreams,
			teller: teller{process: process, told: version}}, nil
	}
}

// begin puts what the process of a call knows into the call's metadata.
func begin(ctx context.Context, method string) (*compose.Process, context.Context, error) {
	process, ok := FromContext(ctx)
	if !ok {
		return nil, nil, failure(method, "put one there with propagate.NewContext", ErrNoProcess)
	}
	exported, err := export(ctx, process)
	if err != nil {
		return nil, nil, failure(method, "nothing was sent", err)
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(Key, exported)
	return process, metadata.NewOutgoingContext(ctx, md), nil
}

// heard takes over what the end of a call tells, and returns the call's error.
func heard(ctx context.Context, process *compose.Process, method string, trailer metadata.MD, failed error) error {
	there, err := take(ctx, process, trailer)
	answered := failed == nil || errors.Is(failed, io.EOF)
	switch {
	case err != nil:
		if !answered {
			err = errors.Join(err, failed)
		}
		return failure(method, "it is over, but what the server knows could not be taken over", err)
	case !there && answered:
		return failure(method, "it is over", errSilent)
	}
	return failed
}

// callerStream is a caller's stream.
type callerStream struct {
	grpc.ClientStream
	teller
	ctx    context.Context // the caller's; the stream's own ends with it
	method string
	single bool // there is one answer, whose end is the stream's
	ended  sync.Once
}

// SendMsg implements grpc.ClientStream.
func (s *callerStream) SendMsg(m any) error {
	if err := s.tell(s.ctx); err != nil {
		return failure(s.method, "a message was not sent", err)
	}
	return s.ClientStream.SendMsg(m)
}

// CloseSend implements grpc.ClientStream.
func (s *callerStream) CloseSend() error {
	if err := s.tell(s.ctx); err != nil {
		return failure(s.method, "the end was not sent", err)
	}
	return s.ClientStream.CloseSend()
}

// RecvMsg implements grpc.ClientStream.
func (s *callerStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.single {
		return nil
	}
	s.ended.Do(func() { err = heard(context.WithoutCancel(s.ctx), s.process, s.method, s.Trailer(), err) })
	return err
}
