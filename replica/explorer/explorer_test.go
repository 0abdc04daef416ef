package explorer_test

import (
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/explorer"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// toy is a member that asks the next one about each operation, and answers when that has answered: nothing is agreed.
type toy struct {
	config protocol.Config
	asked  map[uint64]register.Operation
	out    protocol.Effects
	silent bool // it never answers
}

func (*toy) Tick(protocol.Instant)          {}
func (*toy) Pace(_, _ time.Duration)        {}
func (y *toy) Pending() int                 { return len(y.asked) }
func (*toy) Unfinished() []protocol.Request { return nil }
func (*toy) Doubted() bool                  { return false }

func (y *toy) Submit(r protocol.Request) {
	y.asked[r.Handle] = r.Operation
	to := view.MemberID(int(y.config.Self)%y.config.View.Size() + 1)
	m := &peerv1.Message{Kind: peerv1.Kind_READ1, Op: r.Handle}
	y.out.Send = append(y.out.Send, protocol.Envelope{To: to, Message: m})
}

func (y *toy) Receive(from view.MemberID, m *peerv1.Message) {
	if m.Kind == peerv1.Kind_READ1 {
		if !y.silent {
			answer := &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: m.Op}
			y.out.Send = append(y.out.Send, protocol.Envelope{To: from, Message: answer})
		}
		return
	}
	if _, found := y.asked[m.Op]; found {
		delete(y.asked, m.Op)
		y.out.Complete = append(y.out.Complete,
			protocol.Completion{Handle: m.Op, Result: register.Result{Status: register.OK}})
	}
}

func (y *toy) Ready() protocol.Effects {
	e := y.out
	y.out = protocol.Effects{}
	return e
}

func startToy(silent bool) explorer.Start {
	return func(c protocol.Config, _ *protocol.Journal) (protocol.Protocol, error) {
		return &toy{config: c, asked: map[uint64]register.Operation{}, silent: silent}, nil
	}
}

