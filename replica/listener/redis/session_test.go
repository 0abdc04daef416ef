package redis

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// signed is an exported past that the cluster has proved.
func signed(past *register.Past) string {
	past.Prove(listenertest.Keys.Prove)
	return string(past.Encode())
}

// regularly serves a store whose regular reads are all depended on.
func regularly(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	options.Identity.Protocol, options.Proofs = "GryffRSC", listenertest.Keys
	return serveRedis(t, options)
}

// told spells what operations came after, each as its kind, its key, "?" if it is regular, and the keys.
func told(ops []register.Operation) string {
	var all []string
	for _, op := range ops {
		text := fmt.Sprint(op.Kind, " ", op.Key)
		if op.Regular {
			text += "?"
		}
		for _, d := range op.After {
			text += " <" + d.Key
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// names are that many keys, in order.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("k%02d", i))
	}
	return all
}

// read has a connection depend on keys, all at once.
func (w *speaker) read(store *listenertest.Held, keys []string) {
	w.t.Helper()
	w.ask(store, len(keys), "MSET "+strings.Join(keys, " v ")+" v")
	w.ask(store, len(keys), "MGET "+strings.Join(keys, " "))
}

// finish waits until all commands sent so far are answered.
func (w *speaker) finish() (replies string) {
	w.t.Helper()
	w.send("PING\r\n")
	for line := ""; line != "+PONG\r\n"; {
		replies += line
		line = w.line()
	}
	return replies
}

// ask sends a command and answers its operations once all of them are under way. It returns them in that order, with
// the replies.
func (w *speaker) ask(
	store *listenertest.Held, operations int, command string,
) (ops []register.Operation, replies string) {
	w.t.Helper()
	before := len(store.Inner.Submitted())
	w.send(command + "\r\n")
	listenertest.WaitUntil(w.t, command+" is under way", func() bool { return store.Count() == operations })
	for range operations {
		store.Release(0)
	}
	replies = w.finish()
	return store.Inner.Submitted()[before:], replies
}

func TestCommandsComeAfterWhatTheConnectionRead(t *testing.T) {
	store := &listenertest.Held{Inner: listenertest.Memory{Regular: true}}
	_, address := regularly(t, Options{Options: operation.Options{Store: store}})
	w, other := dialWire(t, address), dialWire(t, address)
	w.ask(store, 3, "MSET x 1 y 2 n 3")
	for _, c := range []struct {
		from    *speaker
		command string
		want    string
	}{
		{w, "GET none", "read none?"}, // no one wrote it: nothing to depend on
		{w, "GET x", "read x?"},
		{other, "GET y", "read y?"},
		{w, "GET x", "read x? <x"}, // it holds what it carried, and is depended on again
		{w, "SET y 3", "write y <x"},
		{w, "SET y 4", "write y"},
		{other, "INCR n", "rmw n <y"},
		{w, "STRLEN x", "read x?"},
		{w, "DEL y none", "rmw y <x, rmw none <x"},
		{w, "MGET x n", "read x?, read n?"},
		{w, "MSET a 1 b 2", "write a <n <x, write b <n <x"},
		{w, "GET x", "read x?"},
		{w, "READONLY", ""},
		{w, "GET n", "read n <x"}, // stale
		{w, "GET n", "read n"},
		{w, "READWRITE", ""},
		{w, "EXISTS x n none", "read x?, read n?, read none?"},
		{w, "FENCE", "fence  <n <x"},
		{w, "FENCE", ""},
		{w, "GETRANGE x 0 1", "read x?"},
		{w, "RESET", ""},
		{w, "HELLO 2", ""},
		{w, "CAS x 1 2", "rmw x <x"}, // RESET keeps it
		{other, "TYPE x", "read x?"},
		{other, "SET x 5 NX", "rmw x <x"},
	} {
		want := 0
		if c.want != "" {
			want = strings.Count(c.want, ",") + 1
		}
		ops, replies := c.from.ask(store, want, c.command)
		if got := told(ops); got != c.want || strings.HasPrefix(replies, "-") {
			t.Errorf("%s is %q, %q, want %q", c.command, got, replies, c.want)
		}
	}
}

// Under a protocol that is linearizable nothing changes.
func TestNoSessionsUnderALinearizableProtocol(t *testing.T) {
	store := &listenertest.Memory{}
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store, Identity: identity}})
	w := dialWire(t, address)
	var p register.Past
	read := register.Operation{Kind: register.Read, Key: "x"}
	p.Learn(&read, register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: 1}, Depends: true})
	token := signed(&p)
	w.send("SET x 1\r\nGET x\r\nFENCE\r\nFENCE EXPORT\r\n")
	w.send(fmt.Sprintf("*3\r\n$5\r\nFENCE\r\n$6\r\nIMPORT\r\n$%d\r\n%s\r\nGET x\r\n", len(token), token))
	w.expect("+OK\r\n$1\r\n1\r\n+OK\r\n$2\r\n\x02\x00\r\n" +
		"-ERR protocol Gryff is linearizable and takes no token; FENCE where the token is from\r\n$1\r\n1\r\n")
	if got, want := told(store.Submitted()), "write x, read x, read x"; got != want {
		t.Errorf("the store was asked for %q, want %q", got, want)
	}
}

