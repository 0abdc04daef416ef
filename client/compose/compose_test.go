package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/georegister/georegister/replica/history"
)

// check judges what all clients saw, over all services or at one.
func (w *world) check(t *testing.T, service string) history.RSCVerdict {
	t.Helper()
	var operations []history.Operation
	for _, o := range w.recorder.Operations() {
		if service == "" || o.Request.Key == service {
			operations = append(operations, o)
		}
	}
	options := history.RSCOptions{}
	if service == "" {
		options.Messages = w.messages
	}
	v, err := history.CheckRSC(t.Context(), operations, options)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The example of section 4.1: two writes are under way, and two processes read both services in different orders.
func TestFencesMakeTwoServicesOne(t *testing.T) {
	for _, composed := range []bool{false, true} {
		w := newWorld("x", "y")
		writer := w.actor("writer", false, false)
		finishX, finishY := writer.write("x"), w.actor("writer2", false, false).write("y")
		one, two := w.actor("one", composed, false), w.actor("two", composed, false)
		if one.read("x", newer) != 1 || one.read("y", older) != 0 || two.read("y", newer) != 1 {
			t.Fatal("the services don't show what is under way")
		}
		two.read("x", older)
		finishX()
		finishY()
		want := history.Violation
		if composed {
			want = history.RegularSequential
		}
		if v := w.check(t, ""); v.Outcome != want {
			t.Errorf("composed is %t: both services are %s\n%s", composed, v.Outcome, v.Explanation)
		}
		for _, service := range []string{"x", "y"} {
			if v := w.check(t, service); !v.OK() {
				t.Errorf("composed is %t: %s by itself is %s\n%s", composed, service, v.Outcome, v.Explanation)
			}
		}
		if fences := w.services["x"].fences + w.services["y"].fences; composed != (fences == 2) {
			t.Errorf("composed is %t, and there were %d fences", composed, fences)
		}
	}
}

// The example of section 4.2: a process tells another one what it has seen, and that one uses another service in
// between.
func TestContextsCarryWhatWasSeen(t *testing.T) {
	tests := []struct {
		name           string
		carry, context bool
		want           history.Outcome
		fences         int // at x
	}{
		{"without a context", true, false, history.Violation, 0},
		{"with a context", true, true, history.RegularSequential, 1},
		{"with a context, of a service that can't be carried", false, true, history.RegularSequential, 1},
	}
	for _, test := range tests {
		w := newWorld("x", "y")
		finish := w.actor("writer", false, false).write("x")
		alice, proxy, bob, eve := w.actor("alice", true, test.carry), w.actor("proxy", true, test.carry),
			w.actor("bob", true, test.carry), w.actor("eve", true, test.carry)
		alice.read("x", newer)
		alice.tell(proxy, test.context)
		proxy.tell(bob, test.context)
		bob.write("y")() // it fences x, which bob himself never used
		eve.read("y", newer)
		eve.read("x", older)
		finish()
		if v := w.check(t, ""); v.Outcome != test.want {
			t.Errorf("%s: %s\n%s", test.name, v.Outcome, v.Explanation)
		}
		if w.services["x"].fences != test.fences {
			t.Errorf("%s: %d fences at x, want %d", test.name, w.services["x"].fences, test.fences)
		}
	}
}

// TestComposedHistoriesAreRegularSequential has processes do anything at services that show anything they may.
func TestComposedHistoriesAreRegularSequential(t *testing.T) {
	violations := 0
	for seed := range uint64(150) {
		for _, composed := range []bool{true, false} {
			w := newWorld("x", "y", "z")
			rng := rand.New(rand.NewPCG(seed, 1))
			var actors []*actor
			for i := range 5 {
				actors = append(actors, w.actor(fmt.Sprint("p", i), composed, i%2 == 0 || seed%2 == 0))
			}
			writing := map[int]func(){}
			for range 120 {
				i := rng.IntN(len(actors))
				service := string("xyz"[rng.IntN(3)])
				switch finish := writing[i]; {
				case finish != nil:
					if rng.IntN(12) == 0 {
						finish()
						delete(writing, i)
					}
				case rng.IntN(3) == 0 && len(writing) < 3:
					writing[i] = actors[i].write(service)
				case rng.IntN(6) == 0 && seed%2 == 0:
					if to := rng.IntN(len(actors)); to != i && writing[to] == nil {
						actors[i].tell(actors[to], true)
					}
				default:
					actors[i].read(service, anyOf(rng))
				}
			}
			v := w.check(t, "")
			if composed && !v.OK() {
				t.Fatalf("seed %d: composed services are %s\n%s", seed, v.Outcome, v.Explanation)
			}
			if !composed && v.Outcome == history.Violation {
				violations++
			}
		}
	}
	if violations < 40 {
		t.Errorf("only %d of 150 histories without fences show why they are needed", violations)
	}
}

func TestStartFencesWhatWasLeft(t *testing.T) {
	ctx := context.Background()
	w := newWorld("x", "y", "z")
	p := w.actor("p", true, false)
	fences := func() [3]int {
		return [3]int{w.services["x"].fences, w.services["y"].fences, w.services["z"].fences}
	}
	expect := func(what string, want [3]int) {
		t.Helper()
		if fences() != want {
			t.Errorf("%s: fences %v, want %v", what, fences(), want)
		}
	}
	p.read("x", newer)
	p.read("x", newer)
	expect("one service", [3]int{})
	p.read("y", newer)
	expect("moved", [3]int{1})
	p.read("x", newer)
	expect("moved back", [3]int{1, 1})

	// A fence that fails keeps the operation from starting, and is owed.
	w.services["x"].fail = errors.New("no quorum")
	if _, err := p.process.Start(ctx, "y"); err == nil ||
		!strings.Contains(err.Error(), `fence service "x": no quorum`) {
		t.Errorf("a failed fence: %v", err)
	}
	if err := p.process.Unregister(ctx, "x"); err == nil {
		t.Error("a service was unregistered, though what it showed could not be fenced")
	}
	if err := p.process.Fence(ctx); err == nil {
		t.Error("Fence hides that a fence failed")
	}
	w.services["x"].fail = nil
	before := w.services["x"].fences
	p.read("y", newer)
	if w.services["x"].fences != before+1 {
		t.Error("a fence that had failed was not made up for")
	}

	// An operation that ends after the fence of its service is not covered by it.
	w = newWorld("x", "y", "z")
	p = w.actor("p", true, false)
	finish := p.write("x")
	p.read("y", newer)
	expect("while a write is under way", [3]int{1})
	if err := p.process.Unregister(ctx, "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("unregistering with an operation under way: %v", err)
	}
	finish()
	p.read("y", newer)
	expect("after the write", [3]int{2})
	if err := p.process.Unregister(ctx, "y"); err != nil {
		t.Error(err)
	}
	expect("unregistered", [3]int{2, 1})
	if _, err := p.process.Start(ctx, "y"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("starting at what was unregistered: %v", err)
	}
	if err := p.process.Unregister(ctx, "y"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("unregistering twice: %v", err)
	}
	if err := p.process.Register("x", p.sessions["x"]); !errors.Is(err, ErrRegistered) {
		t.Errorf("registering twice: %v", err)
	}
	if p.process.Register("", p.sessions["x"]) == nil || p.process.Register("w", nil) == nil ||
		p.process.Register(strings.Repeat("n", MaxNameBytes+1), p.sessions["x"]) == nil {
		t.Error("a service without a name or a fence, or with a name that is too long, was registered")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for name, err := range map[string]error{
		"Start": func() error {
			_, err := p.process.Start(cancelled, "x")
			return err
		}(), "Fence": p.process.Fence(cancelled),
		"Export": func() error {
			_, err := p.process.Export(cancelled)
			return err
		}(), "Unregister": p.process.Unregister(cancelled, "x"),
		"Import": p.process.Import(cancelled, encode(nil)),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that is over: %v", name, err)
		}
	}
}

// slow is a service at which something happens while a fence is under way.
type slow struct {
	*fakeSession
	during func()
}

func (s *slow) Fence(ctx context.Context) error {
	err := s.fakeSession.Fence(ctx)
	s.during()
	return err
}

func TestAFenceDoesNotCoverWhatEndsMeanwhile(t *testing.T) {
	ctx := context.Background()
	service := &fakeService{}
	p, x := NewProcess(), &slow{fakeSession: &fakeSession{service: service}}
	if err := errors.Join(p.Register("x", x), p.Register("y", &fakeSession{service: &fakeService{}})); err != nil {
		t.Fatal(err)
	}
	end, err := p.Start(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	x.during = end // the fence may have come too early for it
	for i := range 3 {
		if _, err := p.Start(ctx, "y"); err != nil {
			t.Fatal(err)
		}
		if want := min(i+1, 2); service.fences != want {
			t.Errorf("%d fences after %d operations elsewhere, want %d", service.fences, i+1, want)
		}
		x.during = func() {}
	}
}

func TestImportChecksBeforeItChanges(t *testing.T) {
	ctx := context.Background()
	w := newWorld("x", "y")
	from := w.actor("from", true, true)
	w.actor("writer", false, false).write("x")
	from.read("x", newer)
	exported, err := from.process.Export(ctx)
	if err != nil {
		t.Fatal(err)
	}
	empty := NewProcess()
	if err := empty.Import(ctx, exported); !errors.Is(err, ErrNotRegistered) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a context of an unknown service: %v", err)
	}
	plain := w.actor("plain", true, false)
	if err := plain.process.Import(ctx, exported); err == nil || !strings.Contains(err.Error(), "Carrier") {
		t.Errorf("a context for a service that can't be carried: %v", err)
	}
	if left := plain.process.unfenced(); len(left) > 0 {
		t.Errorf("a refused context left %v", left)
	}
	to := w.actor("to", true, true)
	if err := to.process.Import(ctx, encode([]entry{{"x", []byte("no version at all")}})); err == nil {
		t.Error("what the service refuses was imported")
	}
	for _, bad := range [][]byte{
		nil, {0}, {2, 0}, {1}, {1, 200}, {1, 0, 0}, {1, 1, 1, 'x'}, {1, 1, 0, 0}, {1, 2, 1, 'y', 0, 1, 'x', 0},
		{1, 0x80, 0}, make([]byte, MaxContextBytes+1),
	} {
		if err := to.process.Import(ctx, bad); !errors.Is(err, ErrContext) {
			t.Errorf("%.20v: %v", bad, err)
		}
	}
	if err := to.process.Import(ctx, exported); err != nil || to.read("x", older) != 1 {
		t.Errorf("a good context: %v", err)
	}
}

// large is a Carrier with much to say.
type large struct {
	*fakeSession
	bytes int
}

func (l large) ExportContext() ([]byte, error) { return make([]byte, l.bytes), nil }
func (l large) ImportContext([]byte) error     { return nil }

func TestContextsAreBounded(t *testing.T) {
	ctx := context.Background()
	p := NewProcess()
	service := &fakeService{}
	for i := range MaxServices {
		if err := p.Register(fmt.Sprint("s", i),
			large{&fakeSession{service: service}, MaxPastBytes + i%2}); err != nil {
			t.Fatal(err)
		}
	}
	if p.Register("one more", large{}) == nil {
		t.Error("a process has more services than its contexts can name")
	}
	// All at once, as if other processes had told it of them.
	var entries []entry
	for _, name := range []string{
		"s0", "s1", "s10", "s11", "s12", "s13", "s14", "s15", "s16", "s17", "s18", "s2", "s20", "s22", "s24", "s26",
		"s28", "s30", "s32", "s34", "s36", "s38",
	} {
		entries = append(entries, entry{name: name})
	}
	if err := p.Import(ctx, encode(entries)); err != nil {
		t.Fatal(err)
	}
	exported, err := p.Export(ctx)
	if err != nil || len(exported) > MaxContextBytes {
		t.Fatalf("a context of %d bytes: %v", len(exported), err)
	}
	carried, err := decode(exported)
	if err != nil || len(carried) != 15 || service.fences != len(entries)-15 {
		t.Errorf("%d services are carried and %d fenced of %d: %v", len(carried), service.fences, len(entries), err)
	}
}

// TestAProcessMayBeShared is for the race detector: nothing is lost, and every move is fenced.
func TestAProcessMayBeShared(t *testing.T) {
	ctx := context.Background()
	w := newWorld("x", "y")
	p := NewProcess()
	for name, s := range w.services {
		if err := p.Register(name, &fakeSession{service: s}); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				end, err := p.Start(ctx, string("xy"[(i+j)%2]))
				if err != nil {
					t.Error(err)
					return
				}
				if exported, err := p.Export(ctx); err != nil || p.Import(ctx, exported) != nil {
					t.Errorf("export: %v", err)
				}
				end()
				end() // once too often does no harm
			}
		})
	}
	group.Wait()
	for name := range w.services {
		if err := p.Unregister(ctx, name); err != nil {
			t.Errorf("after all: %v", err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil))
	f.Add(encode([]entry{{"a", nil}, {"b", []byte("past")}}))
	f.Add([]byte{1, 1, 1, 'x', 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrContext) {
				t.Fatalf("%v is no ErrContext", err)
			}
			return
		}
		again, err := decode(encode(entries))
		if err != nil || !bytes.Equal(encode(entries), b) || !reflect.DeepEqual(entries, again) {
			t.Fatalf("%v is written as %v: %v", b, encode(entries), err)
		}
	})
}
