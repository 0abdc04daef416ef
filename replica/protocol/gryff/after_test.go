package gryff

import (
	"slices"
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// ofRSC is of, as Gryff-RSC.
func ofRSC(n int) *Protocol {
	p := of(n, 1, protocol.NewJournal(protocoltest.Disk{}))
	p.regular = true
	return p
}

var past = []register.Dependency{{Key: "past", Versioned: register.Versioned{
	Carstamp: register.Carstamp{Timestamp: 4, Writer: register.NewWriter(3, 1, 1)}, Value: register.Value("seen"),
}}}

// sent are the messages of a step, which has everything durable.
func sent(e protocol.Effects) (all []*peerv1.Message) {
	for _, n := range slices.Concat(e.Send, e.SendAfterPersist) {
		all = append(all, n.Message)
	}
	return all
}

func kindsOf(all []*peerv1.Message) (kinds []string) {
	for _, m := range all {
		kinds = append(kinds, m.Kind.String())
	}
	return kinds
}

func completions(e protocol.Effects) []protocol.Completion {
	return slices.Concat(e.Complete, e.CompleteAfterPersist)
}

// seen has a read find a value that one other member holds, of those that answer.
func seen(p *Protocol, regular bool, value register.Value) protocol.Effects {
	p.Submit(
		protocol.Request{Handle: 9, Operation: register.Operation{Kind: register.Read, Key: "k", Regular: regular}})
	m := p.Ready().Send[0].Message
	p.Receive(2,
		&peerv1.Message{
			Kind: peerv1.Kind_READ1_REPLY, Op: m.Op, Timestamp: 1, Writer: 1, Present: value.Present(), Value: value,
		})
	p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: m.Op, Same: true})
	return p.Ready()
}

func TestARegularReadHasOneRoundTrip(t *testing.T) {
	small, large := make(register.Value, register.MaxDependencyBytes),
		make(register.Value, register.MaxDependencyBytes+1)
	for name, c := range map[string]struct {
		protocol *Protocol
		regular  bool
		value    register.Value
		depends  bool
	}{
		"regular":                {ofRSC(5), true, small, true},
		"of no dependencies":     {ofRSC(5), false, small, false},
		"too large to carry":     {ofRSC(5), true, large, false},
		"regular, of Gryff":      {of(5, 1, protocol.NewJournal(protocoltest.Disk{})), true, small, false},
		"regular, of a deletion": {ofRSC(5), true, nil, true},
	} {
		e := seen(c.protocol, c.regular, c.value)
		done := completions(e)
		if !c.depends {
			if kinds := kindsOf(sent(e)); len(done) > 0 || !slices.Contains(kinds, "READ2") {
				t.Errorf("%s: %d are done and %v is sent, want a write-back", name, len(done), kinds)
			}
			continue
		}
		if len(done) != 1 || !done[0].Result.Depends || done[0].Result.RoundTrips != 1 ||
			!slices.Equal(kindsOf(sent(e)), []string{"READ2"}) {
			t.Errorf("%s: %.300v, and %v is sent", name, done, kindsOf(sent(e)))
		}
	}
}

func TestWhatIsAloneHoldsEverything(t *testing.T) {
	p := ofRSC(1)
	for handle, kind := range []register.Kind{register.Read, register.Write, register.RMW, register.Fence} {
		r := appends(uint64(handle), 0)
		r.Operation.Kind, r.Operation.After, r.Operation.Regular = kind, past, true
		p.Submit(r)
		e := p.Ready()
		done := e.CompleteAfterPersist // the first three put something
		if kind == register.Fence {
			done = completions(e)
		}
		if len(done) != 1 || done[0].Result.Status != register.OK || done[0].Result.RoundTrips != 0 ||
			done[0].Result.Depends || len(sent(e)) > 0 {
			t.Errorf("a %v: %+v, and %v is sent", kind, done, kindsOf(sent(e)))
		}
	}
	if got := p.Load([]byte("past")); string(got.Value) != "seen" {
		t.Errorf("%+v of the past is here", got)
	}
}

// An rmw that waits for its dependencies has done nothing that anyone may know of. One that has an instance has them at
// a quorum.
func TestAnRMWCarriesBeforeItHasAnInstance(t *testing.T) {
	p := ofRSC(3)
	r := appends(1, 70)
	r.Operation.After = past
	p.Submit(r)
	if kinds := kindsOf(sent(p.Ready())); !slices.Equal(kinds, []string{"READ2"}) {
		t.Fatalf("%v is sent", kinds)
	}
	unfinished := p.Unfinished()
	if len(unfinished) != 1 || unfinished[0].Resume != nil || len(unfinished[0].Operation.After) != 1 ||
		unfinished[0].Deadline != 70 {
		t.Fatalf("unfinished are %+v", unfinished)
	}

	p = ofRSC(3)
	p.Submit(unfinished[0])
	question := sent(p.Ready())
	if kinds := kindsOf(question); !slices.Equal(kinds, []string{"READ2"}) || len(question[0].After) != 1 {
		t.Fatalf("%v is sent in the next view", kinds)
	}
	p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: question[0].Op})
	if e := p.Ready(); len(e.Send) > 0 || !slices.Equal(kindsOf(sent(e)), []string{"PRE_ACCEPT"}) {
		t.Errorf("%v is sent, of which %d do not wait for the disk", kindsOf(sent(e)), len(e.Send))
	}
	if len(p.waited) != 1 {
		t.Errorf("the round trips of %d rmws are noted", len(p.waited))
	}
	unfinished = p.Unfinished()
	if len(unfinished) != 1 || unfinished[0].Resume == nil {
		t.Fatalf("unfinished are %+v", unfinished)
	}

	p.Submit(unfinished[0]) // the journal is that of the instance
	p.Tick(2)
	if kinds := kindsOf(sent(p.Ready())); slices.Contains(kinds, "READ2") {
		t.Errorf("%v is sent for an rmw that has an instance", kinds)
	}
}

