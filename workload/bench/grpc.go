package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/register/wire"
	"github.com/georegister/georegister/replica/transport/codec"
)

// session is one connection's: it numbers the rmws, as a client that retries them must, and keeps what the reads of a
// regular protocol depend on, without which they would be no such reads.
type session struct {
	id     uint64
	number uint64
	past   register.Past
}

func newSession() session { return session{id: rand.Uint64()} }

// fill makes the request of an operation, which comes after the session's past from then on.
func (s *session) fill(r *registerv1.Request, op *register.Operation) {
	if op.Kind != register.Fence {
		s.past.Attach(op)
	}
	if op.Kind == register.RMW {
		s.number++
		op.ID = register.ID{
			Session: s.id, Number: s.number, FirstIncomplete: s.number, IssuedAt: time.Now().UnixMilli(),
		}
	}
	wire.SetRequest(r, op)
}

// learn takes the answer to an operation that was filled in.
func (s *session) learn(op *register.Operation, r *registerv1.Response) {
	s.past.Learn(op, wire.Result(r))
}

func check(r *registerv1.Response) error {
	if r.GetStatus() != registerv1.Status_OK {
		return fmt.Errorf("the store answered %s: %s", r.GetStatus(), r.GetMessage())
	}
	return nil
}

// unaryDialer makes one gRPC call per operation.
type unaryDialer struct{}

type unaryConn struct {
	conn    *grpc.ClientConn
	client  registerv1.RegisterClient
	session session
	request registerv1.Request
}

func (unaryDialer) Dial(_ context.Context, address string) (Conn, error) {
	conn, err := dialGRPC(address, grpc.ForceCodecV2(codec.Codec{}))
	if err != nil {
		return nil, err
	}
	return &unaryConn{conn: conn, client: registerv1.NewRegisterClient(conn), session: newSession()}, nil
}

func (c *unaryConn) Do(ctx context.Context, ops []register.Operation) error {
	op, err := one(ops)
	if err != nil {
		return err
	}
	c.session.fill(&c.request, &op)
	response, err := c.client.Do(ctx, &c.request)
	if err != nil {
		return err
	}
	if err := check(response); err != nil {
		return err
	}
	c.session.learn(&op, response)
	return nil
}

func (c *unaryConn) Close() error { return c.conn.Close() }

// streamDialer sends batches over one gRPC stream per connection.
type streamDialer struct{}

type streamConn struct {
	conn     *grpc.ClientConn
	stream   registerv1.Register_PipelineClient
	end      context.CancelFunc
	session  session
	requests registerv1.Requests
	sent     []register.Operation // by tag
}

func (streamDialer) Dial(ctx context.Context, address string) (Conn, error) {
	conn, err := dialGRPC(address, grpc.ForceCodecV2(codec.Codec{}))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	stream, err := registerv1.NewRegisterClient(conn).Pipeline(ctx)
	if err != nil {
		end()
		_ = conn.Close()
		return nil, fmt.Errorf("open a stream to %s: %w", address, err)
	}
	return &streamConn{conn: conn, stream: stream, end: end, session: newSession()}, nil
}

func (c *streamConn) Do(_ context.Context, ops []register.Operation) error {
	for c.session.past.Full() { // reads that were sent together have found more than one operation carries
		if err := c.send([]register.Operation{c.session.past.Fence()}); err != nil {
			return err
		}
	}
	return c.send(ops)
}

func (c *streamConn) send(ops []register.Operation) error {
	for len(c.requests.Requests) < len(ops) {
		c.requests.Requests = append(c.requests.Requests, &registerv1.Request{Tag: uint64(len(c.requests.Requests))})
	}
	c.requests.Requests = c.requests.Requests[:len(ops)]
	c.sent = append(c.sent[:0], ops...)
	for i := range c.sent {
		c.session.fill(c.requests.Requests[i], &c.sent[i])
	}
	if err := c.stream.Send(&c.requests); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for answered := 0; answered < len(ops); {
		responses, err := c.stream.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		for _, r := range responses.GetResponses() {
			if err := check(r); err != nil {
				return err
			}
			if r.GetTag() >= uint64(len(c.sent)) {
				return fmt.Errorf("the store answered tag %d of %d", r.GetTag(), len(c.sent))
			}
			c.session.learn(&c.sent[r.GetTag()], r)
			answered++
		}
	}
	return nil
}

func (c *streamConn) Close() error {
	c.end()
	return c.conn.Close()
}
