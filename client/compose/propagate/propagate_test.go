package propagate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/client/compose"
	"github.com/georegister/georegister/client/compose/propagate"
	"github.com/georegister/georegister/client/regulartest"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

const bound = 20 * time.Second // on everything that a test waits for

// world is a regular store with two sites, and what its clients saw and told each other.
type world struct {
	t             *testing.T
	ctx           context.Context
	cluster       *regulartest.Cluster
	first, second *client.Client
	recorder      *history.Recorder
	messages      []history.Message
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, cluster: &regulartest.Cluster{}, recorder: history.NewRecorder(nil)}
	first, second, stop, err := w.cluster.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.first, w.second = w.dial(first), w.dial(second)
	return w
}

func (w *world) dial(address string) *client.Client {
	c, err := client.Dial(w.ctx, client.Options{Endpoints: []client.Endpoint{{Address: address}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return c
}

// begin has a write be under way, which only the first site knows of; it ends with the test.
func (w *world) begin(key, value string) {
	w.recorder.Invoke("writer of "+key, "",
		register.Operation{Kind: register.Write, Key: key, Value: register.Value(value)})
	w.t.Cleanup(w.cluster.Begin(key, register.Value(value)))
}

// actor is a process that uses the store, by one session.
type actor struct {
	name    string
	world   *world
	session *client.Session
	process *compose.Process
}

func (w *world) actor(name string, at *client.Client) (*actor, error) {
	a := &actor{name: name, world: w, process: compose.NewProcess()}
	var err error
	if a.session, err = at.NewSession(); err != nil {
		return nil, err
	}
	return a, a.session.Compose(a.process, "store")
}

func (a *actor) read(key string) (string, error) {
	op := register.Operation{Kind: register.Read, Key: key}
	i := a.world.recorder.Invoke(a.name, "", op)
	result, err := a.session.Do(a.world.ctx, op)
	if err != nil {
		return "", err
	}
	i.Return(result)
	return string(result.Value), nil
}

// tells notes that a process tells another one all that it has done so far, before that one does anything else.
func (w *world) tells(from, to string) {
	i := w.recorder.Invoke("clock", "", register.Operation{Kind: register.Read})
	clock := i.Return(register.Result{Status: register.Unavailable})
	w.messages = append(w.messages, history.Message{From: from, To: to, Sent: clock.Invoked, Received: clock.Returned})
}

func (w *world) verdict() history.Outcome {
	v, err := history.CheckRSC(context.Background(), w.recorder.Operations(), history.RSCOptions{Messages: w.messages})
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Outcome
}

type actorKey struct{}

// serve opens a server, whose handlers are actors at a site, and a connection to it, each with the interceptors or
// without.
func (w *world) serve(at *client.Client, callers, handlers bool, more ...grpc.ServerOption) *grpc.ClientConn {
	begin := propagate.Begin(func(ctx context.Context) (context.Context, error) {
		a, err := w.actor("handler", at)
		if err != nil {
			return nil, err
		}
		return propagate.NewContext(context.WithValue(ctx, actorKey{}, a), a.process), nil
	})
	if handlers {
		more = append(more, grpc.UnaryInterceptor(propagate.UnaryServerInterceptor(begin)),
			grpc.StreamInterceptor(propagate.StreamServerInterceptor(begin)))
	} else {
		more = append(more,
			grpc.UnaryInterceptor(
				func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
					ctx, err := begin(ctx)
					if err != nil {
						return nil, err
					}
					return h(ctx, m)
				}))
	}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(more...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Reader", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Read", Handler: handleRead}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Reads", Handler: handleReads, ServerStreams: true, ClientStreams: true},
		},
	}, struct{}{})
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	w.t.Cleanup(server.Stop)
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() })}
	if callers {
		options = append(options, grpc.WithUnaryInterceptor(propagate.UnaryClientInterceptor()),
			grpc.WithStreamInterceptor(propagate.StreamClientInterceptor()))
	}
	conn, err := grpc.NewClient("passthrough:///test", options...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// handleRead answers with the value of the key that is asked for; an empty one is an error.
func handleRead(
	_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
) (any, error) {
	request := &wrapperspb.StringValue{}
	if err := decode(request); err != nil {
		return nil, err
	}
	return intercept(ctx, request, &grpc.UnaryServerInfo{FullMethod: "/test.Reader/Read"},
		func(ctx context.Context, _ any) (any, error) {
			value, err := ctx.Value(actorKey{}).(*actor).read(request.Value)
			if err == nil && value == "" {
				err = status.Error(codes.NotFound, "absent")
			}
			return wrapperspb.String(value), err
		})
}

// handleReads answers each key with its value.
func handleReads(_ any, stream grpc.ServerStream) error {
	for {
		request := &wrapperspb.StringValue{}
		if err := stream.RecvMsg(request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		value, err := stream.Context().Value(actorKey{}).(*actor).read(request.Value)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.String(value)); err != nil {
			return err
		}
	}
}

// call has an actor ask a server for a key.
func (a *actor) call(conn *grpc.ClientConn, key string) (string, error) {
	answer := &wrapperspb.StringValue{}
	a.world.tells(a.name, "handler")
	err := conn.Invoke(propagate.NewContext(a.world.ctx, a.process), "/test.Reader/Read",
		wrapperspb.String(key), answer)
	return answer.Value, err
}

func (w *world) must(a *actor, err error) *actor {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (a *actor) find(key, want string) {
	a.world.t.Helper()
	if got, err := a.read(key); err != nil || got != want {
		a.world.t.Errorf("%s finds %q of %s, want %q: %v", a.name, got, key, want, err)
	}
}

// The example of section 4.2: one server reads for a user's browser, and then a second one does.
func TestRequestsTell(t *testing.T) {
	for _, carried := range []bool{true, false} {
		w := newWorld(t)
		w.begin("photo", "sunset")
		conn := w.serve(w.second, carried, carried)
		alice := w.must(w.actor("alice", w.first))
		alice.find("photo", "sunset")
		want, outcome := "sunset", history.RegularSequential
		if !carried {
			want, outcome = "", history.Violation
		}
		got, err := alice.call(conn, "photo")
		if got != want || carried == (status.Code(err) == codes.NotFound) {
			t.Errorf("carried is %t: the server finds %q, %v", carried, got, err)
		}
		if v := w.verdict(); v != outcome {
			t.Errorf("carried is %t: the history is %s, want %s", carried, v, outcome)
		}
	}
}

// What an answer tells its caller knows, and so does what an error tells.
func TestAnswersTell(t *testing.T) {
	for _, carried := range []bool{true, false} {
		w := newWorld(t)
		w.begin("photo", "sunset")
		w.begin("gone", "")
		conn := w.serve(w.first, carried, carried)
		alice := w.must(w.actor("alice", w.second))
		want, outcome := "sunset", history.RegularSequential
		if !carried {
			want, outcome = "", history.Violation
		}
		for _, key := range []string{"photo", "gone"} {
			got, err := alice.call(conn, key)
			if key == "photo" && (err != nil || got != "sunset") ||
				key == "gone" && status.Code(err) != codes.NotFound {
				t.Fatalf("the server finds %q of %s, %v", got, key, err)
			}
			w.tells("handler", "alice")
			known, _ := alice.session.ExportContext()
			if carried != strings.Contains(string(known), key) {
				t.Errorf("carried is %t: of %s alice knows %q", carried, key, known)
			}
		}
		alice.find("photo", want)
		if v := w.verdict(); v != outcome {
			t.Errorf("carried is %t: the history is %s, want %s", carried, v, outcome)
		}
	}
}

// Messages in the middle of a stream have no metadata: what they tell is fenced.
func TestStreamsTell(t *testing.T) {
	w := newWorld(t)
	w.begin("early", "x")
	alice, bob := w.must(w.actor("alice", w.first)), w.must(w.actor("bob", w.second))
	there, here := w.serve(w.second, true, true), w.serve(w.first, true, true)
	alice.find("early", "x")
	reads := &grpc.StreamDesc{StreamName: "Reads", ServerStreams: true, ClientStreams: true}
	open := func(a *actor, conn *grpc.ClientConn) (ask func(key string) string, end func()) {
		stream, err := conn.NewStream(propagate.NewContext(w.ctx, a.process), reads, "/test.Reader/Reads")
		if err != nil {
			t.Fatal(err)
		}
		return func(key string) string {
				answer := &wrapperspb.StringValue{}
				if err := errors.Join(stream.SendMsg(wrapperspb.String(key)), stream.RecvMsg(answer)); err != nil {
					t.Fatal(err)
				}
				return answer.Value
			}, func() {
				if err := errors.Join(stream.CloseSend()); err != nil {
					t.Error(err)
				}
				if err := stream.RecvMsg(&wrapperspb.StringValue{}); !errors.Is(err, io.EOF) {
					t.Errorf("the stream ends with %v", err)
				}
			}
	}
	fences := func() int { return len(w.cluster.Requests(4)) }
	ask, end := open(alice, there)
	if got := ask("early"); got != "x" || fences() != 0 {
		t.Errorf("with the opening, the server finds %q, by %d fences", got, fences())
	}
	w.begin("late", "y")
	alice.find("late", "y")
	if got := ask("late"); got != "y" || fences() != 1 {
		t.Errorf("with a later message, the server finds %q, by %d fences", got, fences())
	}
	end()
	// The other way: bob is told by a server that sees more than he does.
	w.begin("more", "z")
	ask, end = open(bob, here)
	if got := ask("more"); got != "z" || fences() != 2 {
		t.Errorf("the server finds %q, by %d fences", got, fences())
	}
	bob.find("more", "z")
	end()
	w.begin("last", "z")
	ask, end = open(bob, here)
	ask("last")
	end()
	if v := w.verdict(); v != history.RegularSequential {
		t.Errorf("the history is %s", v)
	}
}

// What can't be carried is refused, by whoever meets it first, and in words.
func TestWhatIsWrongIsNamed(t *testing.T) {
	w := newWorld(t)
	both, server, none := w.serve(w.first, true, true), w.serve(w.first, false, true), w.serve(w.first, true, false)
	w.begin("k", "v")
	alice, other := w.must(w.actor("alice", w.second)), compose.NewProcess()
	invoke := func(ctx context.Context, conn *grpc.ClientConn) error {
		return conn.Invoke(ctx, "/test.Reader/Read", wrapperspb.String("k"), &wrapperspb.StringValue{})
	}
	known := propagate.NewContext(w.ctx, alice.process)
	raw := func(values ...string) context.Context {
		return metadata.NewOutgoingContext(w.ctx, metadata.MD{propagate.Key: values})
	}
	if err := invoke(propagate.NewContext(w.ctx, nil), both); !errors.Is(err, propagate.ErrNoProcess) ||
		!strings.Contains(err.Error(), "propagate.NewContext") {
		t.Errorf("without a process: %v", err)
	}
	if got, err := alice.call(both, "k"); err != nil || got != "v" {
		t.Error(got, err)
	}
	named, _ := alice.process.Export(w.ctx)
	for name, test := range map[string]struct {
		err  error
		code codes.Code
		want string
	}{
		"no context": {invoke(w.ctx, server), codes.OK, ""},
		"one that is none": {
			invoke(raw("x"), server), codes.InvalidArgument, "georegister-context-bin: import a context: not a context",
		},
		"two": {
			invoke(raw("\x01\x00", "\x01\x00"), server), codes.InvalidArgument,
			"it has 2 values; install the interceptor once",
		},
		"a long one": {
			invoke(raw(strings.Repeat("x", propagate.MaxBytes+1)), server), codes.InvalidArgument,
			"it has 4097 bytes, and 4096 are allowed",
		},
		"a silent server": {
			invoke(known, none), codes.Unavailable,
			"the answer has no context; install propagate's interceptor at the server too",
		},
		"an answer for nobody": {invoke(propagate.NewContext(w.ctx, other), both), codes.FailedPrecondition,
			`what the server knows could not be taken over: metadata georegister-context-bin: import a context: service "store": the service is not registered`},
		"a service that the server lacks": {
			invoke(raw(strings.Replace(string(named), "store", "stork", 1)), server),
			codes.FailedPrecondition, `service "stork"`,
		},
	} {
		if status.Code(test.err) != test.code || test.err != nil && !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v: %v, want %v: %s", name, status.Code(test.err), test.err, test.code, test.want)
		}
	}
}

// What is too long for a header is fenced, and the call goes on.
func TestLongContextsAreFenced(t *testing.T) {
	w := newWorld(t)
	conn := w.serve(w.second, true, true)
	alice := w.must(w.actor("alice", w.first))
	long := strings.Repeat("v", propagate.MaxBytes)
	w.begin("k", long)
	alice.find("k", long)
	if got, err := alice.call(conn, "k"); err != nil || got != long {
		t.Errorf("the server finds %d bytes: %v", len(got), err)
	}
	if fences := len(w.cluster.Requests(4)); fences != 1 {
		t.Errorf("%d fences", fences)
	}
}
