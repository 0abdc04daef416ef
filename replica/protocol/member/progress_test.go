package member_test

import (
	"bytes"
	"maps"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

func TestTransferGoesOnAfterRestarts(t *testing.T) {
	for name, restart := range map[string]func(w *world, id view.MemberID){ // each is checked on its own
		"of the one that fetches": func(w *world, _ view.MemberID) { w.start(4) },
		"of the source":           func(w *world, source view.MemberID) { w.start(source) },
	} {
		w := newWorld(t, replacing(2))
		w.fill(1, 2)
		// So that everything of the second one differs, or is not there.
		w.nodes[2].disk = protocoltest.Disk{keyOf(0): value(0, 1)}
		w.nodes[4].config.TransferRate = 64 << 10
		w.start(1, 2, 3, 4)
		whole := uint64(records * (recordBytes + 6))
		for n := range 3 {
			w.until("more pages", func() bool { return len(w.pages(4, 1)) > n })
			restart(w, 1)
			if c := w.change(4); c.Bytes != size(w.pages(4, 1)) || c.Fetched {
				t.Errorf("%s: %+v after %d bytes", name, c, size(w.pages(4, 1)))
			}
		}
		w.untilFetched(4)
		c := w.change(4)
		if came := size(w.pages(4, 1)); came != whole || c.Bytes < whole || c.Bytes > whole+recordBytes+6 {
			t.Errorf("%s: %d bytes of %d were sent, %+v", name, came, whole, c)
		}
		w.sent = nil
		w.start(4)
		w.untilFetched(4)
		if got := w.change(4); len(w.sent) > 0 || got != c {
			t.Errorf("%s: %d messages after everything was fetched; %+v, before it was %+v", name, len(w.sent), got, c)
		}
	}
}

// What was fetched in one joint view says nothing of what was acknowledged after it.
func TestTransferIsVoidInAnotherEpoch(t *testing.T) {
	for _, plainBetween := range []bool{false, true} {
		w := newWorld(t, replacing(2))
		w.fill(1, 2)
		w.start(1, 2, 3, 4)
		w.untilFetched(4)
		if w.nodes[4].disk["mt"] == nil {
			t.Fatal("nothing is kept")
		}
		if plainBetween {
			w.place(4, replacing(3).After())
			w.start(4)
			w.step()
			if w.nodes[4].disk["mt"] != nil {
				t.Error("in a plain view the record is kept")
			}
		}
		for id := view.MemberID(1); id <= 4; id++ {
			w.place(id, replacing(4))
		}
		w.sent = nil
		w.start(1, 2, 3, 4)
		w.untilFetched(4)
		if c := w.change(4); len(w.sent) == 0 || c.Bytes != 0 {
			t.Errorf("%d messages in a later epoch, %+v", len(w.sent), c)
		}
	}
}

// The member's own record may not know of the disk that a source has now: only adoptions are saved there.
func TestTransferRecordTellsOfDisks(t *testing.T) {
	w := newWorld(t, replacing(2))
	record, err := (&peerv1.TransferRecord{Epoch: 2, Sources: []*peerv1.TransferSource{
		{Member: 1, Incarnation: 2, Done: true}, {Member: 3, Incarnation: 1, Done: true},
	}}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[4].disk["mt"] = record
	w.start(4)
	w.untilFetched(4)
	w.nodes[4].member.Receive(1, &peerv1.Message{Kind: peerv1.Kind_READ1, Epoch: 2, Incarnation: 1})
	if n := w.nodes[4].store.received; n != 0 {
		t.Error("a disk is heard that another one has replaced")
	}
}

func TestDamagedTransferRecordIsRefused(t *testing.T) {
	c := config(1)
	c.Bootstrap = true
	_, err := member.Start(c, protocol.NewJournal(protocoltest.Disk{"mt": {0xff}}), (&inner{}).factory())
	if err == nil {
		t.Error("a damaged record passes")
	}
}

// A join after a lost disk goes on where it was, and what it fetched counts in the joint view that it is in.
func TestJoinGoesOnAfterARestart(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2, 3)
	w.start(1, 2, 3, 4)
	w.untilFetched(4)
	n := w.nodes[4]
	n.disk, n.config.Bootstrap, n.config.TransferRate = protocoltest.Disk{}, false, 64<<10
	w.sent = nil
	w.start(4)
	whole := uint64(records * (recordBytes + 6))
	for pages := 2; !n.member.Voter(); pages += 2 {
		w.until("more pages", func() bool { return len(w.pages(4, 0)) >= pages || n.member.Voter() })
		c := n.member.Change()
		if came := size(w.pages(4, 0)); c.Bytes != came || c.Records != came/(recordBytes+6) {
			t.Errorf("%+v after %d bytes", c, came)
		}
		if !n.member.Voter() {
			w.start(4)
		}
	}
	for id := view.MemberID(1); id <= 3; id++ {
		if came := size(w.pages(4, id)); came > whole {
			t.Errorf("member %d sent %d bytes of %d", id, came, whole)
		}
	}
	w.untilFetched(4)
	if !maps.EqualFunc(bare(n.disk), bare(w.nodes[1].disk), bytes.Equal) {
		t.Error("the member that lost its disk does not hold what the others do")
	}
	w.place(4, replacing(3).After())
	w.start(4)
	w.step()
	if w.nodes[4].disk["mt"] != nil {
		t.Error("the record of the transfer outlives the change")
	}
}

// beEarlier has sources act as those of the version before: they know of no prints, and don't say how far a page goes.
func beEarlier(p packet) bool {
	switch p.message.Kind {
	case peerv1.Kind_TRANSFER:
		p.message.Transfer.Until, p.message.Transfer.Prints = nil, nil
	case peerv1.Kind_TRANSFER_PAGE:
		p.message.Transfer.Until = nil
	}
	return false
}

func TestSourcesOfTheVersionBefore(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.lose = beEarlier
	w.start(1, 2, 3, 4)
	w.untilFetched(4)
	if !maps.EqualFunc(bare(w.nodes[4].disk), bare(w.nodes[1].disk), bytes.Equal) {
		t.Error("it holds something else")
	}
}

// In a rolling update with lost disks, the others may be of a version whose pages do not say which process asked.
func TestJoinHearsMembersOfAnEarlierVersion(t *testing.T) {
	w := newWorld(t, replacing(2).Before())
	w.fill(1, 2)
	w.start(1, 2, 3)
	w.step()
	w.lose = func(p packet) bool {
		if p.message.Kind == peerv1.Kind_TRANSFER_PAGE {
			p.message.Op = 0
		}
		return beEarlier(p)
	}
	n := w.nodes[3]
	n.disk, n.config.Bootstrap = protocoltest.Disk{}, false
	w.start(3)
	w.until("it votes", n.member.Voter)
	if len(bare(n.disk)) != records {
		t.Errorf("it votes with %d records of %d", len(bare(n.disk)), records)
	}
}

func TestJoinSettlesAfterARestart(t *testing.T) {
	w := newWorld(t, replacing(2).Before())
	w.fill(1, 2)
	w.start(1, 2, 3)
	w.step()
	n := w.nodes[3]
	n.disk, n.config.Bootstrap, w.unsettle = protocoltest.Disk{}, false, true
	w.start(3)
	w.until("everything is there", func() bool { return len(bare(n.disk)) == records })
	w.until("both have sent all", func() bool { return len(w.pages(3, 1)) > 0 && len(w.pages(3, 2)) > 0 })
	w.sent = nil
	w.start(3)
	for range 40 {
		w.step()
	}
	if len(w.pages(3, 0)) > 0 || n.member.Voter() {
		t.Errorf("%d pages come again, voter %v", len(w.pages(3, 0)), n.member.Voter())
	}
	n.store.unsettle = false
	w.until("it votes", n.member.Voter)
	w.step()
	if n.disk["mt"] != nil {
		t.Error("the record of the transfer outlives the join")
	}
}

func TestSettledIsToldOnceItIsDurable(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.start(1, 2, 3, 4)
	n := w.nodes[1]
	n.store.unsettled = 2
	w.step()
	if w.change(1).Settled {
		t.Error("a member with old work is settled")
	}
	n.store.unsettled, n.slow = 0, true
	n.journal.Put([]byte("rx"), []byte("what it finished"))
	w.step()
	if w.change(1).Settled {
		t.Error("it is settled before what it finished is durable")
	}
	n.slow = false
	for batch := uint64(1); !n.journal.Clean(); batch++ {
		n.journal.Persisted(batch)
	}
	n.store.unsettled = 1 // it hears of more
	if !w.change(1).Settled {
		t.Error("it is not settled, or does not stay so")
	}
	w.start(1)
	n.store.unsettled = 1
	w.step()
	if w.change(1).Settled {
		t.Error("a restart does not look again")
	}
}

// A transfer may bring more old work. Who fetched is done with that as well.
func TestFetchedIsSettledAfterwards(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.start(1, 2, 3, 4)
	w.until("settled", func() bool { return w.change(4).Settled })
	w.nodes[4].store.unsettled = 1
	for range 100 {
		w.step()
	}
	if c := w.change(4); c.Fetched || len(w.pages(4, 2)) == 0 || c.Remaining != 0 {
		t.Errorf("%+v with old work left", c)
	}
	w.nodes[4].store.unsettled = 0
	w.untilFetched(4)
}

var _ protocol.Sizer = sized{}

// sized is a disk that tells how much lies behind a key.
type sized struct{ protocoltest.Disk }

func (s sized) Remaining(after []byte) (bytes uint64) {
	s.Scan(after, func(key, value []byte) bool {
		bytes += uint64(len(key) + len(value))
		return true
	})
	return bytes
}

func TestRemainingCountsDown(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[4].config.TransferRate = 64 << 10
	w.start(1, 2, 3, 4)
	for id := view.MemberID(1); id <= 2; id++ {
		n := w.nodes[id]
		n.journal = protocol.NewJournal(sized{n.disk})
		var err error
		if n.member, err = member.Start(n.config, n.journal,
			func(protocol.Config, *protocol.Journal, *quorum.Incarnations) member.Inner {
				return n.store
			}); err != nil {
			t.Fatal(err)
		}
	}
	whole := uint64(records * (recordBytes + 6))
	before := 2*whole + 1
	for !w.change(4).Fetched {
		pages := len(w.pages(4, 0))
		w.step()
		c := w.change(4)
		if len(w.pages(4, 0)) > pages && c.Remaining >= before && before > 0 {
			t.Errorf("%d bytes remain after a page, before it %d", c.Remaining, before)
		}
		if pages > 0 {
			before = c.Remaining
		}
		sum := c.Bytes + c.SameBytes + c.Remaining
		if len(w.pages(4, 0)) > 0 && (sum < 2*whole-1000 || sum > 2*whole+1000) {
			t.Errorf("%+v adds up to %d, want about %d", c, sum, 2*whole)
		}
	}
}

func TestUnfinishedIsTheProtocolsWhileItVotes(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.start(1)
	if u := w.nodes[1].member.Unfinished(); len(u) != 1 || u[0].Handle != 7 {
		t.Errorf("a voting member left %v", u)
	}
	w.nodes[2].config.Bootstrap = false
	w.start(2)
	if u := w.nodes[2].member.Unfinished(); u != nil {
		t.Errorf("a newcomer left %v", u)
	}
}

// FuzzReceive throws a message at a member that fetches, one whose disk was lost, and one that serves. None may panic,
// or count what it has not got.
func FuzzReceive(f *testing.F) {
	seed := func(kind peerv1.Kind, t *peerv1.Transfer) {
		encoded, err := (&peerv1.Message{
			Kind: kind, Op: 1, Epoch: 2, Known: []uint32{1, 2, 1, 1}, Transfer: t, Start: 1, Batches: 1 << 63,
			Positions: []*peerv1.Position{
				{}, {Member: 1, Incarnation: 9},
				{Member: 4, Incarnation: 1, Start: 1 << 63, Batches: 1, Before: 1 << 63},
			},
		}).MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(1), encoded)
		f.Add(uint8(3), encoded)
	}
	for kind := range peerv1.Kind_name { // the order of seeds does not matter
		seed(peerv1.Kind(kind), nil)
		seed(peerv1.Kind(kind), &peerv1.Transfer{From: []byte("r0"), Until: []byte("r1"), Prints: make([]byte, 17)})
		seed(peerv1.Kind(kind), &peerv1.Transfer{Until: []byte("r1"), Compared: 1 << 63, Remaining: 1 << 63})
		seed(peerv1.Kind(kind), &peerv1.Transfer{Prints: make([]byte, 32), Last: true})
		seed(peerv1.Kind(kind),
			&peerv1.Transfer{Records: []*peerv1.Record{{}, {Key: []byte("r2")}, {Key: []byte("m")}}})
		seed(peerv1.Kind(kind), &peerv1.Transfer{Last: true})
	}
	f.Fuzz(func(t *testing.T, from uint8, encoded []byte) {
		m := &peerv1.Message{}
		if m.UnmarshalVT(encoded) != nil {
			return
		}
		w := newWorld(t, replacing(2))
		w.nodes[2].config.Bootstrap = false
		w.nodes[1].config.Continued = m.Op&2 != 0 // else it asks
		for _, id := range []view.MemberID{1, 4} {
			w.nodes[id].disk["r1"] = []byte("1")
		}
		w.start(1, 2, 4)
		for _, id := range []view.MemberID{1, 2, 4} {
			n := w.nodes[id]
			if id == 2 { // it has an incarnation
				for _, other := range []view.MemberID{1, 3, 4} {
					n.member.Receive(other,
						&peerv1.Message{Kind: peerv1.Kind_JOIN_QUERY_REPLY, Epoch: 2, Op: n.config.Nonce})
				}
			}
			n.member.Tick(1)
			n.member.Ready()
			if m.Op == 1 { // an answer to this process
				m.Op = n.config.Nonce
			}
			own := bytes.Clone(n.disk["m"])
			n.member.Receive(view.MemberID(from), m)
			c := n.member.Change()
			if e := n.member.Ready(); e.Fault == nil {
				n.disk.Write(e.Persist)
			}
			if id != 2 && len(m.Known) == 0 && m.Kind != peerv1.Kind_ADOPT && m.Incarnation < 2 &&
				!bytes.Equal(own, n.disk["m"]) {
				t.Errorf("a message changed what member %d knows of itself", id)
			}
			if c.Fetched || id == 2 && n.member.Voter() {
				t.Errorf("one message ends the part of member %d", id)
			}
			n.member.Tick(protocol.Instant(1 << 40))
			n.member.Ready()
		}
	})
}
