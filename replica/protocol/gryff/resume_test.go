package gryff

import (
	"fmt"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// nothing is a disk without records.
type nothing struct{}

func (nothing) Get([]byte) ([]byte, bool)                 { return nil, false }
func (nothing) Scan([]byte, func(key, value []byte) bool) {}

// of is member 1 of n in a view of an epoch, over a journal.
func of(n int, epoch uint64, journal *protocol.Journal) *Protocol {
	c := protocol.Config{
		Self: 1, View: view.View{Cluster: "test", Epoch: epoch}, Boot: uint32(epoch), Retry: time.Second, Suspect: time.Minute,
		Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
	}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	p := newProtocol(c, journal, phase.NewRoster(c.View), Mistakes{})
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
	p := of(3, 1, protocol.NewJournal(nothing{}))
	write := register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v")}
	p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "r"}, Deadline: 70})
	p.Submit(protocol.Request{Handle: 2, Operation: write})
	p.Submit(protocol.Request{Handle: 3, Operation: write, Deadline: 90})
	p.Submit(protocol.Request{Handle: 4, Operation: write})
	for handle := uint64(5); handle <= 8; handle++ { // the first in an instance, the others wait for it
		p.Submit(appends(handle, protocol.Instant(handle)))
	}
	for _, o := range slices.Clone(p.inFlight) {
		if h := o.request.Handle; h == 3 || h == 4 {
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: o.op, Timestamp: 2 * h})
		}
		if o.request.Handle == 4 { // it ends, and only its completion is still to be handed over
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE2_REPLY, Op: o.op})
		}
	}
	p.Tick(6) // two of the rmws are over
	var got []string
	for _, r := range p.Unfinished() {
		got = append(got, fmt.Sprintf("%d until %d: %d, %d/%d", r.Handle, r.Deadline, r.Resume.Carstamp.Timestamp, r.Resume.Instance, r.Resume.Command))
	}
	want := []string{"1 until 70: 0, 0/0", "2 until 0: 0, 0/0", "3 until 90: 7, 0/0", "7 until 7: 0, 0/0", "8 until 8: 0, 0/0"}
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

// batch begins an instance of three rmws, of which the second is given up.
func batch(t *testing.T, journal *protocol.Journal, more func(*Protocol, *drive)) []protocol.Request {
	t.Helper()
	p := of(3, 1, journal)
	o := p.object([]byte("k"))
	for i := range uint64(3) {
		o.queue = append(o.queue, &rmwRequest{Request: appends(i, []protocol.Instant{0, 5, 0}[i])})
	}
	p.propose(o)
	more(p, o.mine)
	p.Tick(5)
	if got := told(p.Ready()); !slices.Equal(got, []string{`1 unknown ""`}) {
		t.Fatalf("told %q, want the one whose time is up", got)
	}
	left := p.Unfinished()
	if len(left) != 2 || left[0].Resume.Command != 0 || left[1].Resume.Command != 2 || left[1].Resume.Instance != 1 {
		t.Fatalf("unfinished are %+v", left)
	}
	return left
}

func TestABatchKeepsItsPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		more func(*Protocol, *drive)
		want []string
	}{
		// Nobody accepted it: it becomes a no-op, and those that are left are proposed again.
		"proposed":  {func(*Protocol, *drive) {}, []string{`0 ok "1"`, `2 ok "2"`}},
		"accepted":  {func(p *Protocol, d *drive) { p.accept(d, d.attributes) }, []string{`0 ok "1"`, `2 ok "3"`}},
		"committed": {func(p *Protocol, d *drive) { p.commit(d) }, []string{`0 ok "1"`, `2 ok "3"`}},
	} {
		t.Run(name, func(t *testing.T) {
			journal := protocol.NewJournal(nothing{})
			left := batch(t, journal, c.more)
			for epoch := uint64(2); epoch <= 3; epoch++ { // over a view in which nobody answers
				p := of(3, epoch, journal)
				for _, r := range left {
					p.Submit(r)
				}
				p.Tick(protocol.Instant(time.Second))
				left = p.Unfinished()
			}
			p := of(1, 4, journal)
			for _, r := range left {
				p.Submit(r)
			}
			p.Tick(10)
			if got := told(p.Ready()); !slices.Equal(got, c.want) {
				t.Errorf("told %q, want %q", got, c.want)
			}
			if p.Pending() != 0 {
				t.Errorf("%d are pending", p.Pending())
			}
		})
	}
}

