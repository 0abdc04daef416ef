package abd_test

import (
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

func TestUnfinishedListsEverythingOnce(t *testing.T) {
	p, _ := lone(3, map[string]int{})
	write := register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v")}
	p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "r"}, Deadline: 70})
	for handle := uint64(2); handle <= 4; handle++ {
		p.Submit(protocol.Request{Handle: handle, Operation: write, Deadline: protocol.Instant(100 * handle)})
	}
	first := uint64(1)<<56 | 1<<40
	for _, number := range []uint64{3, 4} { // the second phase of two writes, and the end of one
		p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: first + number, Timestamp: 10 * number})
	}
	p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE2_REPLY, Op: first + 4})
	left := p.Unfinished()
	if len(left) != 3 {
		t.Fatalf("unfinished are %+v, want three", left)
	}
	for i, timestamp := range []uint64{0, 0, 31} {
		tag, _ := left[i].Resume.(register.Carstamp)
		if r := left[i]; r.Handle != uint64(i+1) || tag.Timestamp != timestamp || r.Deadline == 0 {
			t.Errorf("unfinished is %+v, want operation %d with timestamp %d", r, i+1, timestamp)
		}
	}
	if again := p.Unfinished(); again != nil || p.Pending() != 0 {
		t.Errorf("listed again: %v, %d pending", again, p.Pending())
	}
	if e := p.Ready(); len(e.Complete) != 0 || len(e.CompleteAfterPersist) != 1 ||
		e.CompleteAfterPersist[0].Handle != 4 {
		t.Errorf("told %+v, %+v, want the write that ended", e.Complete, e.CompleteAfterPersist)
	}
	p.Tick(protocol.Instant(time.Hour))
	if e := p.Ready(); len(e.Complete)+len(e.Send) != 0 {
		t.Errorf("after its end the protocol does %+v", e)
	}
}

// A write that has a tag keeps it, whatever the register holds by now, and is never unavailable any more.
func TestAResumedWriteKeepsItsTag(t *testing.T) {
	took := map[string]int{}
	p, _ := lone(3, took)
	tag := register.Carstamp{Timestamp: 7, Writer: register.NewWriter(1, 1, 1)}
	newer := peerv1.RegisterRecord{
		Timestamp: 9, Writer: uint64(register.NewWriter(2, 1, 1)), Present: true, Value: []byte("newer"),
	}
	record, err := newer.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	p.Adopt([]byte("rk"), record)
	p.Submit(protocol.Request{
		Handle: 1, Deadline: 5, Resume: tag,
		Operation: register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")},
	})
	e := p.Ready()
	if len(e.Send) != 1 || e.Send[0].Message.Kind != peerv1.Kind_WRITE2 || e.Send[0].Message.Timestamp != 7 ||
		string(e.Send[0].Message.Value) != "v" {
		t.Errorf("sends %+v, want the value under its tag", e.Send)
	}
	if left := slices.Clone(p.Unfinished()); len(left) != 1 || left[0].Resume != tag {
		t.Errorf("unfinished is %+v, want the same tag", left)
	} else {
		p.Submit(left[0])
	}
	p.Tick(5)
	if done := p.Ready().Complete; len(done) != 1 || done[0].Result.Status != register.Unknown {
		t.Errorf("a late write ends as %+v", done)
	}
	if took["write.resumed"] != 2 {
		t.Errorf("counted %v", took)
	}
}