// sessions reads sessions of members 1 to n.
func sessions(t *testing.T, text string, n int) []explorer.Session {
	t.Helper()
	all, err := explorer.ParseSessions(text, n)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scope is one of a protocol with three members. One with a leader has it before.
func scope(t *testing.T, protocol, operations, faults string) explorer.Scope {
	t.Helper()
	entry, err := catalog.Find(protocol)
	if err != nil {
		t.Fatal(err)
	}
	s := explorer.Scope{
		Start: entry.Start, Members: 3, Regular: entry.Regular(), Partitioned: entry.Partitioned != nil,
		Sessions: sessions(t, operations, 3),
	}
	if entry.Led && !s.Partitioned {
		s.Before = sessions(t, "write k 0", 3)
	}
	if s.Faults, err = explorer.ParseFaults(faults); err != nil {
		t.Fatal(err)
	}
	return s
}

// fiveOfWhomOne is a scope of EPaxos with five members, of whom one may be lost at once.
func fiveOfWhomOne(t *testing.T, operations, faults string) explorer.Scope {
	t.Helper()
	s := scope(t, "epaxos", "read", faults)
	s.Members, s.Tolerance, s.Sessions = 5, 1, sessions(t, operations, 5)
	return s
}

// explore explores a scope to its end.
func explore(t *testing.T, s explorer.Scope, o explorer.Options) explorer.Report {
	t.Helper()
	r, err := explorer.Explore(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure == nil && !r.Complete {
		t.Fatalf("it ended before it was complete: %+v", r)
	}
	return r
}

// Two reads of two pairs of members that never meet have four states each: not begun, asked, answered, ended. Of the
// pairs of these, 11 have no read that ended beside another one that began; of the four in which one has ended and
// the other is under way, it may or may not have ended before that began; and if both have ended, either was first,
// or none.
func TestEveryStateIsFoundOnce(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		r := explore(t, explorer.Scope{
			Start: startToy(false), Members: 4, Sessions: sessions(t, "1: read; 3: read", 4),
		}, explorer.Options{Ordered: ordered, Deviations: -1})
		if r.Failure != nil {
			t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
		}
		if !ordered && r.States != 11+2*4+3 {
			t.Errorf("%d states, want 22", r.States)
		}
		if r.Ends < 3 || r.Histories < 5 {
			t.Errorf("ordered %v: %+v", ordered, r.Progress)
		}
	}
}

// A read that is ever to follow a write finds nothing with members that store nothing.
func TestAViolationIsFoundInTheFewestSteps(t *testing.T) {
	r := explore(t, explorer.Scope{
		Start: startToy(false), Members: 2, Sessions: sessions(t, "write; read", 2),
	}, explorer.Options{})
	if r.Failure == nil || r.Failure.Class != explorer.Violation || r.Failure.Steps != 6 {
		t.Fatalf("%+v", r.Failure)
	}
	for _, line := range []string{`client 1 at 1: write "k" "a"`, `1 -> 2  READ1`, `client 2 at 2: read "k" = nothing`} {
		if !strings.Contains(r.Failure.Diagram, line) {
			t.Errorf("the diagram does not have %q:\n%s", line, r.Failure.Diagram)
		}
	}
}

func TestAnOperationThatDoesNotEndIsFound(t *testing.T) {
	r := explore(t, explorer.Scope{
		Start: startToy(true), Members: 2, Sessions: sessions(t, "read", 2),
	}, explorer.Options{})
	if r.Failure == nil || r.Failure.Class != explorer.Stuck {
		t.Fatalf("%+v", r.Failure)
	}
	r = explore(t, explorer.Scope{
		Start: startToy(true), Members: 2, Before: sessions(t, "read", 2), Sessions: sessions(t, "read", 2),
	}, explorer.Options{})
	if r.Failure == nil || r.Failure.Class != explorer.Stuck || r.Failure.Steps == 0 || r.States > 0 {
		t.Fatalf("an operation before: %+v, %d states", r.Failure, r.States)
	}
	if strings.Count(r.Failure.Diagram, "1 starts") != 1 {
		t.Errorf("it is not drawn once:\n%s", r.Failure.Diagram)
	}
}

// The members of raft have a leader, though each of them called for an election when it started.
func TestALeaderIsFound(t *testing.T) {
	s := scope(t, "raft", "read", "none")
	s.AtOnce = true
	r := explore(t, s, explorer.Options{})
	if r.Failure != nil {
		t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
	}
}

func TestWhatIsNoScopeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":              "give an operation",
		"sing":          `unknown operation "sing"`,
		"4: read":       "name a member from 1 to 3",
		"x: read":       "name a member from 1 to 3",
		"write k v w":   `"w" is too much`,
		"read k v":      `"v" is too much`,
		"fence k":       "a fence has no key",
		"rmw k sing.v1": "sing.v1",
		"read; write,":  "give an operation",
	} {
		if _, err := explorer.ParseSessions(text, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"rain": `unknown fault "rain"`, "loss=-1": "give a number from 0 to 15", "loss=x": "give a number",
		"crash=16": "give a number",
	} {
		if _, err := explorer.ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for want, s := range map[string]explorer.Scope{
		"0 members":     {},
		"0 operations":  {Members: 3},
		"17 operations": {Members: 3, Sessions: sessions(t, strings.Repeat("read,", 16)+"read", 3)},
		"loss=16":       {Members: 3, Sessions: sessions(t, "read", 3), Faults: explorer.Faults{Losses: 16}},
		"at member 4":   {Members: 3, Sessions: sessions(t, "4: read", 4)},
		"2 members":     {Members: 2, Partitioned: true, Sessions: sessions(t, "read", 2)},
		"takeover=2": {
			Members: 3, Partitioned: true, Sessions: sessions(t, "read", 3), Faults: explorer.Faults{Takeovers: 2},
		},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFaultsAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"none", "timeout=2", "takeover,loss,duplicate=3,crash"} {
		f, err := explorer.ParseFaults(text)
		if err != nil || f.String() != text {
			t.Errorf("%q is %q, %v", text, f, err)
		}
	}
}

// Small scopes of each protocol are right, to their ends.
func TestScopesAreRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol, operations, faults string
		states                       int // at least
	}{
		{"abd", "write; write", "none", 50},
		{"abd", "write; read", "crash", 500},
		{"gryff", "write; write", "none", 50},
		{"gryff", "write; read", "loss,timeout", 1000},
		{"gryffrsc", "write x; read x, read y", "crash", 500},
		{"gus", "write; read", "none", 600},
		{"caspaxos", "write; read", "none", 500},
		{"epaxos", "write; read", "none", 200},
		{"curp", "write; write", "none", 2000},
		{"curp", "write; read", "crash", 5000},
	} {
		t.Run(c.protocol+" "+c.operations+" "+c.faults, func(t *testing.T) {
			if testing.Short() && c.states >= 1000 {
				t.Skipf("-short: the scopes of fewer states run the same code; this one has %d and more", c.states)
			}
			t.Parallel()
			r := explore(t, scope(t, c.protocol, c.operations, c.faults), explorer.Options{})
			if r.Failure != nil {
				t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
			}
			t.Logf("%+v", r.Progress)
			if r.States < c.states {
				t.Errorf("%d states, want at least %d", r.States, c.states)
			}
		})
	}
}

// Of five members, of whom one may be lost, a majority is too few for a recovery. Every order of one rmw with that is
// right, and so are those near the plain order of two rmws.
func TestScopesOfFiveAreRight(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: 400,000 states")
	}
	for operations, o := range map[string]explorer.Options{ // order is irrelevant: each is explored
		"rmw": {}, "rmw; rmw": {Ordered: true, Deviations: 2}, "rmw; 4: rmw": {Ordered: true, Deviations: 2},
	} {
		r := explore(t, fiveOfWhomOne(t, operations, "takeover"), o)
		if r.Failure != nil {
			t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
		}
		t.Logf("%s: %+v", operations, r.Progress)
	}
}

// sleeper is a member that ignores what others ask until it was asked something itself, and asks again as time passes.
type sleeper struct {
	toy
	awake bool
}

