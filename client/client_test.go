package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

func TestOperations(t *testing.T) {
	c := dial(t, serve(t, &listenertest.Memory{}))
	ctx := within(t, bound)
	check := func(what string, got any, err error, want any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	value, err := c.Get(ctx, "k")
	check("get of nothing", value, err, register.Value(nil))
	check("set", nil, c.Set(ctx, "k", []byte("v")), nil)
	value, err = c.Get(ctx, "k")
	check("get", value, err, register.Value("v"))
	value, err = c.Get(ctx, "k", Stale())
	check("get of what may be stale", value, err, register.Value("v"))
	check("set to nothing", nil, c.Set(ctx, "k", nil), nil)
	value, err = c.Get(ctx, "k")
	check("get of an empty value", value, err, register.Value(""))
	check("clear", nil, c.Clear(ctx, "k"), nil)
	was, err := c.Delete(ctx, "k")
	check("delete of nothing", was, err, false)
	was, err = c.SetIfPresent(ctx, "k", []byte("a"))
	check("set if present", was, err, false)
	check("set once", nil, c.SetOnce(ctx, "once", nil), nil)
	value, err = c.Get(ctx, "once")
	check("get of what was set once", value, err, register.Value(""))
	was, err = c.SetIfAbsent(ctx, "k", []byte("a"))
	check("set if absent", was, err, true)
	was, err = c.CompareAndSwap(ctx, "k", []byte("a"), []byte(""))
	check("compare and swap", was, err, true)
	value, err = c.GetAndSet(ctx, "k", []byte("b"))
	check("get and set", value, err, register.Value(""))
	value, err = c.GetAndDelete(ctx, "k")
	check("get and delete", value, err, register.Value("b"))
	sum, err := c.Add(ctx, "n", -3)
	check("add", sum, err, int64(-3))
	length, err := c.Append(ctx, "s", []byte("abc"))
	check("append", length, err, int64(3))
	was, err = c.Delete(ctx, "s")
	check("delete", was, err, true)
}

// A read says itself whether it may be stale. Any other may be regular, where the protocol is, since its session
// carries what it finds.
func TestStaleReads(t *testing.T) {
	store := &listenertest.Memory{}
	c := dial(t, serve(t, store))
	ctx := within(t, bound)
	for _, options := range [][]ReadOption{nil, {Stale()}} {
		if _, err := c.Get(ctx, "k", options...); err != nil {
			t.Fatal(err)
		}
	}
	want := []register.Operation{
		{Kind: register.Read, Key: "k", Regular: true}, {Kind: register.Read, Key: "k", Stale: true},
	}
	if got := store.Submitted(); !reflect.DeepEqual(got, want) {
		t.Errorf("the store was asked for %+v, want %+v", got, want)
	}
}

func TestErrors(t *testing.T) {
	abd := &listenertest.Memory{NoRMW: true}
	c, noRMW := dial(t, serve(t, &listenertest.Memory{})), dial(t, serve(t, abd))
	ctx := within(t, bound)
	if err := c.Set(ctx, "k", []byte("text")); err != nil {
		t.Fatal(err)
	}
	var refused *Refused
	if _, err := c.Add(ctx, "k", 1); !errors.As(err, &refused) || refused.Reason != register.RefusedNotInteger {
		t.Errorf("add to a text: %v", err)
	}
	session, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	add := register.Operation{
		Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}},
	}
	if r, err := session.Do(ctx, add); !errors.As(err, &refused) || r.Status != register.Failed ||
		r.Message != refused.Reason || r.Carstamp.IsZero() {
		t.Errorf("what was refused observed %+v: %v", r, err)
	}
	if err := c.Set(ctx, "k", make([]byte, 1<<20+1)); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "1048576") {
		t.Errorf("set of too much: %v", err)
	}
	if _, err := c.Get(ctx, strings.Repeat("k", 4097)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("get of a long key: %v", err)
	}
	if _, err := c.Get(ctx, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("get of no key: %v", err)
	}
	if _, err := c.RMW(ctx, "k", "no-such.v1"); !errors.Is(err, ErrInvalid) {
		t.Errorf("rmw with an unknown function: %v", err)
	}
	if _, err := noRMW.Add(ctx, "k", 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("rmw where there are none: %v", err)
	}
	for _, endpoints := range [][]Endpoint{nil, {{Site: "a"}}} {
		if _, err := Dial(ctx, Options{Endpoints: endpoints}); err == nil {
			t.Errorf("dialled %v", endpoints)
		}
	}
}

