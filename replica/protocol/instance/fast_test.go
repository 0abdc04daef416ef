package instance

import (
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

// toldOf is member 1 of n, who are told that f may be lost, without registers: EPaxos.
func toldOf(n, f int) *Core {
	c := protocol.Config{
		Self: 1, View: view.View{Cluster: "test", Epoch: 1}, Boot: 1, Retry: time.Second, Suspect: time.Minute, Faults: f,
		Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
	}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	journal := protocol.NewJournal(protocoltest.Disk{})
	p := New(base.New("test", c, journal, quorum.FirstDisks(c.View)), Options{Commands: "command", Lanes: 1})
	p.Tick(1)
	return p
}

// another is the first instance of another member.
func another(id view.MemberID) *peerv1.InstanceID {
	return &peerv1.InstanceID{Writer: uint64(register.NewWriter(uint32(id), 1, 0)), Number: 1}
}

// preAccepted has a member pre-accept what p has proposed for key k, and add a dependency, if that is not nil, and a
// seq.
func preAccepted(p *Core, from view.MemberID, adds *peerv1.InstanceID, seq uint64) {
	d := p.object([]byte("k")).mine[0]
	m := p.about(d.instance, peerv1.Kind_PRE_ACCEPT_OK)
	m.Op, m.Instance.Agreed, m.Instance.Seq = d.op, adds == nil || p.merges(), seq
	if adds != nil {
		m.Instance.Deps = append(m.Instance.Deps, adds)
	}
	p.Receive(from, m)
}

// fastCommit reports whether p has committed what it proposed for key k, and its dependencies, unless it is executed.
func fastCommit(p *Core) (deps vector, is bool) {
	o := p.object([]byte("k"))
	i := o.find(instanceID{p.lane(0), 1})
	if i == nil {
		return nil, o.executed(p.lane(0)) == 1
	}
	return i.deps, i.status == peerv1.Status_COMMITTED
}

// What is committed on the fast path is known to as many as may be lost, or is accepted first.
func TestAFastCommitIsKnownToAsManyAsMayBeLost(t *testing.T) {
	for name, c := range map[string]struct {
		n, f int
		adds []*peerv1.InstanceID // by the peers of the fast quorum
		fast bool
	}{
		"one of five, what one adds":   {5, 1, []*peerv1.InstanceID{another(4), nil}, true},
		"two of five, what one adds":   {5, 2, []*peerv1.InstanceID{another(5), nil, nil}, false},
		"two of five, what two add":    {5, 2, []*peerv1.InstanceID{another(5), another(5), nil}, true},
		"any minority of five":         {5, 0, []*peerv1.InstanceID{another(5), nil}, false},
		"any minority, nothing added":  {5, 0, []*peerv1.InstanceID{nil, nil}, true},
		"any minority of seven":        {7, 0, []*peerv1.InstanceID{nil, nil, nil, nil}, true},
		"of seven, one adds":           {7, 0, []*peerv1.InstanceID{nil, another(7), nil, nil}, false},
		"two of seven, what one adds":  {7, 2, []*peerv1.InstanceID{another(7), nil, nil, nil}, false},
		"two of seven, what two add":   {7, 2, []*peerv1.InstanceID{another(7), nil, another(7), nil}, true},
		"one of seven, what one adds":  {7, 1, []*peerv1.InstanceID{another(7), nil, nil}, true},
		"one of three, what one adds":  {3, 1, []*peerv1.InstanceID{another(3)}, true},
		"any minority of three, added": {3, 0, []*peerv1.InstanceID{another(3)}, true},
	} {
		p := toldOf(c.n, c.f)
		p.Submit(appends(1, 0))
		for k, adds := range c.adds {
			if _, is := fastCommit(p); is {
				t.Fatalf("%s: committed after %d answers", name, k)
			}
			if p.object([]byte("k")).mine[0].phase != preAccepting {
				break // it is accepted first
			}
			preAccepted(p, view.MemberID(k+2), adds, 1)
		}
		switch deps, is := fastCommit(p); {
		case c.fast != is:
			t.Errorf("%s: a fast commit is %v, want %v", name, is, c.fast)
		case is && c.adds[0] != nil && deps.of(register.Writer(c.adds[0].Writer)) != 1:
			t.Errorf("%s: committed with dependencies %v", name, deps)
		}
	}
}

// A member answers, loses its disk, and its next one answers too, and knows less: recovery will hear that one.
func TestAFastCommitHasNothingOfALostDisk(t *testing.T) {
	p := toldOf(5, 1)
	p.Submit(appends(1, 0))
	preAccepted(p, 2, another(4), 1)
	p.Incarnations.Learn(2, 2)
	preAccepted(p, 3, another(5), 1)
	if _, is := fastCommit(p); is {
		t.Fatal("committed with the vote of a lost disk")
	}
	preAccepted(p, 2, nil, 1)
	got, is := fastCommit(p)
	if !is {
		t.Fatal("not committed with the votes of present disks")
	}
	if len(got) != 1 || got.of(register.Writer(another(5).Writer)) != 1 {
		t.Errorf("committed with dependencies %v, want what member 3 added", got)
	}
}
