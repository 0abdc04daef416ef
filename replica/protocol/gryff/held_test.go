package gryff

import (
	"fmt"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

func TestRecentKeysAreBounded(t *testing.T) {
	var r recentKeys[int]
	for i := range 3 * maxRecent {
		r.note(fmt.Appendf(nil, "k%d", i), i)
		r.note(fmt.Appendf(nil, "k%d", i), i+1)
	}
	if len(r.of) != maxRecent || len(r.keys) != maxRecent {
		t.Errorf("%d values and %d keys are kept, want %d", len(r.of), len(r.keys), maxRecent)
	}
	for _, i := range []int{2 * maxRecent, 3*maxRecent - 1} {
		if got := r.of[fmt.Sprintf("k%d", i)]; got != i+1 {
			t.Errorf("of k%d %d is kept, want what was noted last of the newest keys", i, got)
		}
	}
}

func TestTheNewestVersionThatIsHeldIsKept(t *testing.T) {
	p := ofRSC(5)
	at := func(timestamp uint64) register.Carstamp { return register.Carstamp{Timestamp: timestamp, Writer: 1} }
	for _, timestamp := range []uint64{1, 3, 2} {
		p.learnHeld([]byte("k"), at(timestamp))
	}
	if got := p.held.of["k"]; got != at(3) || !p.has([]byte("k"), at(3)) || p.has([]byte("k"), at(4)) {
		t.Errorf("%v is kept, want the newest", got)
	}
}

// after is an operation that comes after what seen has read.
func after(handle uint64, kind register.Kind, deadline protocol.Instant) protocol.Request {
	d := register.Dependency{
		Key:       "k",
		Versioned: register.Versioned{Carstamp: register.Carstamp{Timestamp: 1, Writer: 1}, Value: register.Value("v")},
	}
	return protocol.Request{Handle: handle, Deadline: deadline, Operation: register.Operation{
		Kind: kind, Key: "other", Value: register.Value("w"), After: []register.Dependency{d},
	}}
}

// The read's write-back is not begun again by those that come after it, and is nothing that the next view has to go on
// with.
func TestWhatComesAfterAReadWaitsForItsWriteBack(t *testing.T) {
	p := ofRSC(5)
	op := sent(seen(p, true, register.Value("v")))[0].Op
	for handle, kind := range []register.Kind{register.Read, register.Write, register.Fence} {
		p.Submit(after(uint64(handle), kind, 0))
	}
	if kinds := kindsOf(sent(p.Ready())); len(kinds) > 0 {
		t.Fatalf("%v is sent", kinds)
	}
	p.Tick(1)
	if kinds := kindsOf(sent(p.Ready())); len(kinds) > 0 {
		t.Fatalf("%v is sent in time", kinds)
	}
	p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: op})
	e := p.Ready()
	if kinds := kindsOf(sent(e)); !slices.Equal(kinds, []string{"READ1", "READ1", "WRITE1", "WRITE1"}) {
		t.Errorf("%v is sent when it is held", kinds)
	}
	if done := completions(e); len(done) != 1 || done[0].Handle != 2 || done[0].Result.Status != register.OK {
		t.Errorf("the fence ends with %+v", done)
	}
	p.Submit(after(7, register.Fence, 0))
	if done := completions(p.Ready()); len(done) != 1 || done[0].Result.RoundTrips != 0 {
		t.Errorf("a fence of what is held ends with %+v", done)
	}
	if p.background != 0 || len(p.spreading) != 0 {
		t.Errorf("%d reads are written back, %d keys are noted", p.background, len(p.spreading))
	}
}

func TestAReadThatWritesBackIsOverForTheNextView(t *testing.T) {
	p := ofRSC(5)
	seen(p, true, register.Value("v"))
	p.Submit(after(2, register.Write, 0))
	unfinished := p.Unfinished()
	if len(unfinished) != 1 || unfinished[0].Handle != 2 || len(unfinished[0].Operation.After) != 1 {
		t.Errorf("unfinished are %+v", unfinished)
	}
}

// A write-back is given up at the read's deadline. Who waited for it carries what it comes after by itself, or is over
// as well.
func TestAWriteBackIsGivenUp(t *testing.T) {
	p := ofRSC(5)
	p.Submit(
		protocol.Request{
			Handle: 1, Deadline: 50, Operation: register.Operation{Kind: register.Read, Key: "k", Regular: true},
		})
	op := p.Ready().Send[0].Message.Op
	p.Receive(2,
		&peerv1.Message{
			Kind: peerv1.Kind_READ1_REPLY, Op: op, Timestamp: 1, Writer: 1, Present: true, Value: []byte("v"),
		})
	p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: op, Same: true})
	p.Ready()
	p.Submit(after(2, register.Write, 0))
	p.Submit(after(3, register.Write, 40))
	p.Ready()
	p.Tick(45)
	if done := completions(p.Ready()); len(done) != 1 || done[0].Handle != 3 ||
		done[0].Result.Status != register.Unavailable {
		t.Errorf("at its deadline a write that waits ends with %+v", done)
	}
	p.Tick(60)
	e := p.Ready()
	if done := completions(e); len(done) > 0 {
		t.Errorf("the read is answered again: %+v", done)
	}
	messages := sent(e)
	if kinds := kindsOf(messages); !slices.Equal(kinds, []string{"READ2", "READ2"}) || len(messages[0].After) != 1 {
		t.Errorf("%v is sent by the write that is left", kinds)
	}
}

func TestFewReadsAreWrittenBackAtATime(t *testing.T) {
	p := ofRSC(5)
	for i := range maxSpreading + 3 {
		p.Submit(
			protocol.Request{
				Handle:    uint64(i),
				Operation: register.Operation{Kind: register.Read, Key: fmt.Sprint(i), Regular: true},
			})
		op := p.Ready().Send[0].Message.Op
		p.Receive(2,
			&peerv1.Message{
				Kind: peerv1.Kind_READ1_REPLY, Op: op, Timestamp: 1, Writer: 1, Present: true, Value: []byte("v"),
			})
		p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: op, Same: true})
		e := p.Ready()
		done := completions(e)
		if len(done) != 1 || !done[0].Result.Depends || (len(sent(e)) > 0) != (i < maxSpreading) {
			t.Fatalf("read %d ends with %+v, and %v is sent", i, done, kindsOf(sent(e)))
		}
	}
}