// TestFailOver gives the nearest replica a fault, and says what an operation of each kind must come to, and how
// often it may have been submitted. The second replica is well and shares the registers.
func TestFailOver(t *testing.T) {
	for _, fault := range []struct {
		name    string
		answer  func(register.Operation) (register.Status, bool)
		kill    bool // the nearest replica dies while it has the operation
		writeOK bool // a write may be repeated
	}{
		{"unavailable", always(register.Unavailable, false), false, true},
		{"unknown, took effect", always(register.Unknown, true), false, false},
		{"unknown, did not", always(register.Unknown, false), false, false},
		{"silent, took effect", always(silent, true), false, false},
		{"silent, did not", always(silent, false), false, false},
		{"killed, took effect", always(silent, true), true, false},
		{"killed, did not", always(silent, false), true, false},
	} {
		for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
			t.Run(fault.name+"/"+kind.String(), func(t *testing.T) {
				t.Parallel()
				memory := &listenertest.Memory{}
				faulty, well := &script{inner: memory, answer: fault.answer}, &script{inner: memory}
				nearest := serve(t, faulty)
				c := dialWith(t, Options{InOrder: true, AttemptTimeout: time.Second,
					Endpoints: []Endpoint{{Address: nearest.address}, {Address: serve(t, well).address}}})
				op := register.Operation{Kind: kind, Key: "k"}
				switch kind {
				case register.Write:
					op.Value = register.Value("v")
				case register.RMW:
					op.Call = register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}}
				}
				if fault.kill {
					go func() {
						for len(faulty.operations()) == 0 {
							time.Sleep(time.Millisecond)
						}
						nearest.kill()
					}()
				}
				result, err := c.Do(within(t, bound), op)
				if len(faulty.operations()) != 1 {
					t.Fatalf("the nearest replica got %d operations", len(faulty.operations()))
				}
				if kind == register.Write && !fault.writeOK {
					if !errors.Is(err, ErrOutcomeUnknown) || len(well.operations()) != 0 {
						t.Fatalf("it came to %v, and was repeated %d times", err, len(well.operations()))
					}
					return
				}
				if err != nil || len(well.operations()) != 1 {
					t.Fatalf("it came to %v, and was repeated %d times", err, len(well.operations()))
				}
				if kind == register.RMW {
					first, second := faulty.operations()[0], well.operations()[0]
					if first.ID != second.ID || first.ID.Session == 0 || first.ID.IssuedAt == 0 {
						t.Errorf("the id was %+v and then %+v", first.ID, second.ID)
					}
					if string(result.Value) != "1" || string(memory.Value("k")) != "1" {
						t.Errorf("added 1 once and got %s; the register has %s", result.Value, memory.Value("k"))
					}
				}
				if first := c.Replicas()[0].Address; first == nearest.address {
					t.Error("the faulty replica is still preferred")
				}
			})
		}
	}
}

// A write that took effect and whose answer was lost must not take effect again when someone else has written
// meanwhile.
func TestAWriteIsSetOnce(t *testing.T) {
	memory := &listenertest.Memory{}
	faulty, well := &script{inner: memory, answer: always(register.Unknown, true)}, &script{inner: memory}
	well.answer = func(op register.Operation) (register.Status, bool) {
		if op.Kind == register.RMW { // the retry
			written := make(chan register.Result)
			memory.Submit(register.Operation{Kind: register.Write, Key: op.Key, Value: register.Value("theirs")}, bound,
				func(r register.Result) { written <- r })
			<-written
		}
		return 0, true
	}
	c := dial(t, serve(t, faulty), serve(t, well))
	if err := c.SetOnce(within(t, bound), "k", []byte("mine")); err != nil || len(faulty.operations()) != 1 ||
		len(well.operations()) != 1 {
		t.Fatalf("it came to %v after %d and %d attempts", err, len(faulty.operations()), len(well.operations()))
	}
	if got := memory.Value("k"); string(got) != "theirs" {
		t.Errorf("the register has %q: the repetition took back what was written meanwhile", got)
	}
	without := dial(t, serve(t, &listenertest.Memory{NoRMW: true}))
	if err := without.SetOnce(within(t, bound), "k", nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without rmws: %v", err)
	}
}

