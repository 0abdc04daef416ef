package gryff

import (
	"fmt"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// of is member 1 of n in a view of an epoch, over a journal.
func of(n int, epoch uint64, journal *protocol.Journal) *Protocol {
	return memberOf(1, n, epoch, journal)
}

func memberOf(self view.MemberID, n int, epoch uint64, journal *protocol.Journal) *Protocol {
	c := protocol.Config{
		Self: self, View: view.View{Cluster: "test", Epoch: epoch}, Boot: uint32(epoch), Retry: time.Second,
		Suspect: time.Minute, Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
	}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	p := newProtocol(c, journal, quorum.FirstDisks(c.View), false)
	p.Tick(1)
	return p
}

func appends(handle uint64, deadline protocol.Instant) protocol.Request {
	return protocol.Request{Handle: handle, Deadline: deadline, Operation: register.Operation{
		Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("x")}},
	}}
}

// told renders completions in the order in which they came.
func told(e protocol.Effects) (texts []string) {
	for _, c := range slices.Concat(e.Complete, e.CompleteAfterPersist) {
		texts = append(texts, fmt.Sprintf("%d %v %q", c.Handle, c.Result.Status, c.Result.Value))
	}
	return texts
}

func TestUnfinishedListsEverythingOnce(t *testing.T) {
	p := of(3, 1, protocol.NewJournal(protocoltest.Disk{}))
	write := register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v")}
	p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "r"}, Deadline: 70})
	p.Submit(protocol.Request{Handle: 2, Operation: write})
	p.Submit(protocol.Request{Handle: 3, Operation: write, Deadline: 90})
	p.Submit(protocol.Request{Handle: 4, Operation: write})
	for handle := uint64(5); handle <= 8; handle++ { // the first in an instance, the others wait for it
		p.Submit(appends(handle, protocol.Instant(handle)))
	}
	for o := range p.operations.InProgress() {
		if h := o.Request.Handle; h == 3 || h == 4 {
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: o.Number, Timestamp: 2 * h})
		}
		if o.Request.Handle == 4 { // it ends, and only its completion is still to be handed over
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE2_REPLY, Op: o.Number})
		}
	}
	p.Tick(6) // two of the rmws are over
	var got []string
	for _, r := range p.Unfinished() {
		carstamp, _ := r.Resume.(register.Carstamp)
		rmw, _ := r.Resume.(instance.Resume)
		got = append(got,
			fmt.Sprintf("%d until %d: %d, %d/%d", r.Handle, r.Deadline, carstamp.Timestamp, rmw.Instance, rmw.Command))
	}
	want := []string{
		"1 until 70: 0, 0/0", "2 until 0: 0, 0/0", "3 until 90: 7, 0/0", "7 until 7: 0, 0/0", "8 until 8: 0, 0/0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("unfinished are %q, want %q", got, want)
	}
	if again := p.Unfinished(); again != nil {
		t.Errorf("listed again: %v", again)
	}
	if got, want := told(p.Ready()), []string{`5 unknown ""`, `6 unavailable ""`, `4 ok ""`}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	p.Tick(protocol.Instant(time.Hour))
	if got := told(p.Ready()); got != nil || p.Pending() != 0 {
		t.Errorf("after its end the protocol tells %q, and %d are pending", got, p.Pending())
	}
}

func TestAResumedWriteThatIsLateIsUnknown(t *testing.T) {
	p := of(3, 1, protocol.NewJournal(protocoltest.Disk{}))
	p.Submit(protocol.Request{
		Handle: 7, Deadline: 5,
		Operation: register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v")},
		Resume:    register.Carstamp{Timestamp: 3, Writer: 1},
	})
	p.Tick(5)
	if got := told(p.Ready()); !slices.Equal(got, []string{`7 unknown ""`}) {
		t.Errorf("told %q", got)
	}
}
