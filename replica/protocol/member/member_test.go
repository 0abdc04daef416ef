package member_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// inner counts what reaches it.
type inner struct {
	received int
	fault    error
	unsettle bool

	retry, suspect time.Duration
}

func (i *inner) Submit(protocol.Request)                {}
func (i *inner) Receive(view.MemberID, *peerv1.Message) { i.received++ }
func (i *inner) Tick(protocol.Instant)                  {}
func (i *inner) Ready() protocol.Effects                { return protocol.Effects{Fault: i.fault} }
func (i *inner) Adopt(_, _ []byte) error                { return nil }
func (i *inner) Settle(protocol.Instant) (settled bool) { return !i.unsettle }
func (i *inner) Unsettled() int                         { return 0 }
func (i *inner) Unfinished() []protocol.Request         { return nil }
func (i *inner) Pending() int                           { return 0 }
func (i *inner) Pace(retry, suspect time.Duration)      { i.retry, i.suspect = retry, suspect }
func (i *inner) factory() member.Factory {
	return func(protocol.Config, *protocol.Journal, *quorum.Incarnations) member.Inner { return i }
}

func config(self view.MemberID) protocol.Config {
	c := protocol.Config{
		Self: self, View: view.View{Cluster: "test", Epoch: 1}, Retry: time.Second,
		Functions: register.NewRegistry(), Continued: true,
	}
	for id := view.MemberID(1); id <= 3; id++ {
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	return c
}

func TestPace(t *testing.T) {
	c, i := config(1), &inner{}
	c.Bootstrap = true
	m, err := member.Start(c, protocol.NewJournal(protocoltest.Disk{}), i.factory())
	if err != nil {
		t.Fatal(err)
	}
	if m.Pace(2*time.Second, 9*time.Second); i.retry != 2*time.Second || i.suspect != 9*time.Second {
		t.Errorf("the protocol asks again after %v, and suspects after %v", i.retry, i.suspect)
	}
}

func TestStartRefuses(t *testing.T) {
	outside, noEpoch := config(1), config(1)
	outside.Self = 9
	noEpoch.View.Epoch = 0
	for _, c := range []struct {
		name   string
		config protocol.Config
		disk   protocoltest.Disk
		want   string
	}{
		{"a member outside the view", outside, protocoltest.Disk{}, "member 9 is not in the view"},
		{"a view without an epoch", noEpoch, protocoltest.Disk{}, "epochs start at 1"},
		{"a damaged record", config(1), protocoltest.Disk{"m": {0xff}}, "member record on disk is damaged"},
	} {
		_, err := member.Start(c.config, protocol.NewJournal(c.disk), (&inner{}).factory())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func start(t *testing.T, c protocol.Config, i *inner) *member.Member {
	t.Helper()
	m, err := member.Start(c, protocol.NewJournal(protocoltest.Disk{}), i.factory())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEmptyDiskVotesOnlyAtBootstrap(t *testing.T) {
	first := config(1)
	first.Bootstrap = true
	if m := start(t, first, &inner{}); !m.Voter() || m.Incarnation() != 1 {
		t.Error("a member of a new cluster does not vote")
	}
	i := &inner{}
	m := start(t, config(1), i)
	m.Submit(protocol.Request{Handle: 7})
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1})
	e := m.Ready()
	if m.Voter() || i.received != 0 {
		t.Error("a newcomer takes part")
	}
	if len(e.Complete) != 1 || e.Complete[0].Handle != 7 || e.Complete[0].Result.Status != register.Unavailable {
		t.Errorf("a newcomer answers %+v", e.Complete)
	}
	if len(e.SendAfterPersist) != 2 || e.SendAfterPersist[0].Message.Kind != peerv1.Kind_JOIN_QUERY {
		t.Errorf("a newcomer asks %+v", e.SendAfterPersist)
	}
}

// join brings a newcomer as far as its transfers, which say that nothing follows.
func join(m *member.Member) {
	for _, kind := range []peerv1.Kind{peerv1.Kind_JOIN_QUERY_REPLY, peerv1.Kind_ADOPT_OK, peerv1.Kind_TRANSFER_PAGE} {
		var known []uint32
		if kind != peerv1.Kind_JOIN_QUERY_REPLY {
			known = []uint32{2, 1, 1}
		}
		for _, from := range []view.MemberID{2, 3} {
			m.Receive(from,
				&peerv1.Message{
					Kind: kind, Epoch: 1, Known: known,
					Transfer: &peerv1.Transfer{Member: 1, Incarnation: 1, Last: true},
				})
		}
	}
}

func TestNewcomerVotesWhenSettled(t *testing.T) {
	i := &inner{unsettle: true}
	m := start(t, config(1), i)
	join(m)
	if m.Voter() || m.Incarnation() != 2 {
		t.Errorf("voter %v with incarnation %d while old work is unfinished", m.Voter(), m.Incarnation())
	}
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_EXECUTED, Epoch: 1})
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_PREPARE, Epoch: 1})
	if i.received != 1 {
		t.Errorf("%d messages reach a protocol that settles, want the Executed alone", i.received)
	}
	i.unsettle = false
	m.Tick(protocol.Instant(time.Second))
	if !m.Voter() {
		t.Error("no voter though nothing is left to settle")
	}
}

