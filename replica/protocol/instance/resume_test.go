package instance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// gryffs is the core as Gryff has it, over registers without writes.
func gryffs(c protocol.Config, journal *protocol.Journal) *Core {
	held := map[string]register.Versioned{}
	registers := &Registers{
		Load: func(key []byte) register.Versioned { return held[string(key)] },
		Apply: func(key []byte, v register.Versioned) {
			if held[string(key)].Carstamp.Less(v.Carstamp) {
				held[string(key)] = v
			}
		},
	}
	return New(base.New("test", c, journal, quorum.FirstDisks(c.View)), Options{Commands: "rmw", Registers: registers})
}

// of is member 1 of n in a view of an epoch, over a journal.
func of(n int, epoch uint64, journal *protocol.Journal) *Core {
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
	p := gryffs(c, journal)
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

// batch begins an instance of three rmws, of which the second is given up.
func batch(t *testing.T, journal *protocol.Journal, more func(*Core, *coordination)) []protocol.Request {
	t.Helper()
	p := of(3, 1, journal)
	o := p.object([]byte("k"))
	for i := range uint64(3) {
		o.queue = append(o.queue, &request{Request: appends(i, []protocol.Instant{0, 5, 0}[i])})
	}
	p.propose(o)
	more(p, o.mine[0])
	p.Tick(5)
	if got := told(p.Ready()); !slices.Equal(got, []string{`1 unknown ""`}) {
		t.Fatalf("told %q, want the one whose time is up", got)
	}
	left := p.Unfinished()
	if len(left) != 2 || left[0].Resume != (Resume{1, 0}) || left[1].Resume != (Resume{1, 2}) {
		t.Fatalf("unfinished are %+v", left)
	}
	return left
}

func TestABatchKeepsItsPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		more func(*Core, *coordination)
		want []string
	}{
		// Nobody accepted it: it becomes a no-op, and those that are left are proposed again.
		"proposed":  {func(*Core, *coordination) {}, []string{`0 ok "1"`, `2 ok "2"`}},
		"accepted":  {func(p *Core, d *coordination) { p.accept(d, d.attributes) }, []string{`0 ok "1"`, `2 ok "3"`}},
		"committed": {func(p *Core, d *coordination) { p.commit(d) }, []string{`0 ok "1"`, `2 ok "3"`}},
	} {
		t.Run(name, func(t *testing.T) {
			journal := protocol.NewJournal(protocoltest.Disk{})
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
	p := of(3, 1, protocol.NewJournal(protocoltest.Disk{}))
	r := appends(7, 0)
	r.Resume = Resume{Instance: 9}
	p.Submit(r)
	if got := told(p.Ready()); !slices.Equal(got, []string{`7 unknown ""`}) {
		t.Errorf("told %q", got)
	}
}

// What this member knew before the view is unsettled until it is executed, and so is what others knew, wherever it is
// heard of first; what is first known of in the view is not.
func TestUnsettled(t *testing.T) {
	journal := protocol.NewJournal(protocoltest.Disk{})
	batch(t, journal, func(*Core, *coordination) {})
	p := of(3, 2, journal)
	p.Submit(appends(9, 0)) // in an instance of this view
	if n := p.Unsettled(); n != 1 {
		t.Errorf("%d are unsettled, want the one of the view before", n)
	}
	record := func(writer, epoch uint64, status peerv1.Status) []byte {
		m := &peerv1.Message{Key: []byte("k"), Epoch: epoch, Instance: &peerv1.Instance{
			Id: &peerv1.InstanceID{Writer: writer, Number: 1}, Status: status, Agreed: true,
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

func TestAgreementIsForgottenOverAChange(t *testing.T) {
	for _, c := range []struct {
		since uint64
		kept  bool
	}{{0, true}, {1, true}, {2, false}} {
		journal := protocol.NewJournal(protocoltest.Disk{})
		batch(t, journal, func(*Core, *coordination) {})
		p := of(3, 2, journal)
		p.Config.View.Since = c.since
		p = gryffs(p.Config, journal)
		if i := p.object([]byte("k")).instances[0]; i.agreed != c.kept || i.since != 1 {
			t.Errorf("since %d: agreed %t, known since %d", c.since, i.agreed, i.since)
		}
	}
}