// TestNothingWasSent lets the nearest replica die before the operation: it can't have seen it, so that
// writes are repeated too.
func TestNothingWasSent(t *testing.T) {
	memory := &listenertest.Memory{}
	nearest := serve(t, memory)
	c := dial(t, nearest, serve(t, memory))
	nearest.kill()
	for i := range 20 {
		err := c.Set(within(t, bound), "k", []byte(fmt.Sprint(i)))
		if err != nil && (i > 0 || !errors.Is(err, ErrOutcomeUnknown)) {
			// Only the first may meet the connection while its end is still under way.
			t.Fatal(err)
		}
	}
	if got := memory.Value("k"); string(got) != "19" {
		t.Errorf("the register has %s", got)
	}
}

// TestRecovery lets a replica come back to be preferred again.
func TestRecovery(t *testing.T) {
	var mu sync.Mutex
	status := register.Unavailable
	memory := &listenertest.Memory{}
	nearest := serve(t, &script{inner: memory, answer: func(register.Operation) (register.Status, bool) {
		mu.Lock()
		defer mu.Unlock()
		return status, status == 0
	}})
	c := dialWith(t, Options{InOrder: true, PingInterval: 10 * time.Millisecond,
		Endpoints: []Endpoint{{Address: nearest.address}, {Address: serve(t, memory).address}}})
	ctx := within(t, bound)
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	status = 0
	mu.Unlock()
	waitUntil(t, "the nearest replica is preferred again", func() bool {
		return c.Replicas()[0].Address == nearest.address && c.Replicas()[0].Err == nil
	})
}

