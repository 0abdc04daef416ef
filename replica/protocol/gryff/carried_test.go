package gryff

import (
	"bytes"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A read brings along the value that its proxy holds, up to 64 KiB: with three members it takes one round trip then,
// whoever is behind. A larger value is brought in a second one to a member that lacks it, and to no other.
func TestAReadBringsSmallValuesAlong(t *testing.T) {
	const limit = 64 << 10
	for _, tt := range []struct {
		name         string
		size         int
		proxy, other bool // who holds it
		trips        int
		brought      []int // bytes in each of its messages
	}{
		{"small, the other is behind", 1, true, false, 1, []int{1}},
		{"64 KiB, the other is behind", limit, true, false, 1, []int{limit}},
		{"more, the other is behind", limit + 1, true, false, 2, []int{0, limit + 1}},
		{"1 MiB, the other is behind", 1 << 20, true, false, 2, []int{0, 1 << 20}},
		{"64 KiB, both hold it", limit, true, true, 1, []int{limit}},
		{"more, both hold it", limit + 1, true, true, 1, []int{0}},
		{"1 MiB, the proxy is behind", 1 << 20, false, true, 1, []int{0}},
	} {
		members := map[view.MemberID]*Protocol{}
		journals, disks := map[view.MemberID]*protocol.Journal{}, map[view.MemberID]protocoltest.Disk{}
		turn := func(id view.MemberID) protocol.Effects {
			e := members[id].Ready()
			disks[id].Write(e.Persist)
			journals[id].Persisted(e.Persist.Sequence)
			return e
		}
		// order is irrelevant: they have not met
		for id, holds := range map[view.MemberID]bool{1: tt.proxy, 2: tt.other} {
			disks[id] = protocoltest.Disk{}
			journals[id] = protocol.NewJournal(disks[id])
			members[id] = memberOf(id, 3, 1, journals[id])
			if holds {
				members[id].Receive(3, &peerv1.Message{ // which says no more
					Kind: peerv1.Kind_WRITE2, Key: []byte("k"), Timestamp: 5,
					Writer:  uint64(register.NewWriter(3, 1, 1)),
					Present: true, Value: bytes.Repeat([]byte("v"), tt.size),
				})
				turn(id)
			}
		}
		members[1].Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "k"}})
		var brought []int
		var done []protocol.Completion
		for range 5 {
			e := turn(1)
			done = append(done, completions(e)...)
			for _, m := range sent(e) {
				brought = append(brought, len(m.Value))
				members[2].Receive(1, m)
			}
			for _, m := range sent(turn(2)) {
				members[1].Receive(2, m)
			}
		}
		if len(done) != 1 || len(done[0].Result.Value) != tt.size || done[0].Result.RoundTrips != tt.trips ||
			done[0].Result.Fast != (tt.trips == 1) {
			t.Errorf("%s: %d reads end, want one in %d round trips", tt.name, len(done), tt.trips)
		}
		if !slices.Equal(brought, tt.brought) {
			t.Errorf("%s: messages bring %v bytes, want %v", tt.name, brought, tt.brought)
		}
		for id, m := range members { // order is irrelevant: each is checked
			if got := m.Load([]byte("k")); len(got.Value) != tt.size {
				t.Errorf("%s: member %d holds %d of %d bytes", tt.name, id, len(got.Value), tt.size)
			}
		}
	}
}