func TestWhatIsForgottenIsUnknown(t *testing.T) {
	p := of(3, 1, protocol.NewJournal(nothing{}))
	r := appends(7, 0)
	r.Resume.Instance = 9
	p.Submit(r)
	if got := told(p.Ready()); !slices.Equal(got, []string{`7 unknown ""`}) {
		t.Errorf("told %q", got)
	}
}

func TestAResumedWriteThatIsLateIsUnknown(t *testing.T) {
	p := of(3, 1, protocol.NewJournal(nothing{}))
	p.Submit(protocol.Request{
		Handle: 7, Deadline: 5, Operation: register.Operation{Kind: register.Write, Key: "w", Value: register.Value("v")},
		Resume: protocol.Resume{Carstamp: register.Carstamp{Timestamp: 3, Writer: 1}},
	})
	p.Tick(5)
	if got := told(p.Ready()); !slices.Equal(got, []string{`7 unknown ""`}) {
		t.Errorf("told %q", got)
	}
}

// What this member knew before the view is unsettled until it is executed, and so is what others knew, wherever it is heard
// of first; what was born in the view is not.
func TestUnsettled(t *testing.T) {
	journal := protocol.NewJournal(nothing{})
	batch(t, journal, func(*Protocol, *drive) {})
	p := of(3, 2, journal)
	p.Submit(appends(9, 0)) // in an instance of this view
	if n := p.Unsettled(); n != 1 {
		t.Errorf("%d are unsettled, want the one of the view before", n)
	}
	record := func(writer, epoch uint64, status peerv1.Status) []byte {
		m := &peerv1.Message{Key: []byte("k"), Epoch: epoch, Instance: &peerv1.Instance{
			Id: &peerv1.InstanceID{Writer: writer, Number: 1}, Status: status, Unchanged: true,
		}}
		raw, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for i, c := range []struct {
		writer, epoch uint64
		status        peerv1.Status
		unsettled     int
	}{
		{2 << 48, 2, peerv1.Status_PRE_ACCEPTED, 1},
		{2 << 48, 1, peerv1.Status_PRE_ACCEPTED, 2}, // another source knew it before
		{2 << 48, 2, peerv1.Status_PRE_ACCEPTED, 2},
		{3 << 48, 0, peerv1.Status_HEARD, 3},
		{3 << 48, 1, peerv1.Status_COMMITTED, 2}, // with no dependencies: it is executed
		{3 << 48, 1, peerv1.Status_PRE_ACCEPTED, 2},
	} {
		p.Adopt([]byte("i"), record(c.writer, c.epoch, c.status))
		if n := p.Unsettled(); n != c.unsettled {
			t.Errorf("step %d: %d are unsettled, want %d", i, n, c.unsettled)
		}
	}
	if n := of(3, 2, journal).Unsettled(); n != 2 {
		t.Errorf("after a restart %d are unsettled, want 2", n)
	}
}

func TestUnchangedIsForgottenOverAChange(t *testing.T) {
	for _, c := range []struct {
		since uint64
		kept  bool
	}{{0, true}, {1, true}, {2, false}} {
		journal := protocol.NewJournal(nothing{})
		batch(t, journal, func(*Protocol, *drive) {})
		p := of(3, 2, journal)
		p.config.View.Since = c.since
		p = newProtocol(p.config, journal, p.roster, Mistakes{})
		if i := p.object([]byte("k")).instances[0]; i.unchanged != c.kept || i.born != 1 {
			t.Errorf("since %d: unchanged %t, born %d", c.since, i.unchanged, i.born)
		}
	}
}