func TestDeadlines(t *testing.T) {
	stuck := &script{answer: always(silent, false)}
	c := dial(t, serve(t, stuck))
	for _, test := range []struct {
		kind register.Kind
		want error
	}{{register.Read, ErrUnavailable}, {register.Write, ErrOutcomeUnknown}, {register.RMW, ErrOutcomeUnknown}} {
		op := register.Operation{Kind: test.kind, Key: "k"}
		if test.kind == register.RMW {
			op.Call = register.Call{Function: register.Delete}
		}
		before := len(stuck.operations())
		_, err := c.Do(within(t, 50*time.Millisecond), op)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s at its deadline: %v", test.kind, err)
		}
		// On a busy machine it may not have been sent, and is then known to have no effect.
		got := len(stuck.operations()) > before
		if got && !errors.Is(err, test.want) || !got && !errors.Is(err, ErrUnavailable) && !errors.Is(err, test.want) {
			t.Errorf("%s at its deadline, received %t: %v", test.kind, got, err)
		}
		before = len(stuck.operations())
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for len(stuck.operations()) == before {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := c.Do(ctx, op); !errors.Is(err, test.want) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s when cancelled: %v", test.kind, err)
		}
		if _, err := c.Do(ctx, op); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", test.kind, err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Dial(within(t, 200*time.Millisecond), Options{Endpoints: []Endpoint{{Site: "japan", Address: address}}})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "japan") {
		t.Errorf("dialled nobody: %v", err)
	}
	// A cluster with one replica down is served by the other, and Dial does not wait for the first.
	c, err := Dial(within(t, bound), Options{InOrder: true, Endpoints: []Endpoint{{Address: address},
		{Address: serve(t, &listenertest.Memory{}).address}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Set(within(t, bound), "k", []byte("v")); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	stuck := &script{answer: always(silent, false)}
	c := dial(t, serve(t, stuck))
	ended := make(chan error, 1)
	go func() { ended <- c.Set(context.Background(), "k", []byte("v")) }()
	waitUntil(t, "the write is under way", func() bool { return len(stuck.operations()) == 1 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the write under way: %v", err)
	}
	if err := c.Set(within(t, bound), "k", []byte("v")); !errors.Is(err, ErrClosed) {
		t.Errorf("a write afterwards: %v", err)
	}
}

// TestManyGoroutines shares one client, over replicas that answer late, out of order and now and then not at
// all; sums must be exact all the same.
func TestManyGoroutines(t *testing.T) {
	memory := &listenertest.Memory{Delay: time.Millisecond, Shuffle: true}
	var mu sync.Mutex
	turn := 0
	flaky := &script{inner: memory, answer: func(op register.Operation) (register.Status, bool) {
		mu.Lock()
		defer mu.Unlock()
		turn++
		switch {
		case turn%10 == 0:
			return register.Unknown, turn%20 == 0
		case turn%10 == 5:
			return register.Unavailable, false
		}
		return 0, true
	}}
	c := dial(t, serve(t, flaky), serve(t, flaky), serve(t, flaky))
	ctx := within(t, bound)
	const goroutines, each = 16, 50
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			value := bytes.Repeat([]byte{byte(g)}, 1000*g)
			for range each {
				if _, err := c.Add(ctx, "sum", 1); err != nil {
					t.Error(err)
				}
				own := fmt.Sprint("own", g)
				if err := c.Set(ctx, own, value); err != nil {
					if !errors.Is(err, ErrOutcomeUnknown) {
						t.Error(err)
					}
					continue
				}
				if got, err := c.Get(ctx, own); err != nil || !bytes.Equal(got, value) {
					t.Errorf("%s has %d bytes, %v", own, len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if got := memory.Value("sum"); string(got) != fmt.Sprint(goroutines*each) {
		t.Errorf("the sum is %s, want %d", got, goroutines*each)
	}
}

// TestJudge follows one task over several attempts; want is the end of the last one, nil if it may be
// followed by another.
func TestJudge(t *testing.T) {
	answered := func(s registerv1.Status) *registerv1.Response {
		return &registerv1.Response{Status: s, Message: "why"}
	}
	unsent, sent := &lost{cause: errors.New("gone")}, &lost{sent: true, cause: errors.New("gone")}
	rmw := register.Operation{Kind: register.RMW, ID: register.ID{Session: 1, Number: 1}}
	for name, test := range map[string]struct {
		op       register.Operation
		attempts []any // a response, or how it was lost
		want     error
	}{
		"an unsent write is repeated": {register.Operation{Kind: register.Write}, []any{unsent, unsent}, nil},
		"a refused write is repeated": {
			register.Operation{Kind: register.Write}, []any{answered(registerv1.Status_UNAVAILABLE)}, nil,
		},
		"a sent write is not": {
			register.Operation{Kind: register.Write}, []any{unsent, sent}, ErrOutcomeUnknown,
		},
		"an unknown write is not": {
			register.Operation{Kind: register.Write}, []any{answered(registerv1.Status_UNKNOWN)}, ErrOutcomeUnknown,
		},
		"nor one with an unheard-of status": {
			register.Operation{Kind: register.Write}, []any{answered(77)}, ErrOutcomeUnknown,
		},
		"an rmw without an id is not": {
			register.Operation{Kind: register.RMW}, []any{sent}, ErrOutcomeUnknown,
		},
		"an rmw with one is": {rmw, []any{sent, answered(registerv1.Status_UNKNOWN)}, nil},
		"a read is": {
			register.Operation{Kind: register.Read}, []any{sent, answered(registerv1.Status_UNKNOWN)}, nil,
		},
		"invalid at first": {rmw, []any{answered(registerv1.Status_INVALID)}, ErrInvalid},
		"unsupported at first": {
			rmw, []any{unsent, answered(registerv1.Status_UNSUPPORTED)}, ErrUnsupported,
		},
		"invalid says nothing of what was": {
			rmw, []any{sent, answered(registerv1.Status_INVALID)}, ErrOutcomeUnknown,
		},
		"unsupported says nothing of what was": {
			rmw, []any{sent, answered(registerv1.Status_UNSUPPORTED)}, ErrOutcomeUnknown,
		},
		"closed before it was sent":       {rmw, []any{&lost{cause: ErrClosed}}, ErrClosed},
		"closed after an earlier attempt": {rmw, []any{sent, &lost{cause: ErrClosed}}, ErrOutcomeUnknown},
	} {
		task := task{op: test.op}
		for i, attempt := range test.attempts {
			response, _ := attempt.(*registerv1.Response)
			failure, _ := attempt.(error)
			_, final, err := task.judge(response, failure)
			last := i == len(test.attempts)-1
			if final != (last && test.want != nil) || last && !errors.Is(err, test.want) {
				t.Errorf("%s: attempt %d is final %t: %v", name, i, final, err)
			}
		}
	}
	given := task{op: rmw, uncertain: true}
	if err := given.giveUp(context.Background()); !errors.Is(err, ErrOutcomeUnknown) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up while uncertain: %v", err)
	}
}