// What is noted of an rmw is forgotten with its answer, whatever that is.
func TestRoundTripsOfRMWsAreForgotten(t *testing.T) {
	p := ofRSC(3)
	r := appends(1, 5)
	r.Operation.After = past
	p.Submit(r)
	op := sent(p.Ready())[0].Op
	p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: op})
	p.Ready()
	p.Tick(6)
	if got := told(p.Ready()); !slices.Equal(got, []string{`1 unknown ""`}) {
		t.Errorf("told %q", got)
	}
	if len(p.waited) > 0 || p.operations.Len() > 0 {
		t.Errorf("%d rmws are noted, and %d operations are left", len(p.waited), p.operations.Len())
	}
}

// An answer to what a read carried first is none to what it asks then, be it to write back what it found.
func TestAReadTellsItsAnswersApart(t *testing.T) {
	p := ofRSC(5)
	p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "k", After: past}})
	first := sent(p.Ready())
	if kinds := kindsOf(first); !slices.Equal(kinds, []string{"READ2", "READ2"}) || len(first[0].After) != 1 {
		t.Fatalf("%v is sent", kinds)
	}
	acknowledge := func(op uint64, from ...view.MemberID) []*peerv1.Message {
		for _, id := range from {
			p.Receive(id, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: op})
		}
		return sent(p.Ready())
	}
	question := acknowledge(first[0].Op, 2, 3)
	if kinds := kindsOf(question); !slices.Equal(kinds, []string{"READ1", "READ1"}) || len(question[0].After) > 0 {
		t.Fatalf("then %v is sent", kinds)
	}
	op := question[0].Op
	p.Receive(2,
		&peerv1.Message{
			Kind: peerv1.Kind_READ1_REPLY, Op: op, Timestamp: 1, Writer: 1, Present: true, Value: []byte("v"),
		})
	p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: op, Same: true})
	if kinds := kindsOf(sent(p.Ready())); !slices.Contains(kinds, "READ2") {
		t.Fatalf("%v is sent to write back", kinds)
	}
	acknowledge(first[0].Op, 3, 4, 5)
	if p.operations.Len() != 1 {
		t.Fatal("the read is answered by what it carried")
	}
	p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: op})
	if done := completions(p.Ready()); len(done) != 1 || done[0].Result.RoundTrips != 3 || done[0].Result.Depends {
		t.Errorf("it ends with %+v", done)
	}
}

func TestAWriteIsResumedWithWhatItCarries(t *testing.T) {
	p := ofRSC(3)
	write := protocol.Request{
		Handle:    1,
		Operation: register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v"), After: past},
	}
	p.Submit(write)
	first := sent(p.Ready())
	if kinds := kindsOf(first); !slices.Equal(kinds, []string{"READ2"}) || len(first[0].After) != 1 {
		t.Fatalf("%v is sent", kinds)
	}
	p.Tick(5_000_000_000)
	again := sent(p.Ready())
	if kinds := strings.Join(kindsOf(again), " "); kinds != "READ2 READ2" || len(again[0].After) != 1 {
		t.Fatalf("%v is sent again", kinds)
	}
	unfinished := p.Unfinished()
	p = ofRSC(3)
	p.Submit(unfinished[0])
	if first = sent(p.Ready()); first[0].Kind != peerv1.Kind_READ2 || len(first[0].After) != 1 {
		t.Fatalf("%v is sent in the next view", kindsOf(first))
	}
	p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: first[0].Op})
	second := sent(p.Ready())
	if kinds := kindsOf(second); !slices.Equal(kinds, []string{"WRITE1"}) || len(second[0].After) != 0 ||
		second[0].Op == first[0].Op {
		t.Fatalf("then %v is sent", kinds)
	}
	p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: second[0].Op})
	p.Ready()
	unfinished = p.Unfinished()
	p = ofRSC(3)
	p.Submit(unfinished[0])
	if first = sent(p.Ready()); first[0].Kind != peerv1.Kind_WRITE2 || len(first[0].After) != 0 {
		t.Errorf("%v is sent for a write that has its carstamp, with %d dependencies", kindsOf(first),
			len(first[0].After))
	}
}

// A write after something of its own key asks for a carstamp at once, above that.
func TestAWriteAfterItsOwnKeyDoesNotWait(t *testing.T) {
	p := ofRSC(5)
	p.Submit(
		protocol.Request{
			Handle: 1,
			Operation: register.Operation{
				Kind: register.Write, Key: past[0].Key, Value: register.Value("v"), After: past,
			},
		})
	question := sent(p.Ready())
	if kinds := kindsOf(question); !slices.Equal(kinds, []string{"WRITE1", "WRITE1"}) || len(question[0].After) != 0 {
		t.Fatalf("%v is sent", kinds)
	}
	for from := range view.MemberID(2) {
		p.Receive(from+2, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: question[0].Op})
	}
	p.Ready()
	if got, want := p.Load([]byte(past[0].Key)).Carstamp.Timestamp, past[0].Carstamp.Timestamp+1; got != want {
		t.Errorf("it is written at %d, want %d", got, want)
	}
}
