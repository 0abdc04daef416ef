package propagate

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Begin makes the process of one call: it returns a context, made with NewContext from the one that it is given, whose
// process has all services registered that callers use, each with a session that is new or the caller's own. Whatever
// else the handler needs, such as those sessions, it may put there too.
type Begin func(ctx context.Context) (context.Context, error)

// UnaryServerInterceptor has the process of each call take over what the caller knows, before the handler runs, and
// tells the caller in turn what it knows in the end. A caller without a context is served; it told nothing. A context
// that can't be taken over is refused with InvalidArgument, or FailedPrecondition if it names a service that begin did
// not register. An answer whose context can't be exported, since a fence fails, becomes Unavailable, though the handler
// was carried out.
func UnaryServerInterceptor(begin Begin) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		inner, t, err := begin.open(ctx, info.FullMethod)
		if err != nil {
			return nil, err
		}
		answer, failed := handle(inner, request)
		exported, err := export(ctx, t.process)
		if err == nil {
			err = grpc.SetTrailer(ctx, metadata.Pairs(Key, exported))
		}
		if err != nil {
			return nil, failure(info.FullMethod, "it was carried out, but can't be answered", errors.Join(err, failed))
		}
		return answer, failed
	}
}

// StreamServerInterceptor does so for streams, whose messages are preceded by fences where they tell of something.
func StreamServerInterceptor(begin Begin) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx := stream.Context()
		inner, t, err := begin.open(ctx, info.FullMethod)
		if err != nil {
			return err
		}
		failed := handle(service, &handlerStream{ServerStream: stream, ctx: inner, method: info.FullMethod, teller: t})
		exported, err := export(ctx, t.process)
		if err != nil {
			return failure(info.FullMethod, "it was carried out, but can't be ended", errors.Join(err, failed))
		}
		stream.SetTrailer(metadata.Pairs(Key, exported))
		return failed
	}
}

// open makes the process of a call, and has it know what the caller does.
func (b Begin) open(ctx context.Context, method string) (context.Context, teller, error) {
	inner, err := b(ctx)
	if err != nil {
		return nil, teller{}, failure(method, "a process could not be made for it", err)
	}
	process, ok := FromContext(inner)
	if !ok {
		return nil, teller{}, failure(method, "begin must return a context from propagate.NewContext", ErrNoProcess)
	}
	used := process.Version() > 0
	md, _ := metadata.FromIncomingContext(ctx)
	if _, err := take(ctx, process, md); err != nil {
		return nil, teller{}, failure(method, "it was not carried out", err)
	}
	t := teller{process: process}
	if !used { // the caller knows what it told
		t.told = process.Version()
	}
	return inner, t, nil
}

// handlerStream is a handler's stream.
type handlerStream struct {
	grpc.ServerStream
	teller
	ctx    context.Context
	method string
}

// Context implements grpc.ServerStream.
func (s *handlerStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *handlerStream) SendMsg(m any) error {
	if err := s.tell(s.ctx); err != nil {
		return failure(s.method, "a message was not sent", err)
	}
	return s.ServerStream.SendMsg(m)
}
