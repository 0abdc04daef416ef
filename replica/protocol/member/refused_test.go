package member_test

import (
	"bytes"
	"errors"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// A source with a record that no sound member has does not stop who fetches: another one is asked, and people are told.
func TestAPageAboveTheBoundIsRefused(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2, 3)
	w.nodes[1].disk[keyOf(7)] = refused
	w.start(1, 2, 3, 4)
	w.untilFetched(4)
	if got, want := w.nodes[4].disk[keyOf(7)], w.nodes[2].disk[keyOf(7)]; !bytes.Equal(got, want) {
		t.Errorf("the record is %.20q, want another member's", got)
	}
	if len(w.pages(4, 3)) == 0 {
		t.Error("a page that was refused counts as fetched: no other member was asked")
	}
	m := w.nodes[4].member
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 2, Timestamp: register.MaxNumber + 1})
	m.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 2, Timestamp: register.MaxNumber + 1})
	e := m.Ready()
	if len(e.Refused) != 1 || e.Refused[0].From != 2 || !errors.Is(e.Refused[0].Why, register.ErrNumber) {
		t.Errorf("of what was not believed is told %+v", e.Refused)
	}
}
