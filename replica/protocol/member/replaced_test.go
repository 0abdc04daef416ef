package member_test

import (
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/view"
)

// inView is config in the view of an epoch with these members.
func inView(self view.MemberID, epoch uint64, members ...view.MemberID) protocol.Config {
	c := config(self)
	c.View.Epoch, c.View.Members, c.Nearest = epoch, nil, nil
	for _, id := range members {
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	return c
}

func startOn(t *testing.T, c protocol.Config, d protocoltest.Disk, i *inner) *member.Member {
	t.Helper()
	m, err := member.Start(c, protocol.NewJournal(d), i.factory())
	if err != nil {
		t.Fatal(err)
	}
	d.Write(m.Ready().Persist)
	return m
}

// Positions in the view shift when a member is replaced; what is known of disks stays with the IDs.
func TestIncarnationsFollowMembersIntoTheNextView(t *testing.T) {
	for name, next := range map[string][]view.MemberID{ // each is checked on its own
		"in the place of the one that is gone": {1, 4, 3},
		"at the end":                           {1, 3, 4},
		"in another order":                     {4, 3, 1},
	} {
		d := protocoltest.Disk{}
		first := inView(1, 1, 1, 2, 3)
		first.Bootstrap = true
		m := startOn(t, first, d, &inner{})
		m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_ADOPT, Epoch: 1, Incarnation: 2, Known: []uint32{1, 1, 2}})
		m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_ADOPT, Epoch: 1, Incarnation: 5, Known: []uint32{1, 5, 2}})
		d.Write(m.Ready().Persist)

		i := &inner{}
		m = startOn(t, inView(1, 2, next...), d, i)
		if !m.Voter() || m.Incarnation() != 1 {
			t.Errorf("%s: voter %v with incarnation %d after the view changed", name, m.Voter(), m.Incarnation())
		}
		m.Receive(3, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 2}) // of its first disk
		if i.received != 0 {
			t.Errorf("%s: the first disk of member 3 is heard though its second one was adopted", name)
		}
		m.Receive(4, &peerv1.Message{Kind: peerv1.Kind_JOIN_QUERY, Epoch: 2})
		e := m.Ready()
		if len(e.SendAfterPersist) != 1 || e.SendAfterPersist[0].Message.GetTransfer().GetIncarnation() != 1 {
			t.Errorf("%s: the newcomer is answered %+v, want that it had no disk before", name, e.SendAfterPersist)
		}
	}
}

func TestDiskDoesNotGoBackToAnOlderView(t *testing.T) {
	d := protocoltest.Disk{}
	first := inView(1, 1, 1, 2, 3)
	first.Bootstrap = true
	startOn(t, first, d, &inner{})
	startOn(t, inView(1, 2, 1, 4, 3), d, &inner{})
	_, err := member.Start(first, protocol.NewJournal(d), (&inner{}).factory())
	if err == nil || !strings.Contains(err.Error(), "must not go back to epoch 1") {
		t.Errorf("%v, want a refusal", err)
	}
}

// A newcomer's disk was named by no view, so it votes on nothing before enough others, who are in its view, have
// adopted it and sent their state: here both.
func TestNewcomerWaitsForMembersOfTheFormerView(t *testing.T) {
	i := &inner{}
	m := startOn(t, inView(4, 2, 1, 4, 3), protocoltest.Disk{}, i)
	answer := func(kind peerv1.Kind, from view.MemberID, epoch uint64) {
		msg := &peerv1.Message{Kind: kind, Epoch: epoch, Transfer: &peerv1.Transfer{Last: true}}
		if kind != peerv1.Kind_JOIN_QUERY_REPLY {
			msg.Known = []uint32{1, 2, 1}
		}
		m.Receive(from, msg)
	}
	for _, kind := range []peerv1.Kind{peerv1.Kind_JOIN_QUERY_REPLY, peerv1.Kind_ADOPT_OK, peerv1.Kind_TRANSFER_PAGE} {
		if m.Voter() {
			t.Fatalf("a newcomer votes before %s", kind)
		}
		answer(kind, 1, 2)
		answer(kind, 1, 2) // once more
		answer(kind, 3, 1) // member 3 is in the former view yet
		answer(kind, 2, 2) // member 2 is gone, whatever epoch it names
		if m.Voter() || kind == peerv1.Kind_JOIN_QUERY_REPLY && m.Incarnation() != 1 {
			t.Fatalf("the %s of one member of the view is enough", kind)
		}
		answer(kind, 3, 2)
	}
	if !m.Voter() || m.Incarnation() != 2 {
		t.Errorf("voter %v with incarnation %d once both others are in its view", m.Voter(), m.Incarnation())
	}
}
