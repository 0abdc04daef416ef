// Package manage is the manager's side of a witness: it asks which lives there are, begins them and ends them.
package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/replica/view"
)

// asker is the manager, as a witness knows it.
const asker = 0

// wireVersion is that of the witnesses whose answers this package understands.
const wireVersion = 1

// Conn is the manager's way to one witness. It dials when it is asked for something, and again after the connection has
// ended, such as when the witness restarted. Each question has a stream of its own. It is safe for concurrent use.
type Conn struct {
	cluster string
	id      view.MemberID
	address string

	connection *grpc.ClientConn
	err        error // why there is no connection
}

// Dial names a witness of a cluster: its ID, and the host:port where the manager reaches it. It connects to nobody yet;
// a wrong address shows when something is asked. The options follow those that this package chooses, and win.
func Dial(cluster string, id view.MemberID, address string, options ...grpc.DialOption) *Conn {
	c := &Conn{cluster: cluster, id: id, address: address}
	c.connection, c.err = grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{})),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A machine that vanished says nothing; this notices it, and the next question goes where the name leads then.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}, options...)...)
	return c
}

// Close ends the connection; questions under way fail, and so does any later one.
func (c *Conn) Close() error {
	if c.connection == nil {
		return nil
	}
	if err := c.connection.Close(); err != nil && status.Code(err) != codes.Canceled { // it was closed before
		return err
	}
	return nil
}

// Report asks for the witness's disk and the lives that it keeps.
func (c *Conn) Report(ctx context.Context) (membership.WitnessReport, error) {
	answer, err := c.ask(ctx, &witnessv1.Message{Kind: witnessv1.Kind_LIVES})
	if err == nil && !answer.Accepted {
		err = fmt.Errorf("it does not tell its lives: %s", answer.Refused)
	}
	if err != nil {
		return membership.WitnessReport{}, c.fail("ask for its lives", err)
	}
	r := membership.WitnessReport{Witness: c.id, Disk: answer.Disk}
	for _, l := range answer.Lives {
		r.Lives = append(r.Lives, membership.Life{Witness: c.id, Partition: int(l.Partition), Term: l.Term})
	}
	return r, nil
}

// Start begins the life for a term of a partition, and returns once that is durable. Disk is the one that the view
// names; a witness on another one refuses. To ask again for a life that has begun does no harm; one that ended does not
// begin again.
func (c *Conn) Start(ctx context.Context, partition int, term uint64, disk string) error {
	return c.change(ctx, "begin",
		&witnessv1.Message{Kind: witnessv1.Kind_START, Partition: uint32(partition), Term: term, Disk: disk})
}

// End ends the life for a term of a partition, and returns once that is durable: what it holds is dropped, and it never
// begins again. To ask again does no harm.
func (c *Conn) End(ctx context.Context, partition int, term uint64) error {
	return c.change(ctx, "end", &witnessv1.Message{Kind: witnessv1.Kind_END, Partition: uint32(partition), Term: term})
}

// change has a life begin or end.
func (c *Conn) change(ctx context.Context, what string, m *witnessv1.Message) error {
	answer, err := c.ask(ctx, m)
	if err == nil && !answer.Accepted {
		err = fmt.Errorf("refused: %s", answer.Refused)
	}
	if err != nil {
		return c.fail(fmt.Sprintf("%s the life for term %d of partition %d", what, m.Term, m.Partition), err)
	}
	return nil
}

// Live begins and ends those of some lives that are this witness's, one after the other, up to the first that fails.
// Disk is as for Start.
func (c *Conn) Live(ctx context.Context, disk string, start, end []membership.Life) error {
	other := func(l membership.Life) bool { return l.Witness != c.id }
	for _, l := range slices.DeleteFunc(slices.Clone(start), other) {
		if err := c.Start(ctx, l.Partition, l.Term, disk); err != nil {
			return err
		}
	}
	for _, l := range slices.DeleteFunc(slices.Clone(end), other) {
		if err := c.End(ctx, l.Partition, l.Term); err != nil {
			return err
		}
	}
	return nil
}

// fail names the witness, and what can be done.
func (c *Conn) fail(what string, err error) error {
	var remedy string
	switch status.Code(err) {
	case codes.Unavailable:
		remedy = "; see that it runs and listens there (listen.peer), its log says why it ended"
	case codes.FailedPrecondition:
		remedy = "; correct the address, or the cluster and self of its configuration"
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		err = &told{s.Message(), err}
	}
	return fmt.Errorf("witness %d at %s: %s: %w%s", c.id, c.address, what, err, remedy)
}

// told is an error of gRPC by its message alone.
type told struct {
	message string
	err     error
}

func (t *told) Error() string { return t.message }
func (t *told) Unwrap() error { return t.err }

// ask asks one question, for as long as the context lets it. The question comes with the hello: a witness that was not
// meant refuses both.
func (c *Conn) ask(ctx context.Context, m *witnessv1.Message) (*witnessv1.Message, error) {
	if c.err != nil {
		return nil, c.err
	}
	own, end := context.WithCancel(ctx)
	defer end()
	answer, err := c.converse(own, &witnessv1.Frame{
		Hello: &witnessv1.Hello{
			Cluster: c.cluster, From: asker, To: uint32(c.id), WireVersion: wireVersion,
		},
		Messages: []*witnessv1.Message{m},
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
	return answer, err
}

// converse sends a frame with a hello and a question, and waits for the answers to both.
func (c *Conn) converse(ctx context.Context, frame *witnessv1.Frame) (*witnessv1.Message, error) {
	stream, err := witnessv1.NewWitnessesClient(c.connection).Stream(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(frame); err != nil && !errors.Is(err, io.EOF) { // then Recv says why
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if its := first.Hello; its.GetFrom() != uint32(c.id) || its.GetCluster() != c.cluster {
		return nil, status.Errorf(codes.FailedPrecondition,
			"witness %d of cluster %q answered, not witness %d of cluster %q",
			its.GetFrom(), its.GetCluster(), c.id, c.cluster)
	}
	for {
		answers, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if len(answers.Messages) > 0 {
			return answers.Messages[0], nil
		}
	}
}
