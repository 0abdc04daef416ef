package gryff

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// reads begins a read where reads have met writes, and returns its question and whom that goes to.
func reads(p *Protocol, regular bool) (question *peerv1.Message, to []view.MemberID) {
	p.contended.note([]byte("k"), wideReads)
	op := register.Operation{Kind: register.Read, Key: "k", Regular: regular}
	p.Submit(protocol.Request{Handle: 1, Operation: op})
	for _, n := range p.Ready().Send {
		question, to = n.Message, append(to, n.To)
	}
	return question, to
}

// answers has a member answer with the version of a timestamp, or with that of the question.
func answers(p *Protocol, op uint64, from view.MemberID, timestamp uint64) []protocol.Completion {
	m := &peerv1.Message{Kind: peerv1.Kind_READ1_REPLY, Op: op, Timestamp: timestamp, Same: timestamp == 0}
	if timestamp > 0 {
		m.Writer, m.Present, m.Value = 1, true, []byte{byte('0' + timestamp)}
	}
	p.Receive(from, m)
	return completions(p.Ready())
}

func TestARegularReadMayComeBeforeAWrite(t *testing.T) {
	type answer struct {
		from      view.MemberID
		timestamp uint64
	}
	for name, c := range map[string]struct {
		answers []answer
		value   string
		waits   bool // after a quorum has answered
	}{
		"all have it":                  {[]answer{{2, 1}, {3, 1}}, "1", false},
		"one lacks the newest":         {[]answer{{2, 2}, {3, 1}, {4, 1}}, "1", true},
		"two have the newest":          {[]answer{{2, 2}, {3, 2}}, "2", false},
		"the last one has the newest":  {[]answer{{2, 1}, {3, 0}, {4, 1}}, "1", true},
		"three versions, the middle":   {[]answer{{2, 3}, {3, 1}, {4, 2}}, "2", true},
		"one has a value, the others ": {[]answer{{2, 1}, {3, 0}, {4, 0}}, "", true},
	} {
		p := ofRSC(5)
		question, to := reads(p, true)
		if len(to) != 3 {
			t.Fatalf("%d members are asked, want all but the farthest", len(to))
		}
		var done []protocol.Completion
		for i, a := range c.answers {
			if done = answers(p, question.Op, a.from, a.timestamp); i == 1 && (len(done) == 0) != c.waits {
				t.Errorf("%s: %d reads end with a quorum", name, len(done))
			}
		}
		if len(done) != 1 || string(done[0].Result.Value) != c.value || done[0].Result.Depends ||
			done[0].Result.RoundTrips != 1 {
			t.Errorf("%s: %+v, want %q", name, done, c.value)
		}
		if len(p.reading) > 0 || p.operations.Len() > 0 {
			t.Errorf("%s: %d lists and %d operations are left", name, len(p.reading), p.operations.Len())
		}
	}
}

// It waits until the question would be asked again, and no longer: then its session depends on what it has found.
func TestARegularReadGivesUpWaiting(t *testing.T) {
	p := ofRSC(5)
	question, _ := reads(p, true)
	answers(p, question.Op, 2, 1)
	if done := answers(p, question.Op, 3, 0); len(done) > 0 {
		t.Fatalf("%+v, before all have answered", done)
	}
	p.Tick(5_000_000_000)
	done := completions(p.Ready())
	if len(done) != 1 || !done[0].Result.Depends || string(done[0].Result.Value) != "1" || len(p.reading) > 0 {
		t.Errorf("%+v when it is time to ask again", done)
	}
	p.Submit(after(2, register.Fence, 0)) // which waits for what the read writes back
	p.Ready()
	op := register.Operation{Kind: register.Read, Key: "k", Regular: true}
	p.Submit(protocol.Request{Handle: 3, Operation: op})
	if to := sent(p.Ready()); len(to) != 2 {
		t.Errorf("the next read asks %d members, though one did not answer", len(to))
	}
}

// What a member says to somebody else counts while a regular read waits.
func TestARegularReadHearsWhoHoldsWhatItFound(t *testing.T) {
	p := ofRSC(5)
	question, _ := reads(p, true)
	answers(p, question.Op, 2, 1)
	answers(p, question.Op, 3, 0)
	p.Receive(3, &peerv1.Message{
		Kind: peerv1.Kind_READ1, Op: 9, Key: []byte("k"), Timestamp: 1, Writer: 1, Present: true, Value: []byte("1"),
	})
	if done := completions(p.Ready()); len(done) != 1 || string(done[0].Result.Value) != "1" || done[0].Result.Depends {
		t.Errorf("%+v, though three members have it", done)
	}
}

// A read that is not regular comes after whatever it finds, as Gryff's.
func TestAPlainReadReturnsTheNewest(t *testing.T) {
	p := ofRSC(5)
	question, to := reads(p, false)
	if len(to) != 2 {
		t.Fatalf("%d members are asked, want a quorum", len(to))
	}
	answers(p, question.Op, 2, 2)
	if done := answers(p, question.Op, 3, 1); len(done) > 0 || p.operations.Len() != 1 {
		t.Errorf("%+v, before the newest is written back", done)
	}
}

// A value that is too large to go along with the question is not at those who answer. Its session may have read it.
func TestARegularReadReturnsNothingOlderThanItsCoordinatorHas(t *testing.T) {
	p := ofRSC(5)
	own := register.Versioned{
		Carstamp: register.Carstamp{Timestamp: 2, Writer: 1}, Value: make(register.Value, carriedBytes+1),
	}
	p.Apply([]byte("k"), own)
	p.Ready()
	p.contended.note([]byte("k"), wideReads)
	op := register.Operation{Kind: register.Read, Key: "k", Regular: true}
	p.Submit(protocol.Request{Handle: 1, Operation: op})
	question := sent(p.Ready())[0]
	for from := range view.MemberID(3) {
		if done := answers(p, question.Op, from+2, 1); len(done) > 0 {
			t.Errorf("%.100v", done)
		}
	}
}

func TestMoreAreAskedForSomeReads(t *testing.T) {
	p := ofRSC(5)
	p.contended.note([]byte("k"), 2)
	for i, want := range []int{3, 3, 2} {
		op := register.Operation{Kind: register.Read, Key: "k", Regular: true}
		p.Submit(protocol.Request{Handle: uint64(i), Operation: op})
		if got := len(p.Ready().Send); got != want {
			t.Errorf("read %d asks %d, want %d", i, got, want)
		}
	}
}