// What no quorum answered has to be carried again.
func TestADependencyStaysUntilAnOperationThatCarriedItIsAnswered(t *testing.T) {
	store := &listenertest.Memory{Regular: true, Intercept: func(op register.Operation) (register.Result, bool, bool) {
		return register.Result{Status: register.Unavailable, Message: "1 of 3 answered"}, false, op.Key == "gone"
	}}
	_, address := regularly(t, Options{Options: operation.Options{Store: store}})
	w := dialWire(t, address)
	w.send("SET x 1\r\n")
	w.finish()
	for _, command := range []string{
		"GET x", "SET gone 1", "INCR gone", "GET gone", "INCRBYFLOAT x a", "SET y 1", "SET y 2",
	} {
		w.send(command + "\r\n")
		w.finish()
	}
	want := "write x, read x?, write gone <x, rmw gone <x, read gone? <x, write y <x, write y"
	if got := told(store.Submitted()); got != want {
		t.Errorf("the store was asked for %q, want %q", got, want)
	}
}

// Commands of a pipeline overlap: none comes after what is not answered, and FENCE waits for all before it.
func TestAPipelineLearnsAsItIsAnswered(t *testing.T) {
	store := &listenertest.Held{Inner: listenertest.Memory{Regular: true}}
	r, address := regularly(t, Options{Options: operation.Options{Store: store}})
	w := dialWire(t, address)
	w.ask(store, 2, "MSET x 1 y 2")
	w.send("GET x\r\nGET y\r\nGET x\r\nFENCE\r\nSET z 3\r\n") // the second read of x waits for the first
	for _, underWay := range []int{2, 2, 1, 2, 1} {
		listenertest.WaitUntil(t, "the next operation is under way", func() bool { return store.Count() == underWay })
		if calls, _ := r.inLine(); underWay == 2 && len(store.Inner.Submitted()) == 2 && calls > 3 {
			t.Errorf("%d commands are in line before FENCE's reads are answered", calls)
		}
		store.Release(0)
	}
	w.expect("$1\r\n1\r\n$1\r\n2\r\n$1\r\n1\r\n+OK\r\n+OK\r\n")
	want := "read x?, read y?, read x? <x, fence  <x <y, write z <x <y"
	if got := told(store.Inner.Submitted()[2:]); got != want {
		t.Errorf("the store was asked for %q, want %q", got, want)
	}
}

// A connection that has read more than an operation carries fences, and commands wait for that.
func TestAFullConnectionFencesFirst(t *testing.T) {
	const keys = 2*register.MaxDependencies + 3
	registry := prometheus.NewRegistry()
	metrics := operation.NewMetrics(registry)
	refuse := make(chan register.Status, 1)
	gate := &listenertest.Held{Inner: listenertest.Memory{Regular: true,
		Intercept: func(op register.Operation) (register.Result, bool, bool) {
			if op.Kind == register.Fence {
				select {
				case status := <-refuse:
					return register.Result{Status: status, Message: "as the test says"}, false, true
				default:
				}
			}
			return register.Result{}, false, false
		}}}
	store := &gate.Inner
	_, address := regularly(t, Options{Options: operation.Options{Store: gate, Metrics: metrics}})
	w := dialWire(t, address)
	w.read(gate, names(keys))
	gate.Open()
	for _, status := range []register.Status{register.Unavailable, register.Unknown} {
		refuse <- status
		before := len(store.Submitted())
		w.send("SET a 1\r\n")
		w.expect("-TRYAGAIN no quorum answered in time, the command has no effect: " +
			"what the connection read before could not be fenced: as the test says\r\n")
		if ops := store.Submitted()[before:]; len(ops) != 1 || ops[0].Kind != register.Fence ||
			len(ops[0].After) != register.MaxDependencies {
			t.Fatalf("before a command that fails the store was asked for %q", told(ops))
		}
	}
	before := len(store.Submitted())
	w.send("SET a 1\r\nSET b 2\r\nINCR a\r\n")
	w.expect("+OK\r\n+OK\r\n:2\r\n")
	ops := store.Submitted()[before:]
	var carried []int
	for _, op := range ops {
		carried = append(carried, len(op.After))
	}
	// Two fences leave what an operation carries, which the two writes do that waited; the rmw of the first key comes
	// after one.
	if len(ops) != 5 || ops[0].Kind != register.Fence || ops[1].Kind != register.Fence ||
		!slices.Equal(carried[:3], []int{register.MaxDependencies, register.MaxDependencies, 3}) || carried[4] > 3 {
		t.Errorf("the store was asked for %q", told(ops))
	}
	if got := listenertest.Metric(t, registry, "georegister_server_session_fences_total", nil); got != 4 {
		t.Errorf("%v fences are counted, want 4", got)
	}
	if got, least := listenertest.Metric(t, registry, "georegister_server_dependencies_total",
		map[string]string{"listener": "redis"}), 4.*register.MaxDependencies+3; got < least || got > least+6 {
		t.Errorf("%v dependencies are counted, want at least %v", got, least)
	}
}