func (s *sleeper) Submit(r protocol.Request) {
	s.awake = true
	if s.config.Self == 1 {
		s.toy.Submit(r)
		return
	}
	s.out.Complete = append(s.out.Complete,
		protocol.Completion{Handle: r.Handle, Result: register.Result{Status: register.OK}})
}

func (s *sleeper) Receive(from view.MemberID, m *peerv1.Message) {
	if s.awake {
		s.toy.Receive(from, m)
	}
}

func (s *sleeper) Tick(protocol.Instant) {
	for handle, op := range s.asked {
		s.toy.Submit(protocol.Request{Handle: handle, Operation: op})
	}
}

// The question of member 1 does nothing at member 2 at first, but later it does, so it must not be dropped. When reads
// end there are these histories: the second one ends before the first begins, or beside it; and then the first ends,
// too. After each pair of these, both members read once more.
func TestAMessageThatDoesNothingYetIsKept(t *testing.T) {
	r := explore(t, explorer.Scope{
		Start: func(c protocol.Config, _ *protocol.Journal) (protocol.Protocol, error) {
			return &sleeper{toy: toy{config: c, asked: map[uint64]register.Operation{}}}, nil
		},
		Members: 2, Sessions: sessions(t, "read; read", 2),
	}, explorer.Options{})
	if r.Failure != nil {
		t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
	}
	if r.Histories != 6 {
		t.Errorf("%d histories, want 6", r.Histories)
	}
}

// waiter is a member that says in its answers whether it has asked something itself, and goes on asking until another
// one has. What it is asked of key x it knows.
type waiter struct {
	toy
	asks bool
}

func (w *waiter) Submit(r protocol.Request) {
	if r.Operation.Key == "x" {
		w.out.Complete = append(w.out.Complete,
			protocol.Completion{Handle: r.Handle, Result: register.Result{Status: register.OK}})
		return
	}
	w.asks = true
	w.toy.Submit(r)
}

func (w *waiter) Receive(from view.MemberID, m *peerv1.Message) {
	switch {
	case m.Kind == peerv1.Kind_READ1:
		answer := &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: m.Op, Present: w.asks}
		w.out.Send = append(w.out.Send, protocol.Envelope{To: from, Message: answer})
	case m.Present:
		w.toy.Receive(from, m)
	}
}

func (w *waiter) Tick(protocol.Instant) {
	for handle, op := range w.asked { // one at most
		w.toy.Submit(protocol.Request{Handle: handle, Operation: op})
	}
}

// The question of member 1 changes nothing at member 2, and its answer does nothing at first. But later it has another
// answer, so it must not be dropped. The first read of member 2 ends while the other one is not invoked or in progress.
// The second one and that of member 1, which is invoked before the first one ends or later, end after each other in any
// order; and then both members read twice more.
func TestAQuestionWhoseAnswerIsYetToMatterIsKept(t *testing.T) {
	r := explore(t, explorer.Scope{
		Start: func(c protocol.Config, _ *protocol.Journal) (protocol.Protocol, error) {
			return &waiter{toy: toy{config: c, asked: map[uint64]register.Operation{}}}, nil
		},
		Members: 2, Sessions: sessions(t, "read y; read x, read y", 2),
	}, explorer.Options{})
	if r.Failure != nil {
		t.Fatalf("%v\n%s", r.Failure, r.Failure.Diagram)
	}
	if want := 2 + 2*(1+1+1) + 2; r.Histories != want {
		t.Errorf("%d histories, want %d", r.Histories, want)
	}
}

// keeper is a member that stores something when it is asked first, and tells who asks before that is durable.
type keeper struct {
	toy
	journal *protocol.Journal
}

func (k *keeper) Receive(from view.MemberID, m *peerv1.Message) {
	if m.Kind == peerv1.Kind_READ1_REPLY {
		delete(k.asked, m.Op)
		k.out.Complete = append(k.out.Complete, protocol.Completion{
			Handle: m.Op, Result: register.Result{Status: register.OK, Value: register.ValueOf(m.Present, m.Value)},
		})
		return
	}
	record := []byte("asked")
	answer := &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: m.Op, Present: !k.journal.Durable(record)}
	if _, found := k.journal.Get(record); !found {
		k.journal.Put(record, nil)
	}
	k.out.Send = append(k.out.Send, protocol.Envelope{To: from, Message: answer})
}

func (k *keeper) Ready() protocol.Effects {
	e := k.toy.Ready()
	e.Persist = k.journal.Take()
	return e
}

// What a second question is told makes a difference while the first one's record is not durable, so that record must
// not become durable at once: a read of nothing that anybody wrote is found.
func TestABatchThatMakesADifferenceIsDurableLater(t *testing.T) {
	r := explore(t, explorer.Scope{
		Start: func(c protocol.Config, j *protocol.Journal) (protocol.Protocol, error) {
			return &keeper{toy{config: c, asked: map[uint64]register.Operation{}}, j}, nil
		},
		Members: 2, Sessions: sessions(t, "1: read; 1: read", 2),
	}, explorer.Options{})
	if r.Failure == nil || r.Failure.Class != explorer.Violation {
		t.Fatalf("%+v", r.Failure)
	}
}