// An answer to a query of an earlier life tells of incarnations as they were: taking the next one would be to take
// that of a disk which has voted since.
func TestStaleRepliesAreNotHeard(t *testing.T) {
	c := config(1)
	c.Nonce = 7
	m := start(t, c, &inner{})
	reply := func(from view.MemberID, nonce uint64) {
		m.Receive(from,
			&peerv1.Message{
				Kind: peerv1.Kind_JOIN_QUERY_REPLY, Op: nonce, Epoch: 1, Transfer: &peerv1.Transfer{Incarnation: 1},
			})
	}
	reply(2, 6)
	reply(3, 6)
	if m.Incarnation() != 1 {
		t.Error("stale answers decide the incarnation")
	}
	reply(2, 7)
	// Hearsay is later than the answers.
	m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1, Known: []uint32{3, 1, 1}})
	reply(3, 7)
	if m.Incarnation() != 4 {
		t.Errorf("incarnation %d, want one above all that are known", m.Incarnation())
	}
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_ADOPT_OK, Epoch: 1, Known: []uint32{3, 1, 1}})
	m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_ADOPT_OK, Epoch: 1, Known: []uint32{3, 1, 1}})
	m.Ready()
	m.Receive(2,
		&peerv1.Message{
			Kind: peerv1.Kind_TRANSFER_PAGE, Epoch: 1, Known: []uint32{3, 1, 1}, Transfer: &peerv1.Transfer{Last: true},
		})
	m.Receive(3,
		&peerv1.Message{
			Kind: peerv1.Kind_TRANSFER_PAGE, Epoch: 1, Known: []uint32{3, 1, 1}, Transfer: &peerv1.Transfer{Last: true},
		})
	if m.Voter() {
		t.Error("an adoption and a transfer for an earlier disk make this one a voter")
	}
}

func TestDeadDisksAreNotHeard(t *testing.T) {
	c := config(1)
	c.Bootstrap = true
	i := &inner{}
	m := start(t, c, i)
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1, Incarnation: 2})
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1}) // of the lost one
	m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 2}) // of another epoch
	m.Receive(9, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1}) // of no member
	if i.received != 1 {
		t.Errorf("%d messages arrive, want 1", i.received)
	}
	m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 1, Incarnation: 2, Known: []uint32{2, 2, 2}})
	if e := m.Ready(); e.Fault == nil || i.received != 1 {
		t.Errorf("this member's next disk is known, and it goes on: fault %v", e.Fault)
	}
}

func TestFaultLeavesNothingElse(t *testing.T) {
	c := config(1)
	c.Bootstrap = true
	m := start(t, c, &inner{fault: errors.New("broken")})
	e := m.Ready()
	if e.Fault == nil || e.Persist.Sequence != 0 || len(e.Send)+len(e.SendAfterPersist)+len(e.Complete) > 0 {
		t.Errorf("a broken turn has effects: %+v", e)
	}
}