// FENCE fences all of it, in as many parts as it takes, and says so when it does not.
func TestFence(t *testing.T) {
	const keys = 2*register.MaxDependencies + 3
	var fences, failing atomic.Int64
	gate := &listenertest.Held{Inner: listenertest.Memory{Regular: true,
		Intercept: func(op register.Operation) (register.Result, bool, bool) {
			fails := op.Kind == register.Fence && fences.Add(1) == failing.Load()
			return register.Result{Status: register.Unavailable, Message: "1 of 3 answered"}, false, fails
		}}}
	store := &gate.Inner
	_, address := regularly(t, Options{Options: operation.Options{Store: gate}})
	w := dialWire(t, address)
	w.read(gate, names(keys))
	gate.Open()
	failing.Store(2)
	w.send("FENCE\r\n")
	w.expect("-TRYAGAIN no quorum answered in time, the command has no effect: 1 of 3 answered\r\n")
	before := len(store.Submitted())
	w.send("FENCE\r\nFENCE\r\n")
	w.expect("+OK\r\n+OK\r\n")
	var carried []int
	for _, op := range store.Submitted()[before:] {
		carried = append(carried, len(op.After))
	}
	if !slices.Equal(carried, []int{register.MaxDependencies, 3}) {
		t.Errorf("the fences carry %d, want 16 and 3: the failed one had fenced 16 already", carried)
	}
}

// line reads one line of a reply.
func (w *speaker) line() string {
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

// bulk reads a reply that is a string of any bytes, or null.
func (w *speaker) bulk() string {
	var n int
	if line := w.line(); line == "$-1\r\n" {
		return ""
	} else if _, err := fmt.Sscanf(line, "$%d\r\n", &n); err != nil {
		w.t.Fatalf("not a string: %q", line)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(w.in, text); err != nil {
		w.t.Fatal(err)
	}
	return string(text[:n])
}

func (w *speaker) command(args ...string) {
	w.t.Helper()
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	w.send(text)
}

// A token has another connection come after what this one read, also at another replica.
func TestTokens(t *testing.T) {
	gate := &listenertest.Held{Inner: listenertest.Memory{Regular: true}}
	store := &gate.Inner
	_, address := regularly(t, Options{Options: operation.Options{Store: gate}})
	_, elsewhere := regularly(t, Options{Options: operation.Options{Store: store}})
	w, other := dialWire(t, address), dialWire(t, elsewhere)
	w.ask(gate, 2, "MSET x 1 y 2")
	w.ask(gate, 2, "MGET x y")
	gate.Open()
	w.send("FENCE EXPORT\r\n")
	token := w.bulk()
	other.command("FENCE", "IMPORT", token)
	other.send("GET z\r\n")
	other.expect("+OK\r\n$-1\r\n")
	w.send("SET z 1\r\n") // the one that exported it depends on it too
	w.expect("+OK\r\n")
	ops := store.Submitted()
	if got, want := told(ops[len(ops)-2:]), "read z? <x <y, write z <x <y"; got != want {
		t.Errorf("after a token the store was asked for %q, want %q", got, want)
	}

	// Of more than a token may have, a part is fenced.
	all := names(register.MaxDependencies + 1)
	gate.Shut()
	w.read(gate, all)
	gate.Open()
	before := len(store.Submitted())
	w.send("FENCE EXPORT\r\n")
	token = w.bulk()
	if p, err := register.DecodePast([]byte(token), register.DefaultLimits()); err != nil || p.Len() != 1 {
		t.Errorf("the token has %d dependencies, %v", p.Len(), err)
	}
	if got, want := told(store.Submitted()[before:]), "fence  <"+
		strings.Join(all[:register.MaxDependencies], " <"); got != want {
		t.Errorf("for a token the store was asked for %q, want %q", got, want)
	}

	var large register.Past
	for _, key := range all {
		read := register.Operation{Kind: register.Read, Key: key}
		large.Learn(&read,
			register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: 1}, Depends: true})
	}
	other.command("FENCE", "IMPORT", signed(&large))
	other.expect("-ERR the token has 17 dependencies, and at most 16 are allowed; give what FENCE EXPORT replied\r\n")
	other.command("FENCE", "IMPORT", token[:len(token)-1])
	other.expect("-ERR not the past of a session: it is cut off; give what FENCE EXPORT replied\r\n")
	third := dialWire(t, elsewhere)
	for i, want := range []string{
		"+OK\r\n", "+OK\r\n", "-ERR the connection depends on too much already; FENCE first\r\n",
	} {
		var p register.Past
		for j := range register.MaxDependencies {
			read := register.Operation{Kind: register.Read, Key: fmt.Sprint(i, "-", j)}
			p.Learn(&read,
				register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: 1}, Depends: true})
		}
		third.command("FENCE", "IMPORT", signed(&p))
		third.expect(want)
	}
	third.send("FENCE\r\nFENCE EXPORT\r\n")
	third.expect("+OK\r\n$2\r\n\x02\x00\r\n")
}
