package member_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// store is an inner protocol that only holds records: of two values of a key, the larger one is newer.
type store struct {
	inner
	journal   *protocol.Journal
	unsettled int
}

// refused is a value that no sound member has.
var refused = []byte("above the bound")

func (s *store) Unsettled() int { return s.unsettled }

func (s *store) Unfinished() []protocol.Request { return []protocol.Request{{Handle: 7}} }

func (s *store) Adopt(key, value []byte) error {
	if bytes.Equal(value, refused) {
		return register.ErrNumber
	}
	if own, ok := s.journal.Get(key); !ok || bytes.Compare(own, value) < 0 {
		s.journal.Put(bytes.Clone(key), bytes.Clone(value))
	}
	return nil
}

type node struct {
	config  protocol.Config
	disk    protocoltest.Disk
	journal *protocol.Journal
	store   *store
	member  *member.Member // nil: it is down
	slow    bool           // its disk makes nothing durable
	lost    error          // it took its disk for lost, and is down
	boots   uint64
}

type packet struct {
	from, to view.MemberID
	message  *peerv1.Message
}

// world runs members in a time of its own. What is sent arrives in the same step.
type world struct {
	t        *testing.T
	now      protocol.Instant
	nodes    map[view.MemberID]*node
	lose     func(packet) bool // nil: nothing
	sent     []packet          // that arrived
	unsettle bool              // a newcomer that starts finds no end of settling
	starts   uint64            // of processes
}

// tick is the time of one step, a quarter of Retry.
const tick = 25 * time.Millisecond

// replacing is the joint view in which member 4 takes the place of member 3.
func replacing(epoch uint64) view.View {
	return view.View{Cluster: "test", Epoch: epoch, Members: []view.Member{
		{ID: 1}, {ID: 2}, {ID: 3, Leaving: true}, {ID: 4, Joining: true},
	}}
}

func newWorld(t *testing.T, v view.View) *world {
	w := &world{t: t, nodes: map[view.MemberID]*node{}}
	for _, m := range v.Members {
		w.nodes[m.ID] = &node{disk: protocoltest.Disk{}}
		w.place(m.ID, v)
	}
	return w
}

// place gives a member its view, for its next start.
func (w *world) place(id view.MemberID, v view.View) {
	c := config(id)
	c.View, c.Nearest, c.Bootstrap, c.Retry, c.Suspect = v, nil, true, 4*tick, 20*tick
	for _, m := range v.Members {
		if m.ID != id {
			c.Nearest = append(c.Nearest, m.ID)
		}
	}
	w.nodes[id].config = c
}

func (w *world) start(ids ...view.MemberID) {
	w.t.Helper()
	for _, id := range ids {
		n := w.nodes[id]
		n.boots++
		w.starts++
		n.config.Boot, n.config.Nonce, n.lost = uint32(n.boots), uint64(id)<<32|w.starts, nil
		n.journal = protocol.NewJournal(n.disk)
		factory := func(_ protocol.Config, j *protocol.Journal, _ *quorum.Incarnations) member.Inner {
			n.store = &store{journal: j, inner: inner{unsettle: w.unsettle}}
			return n.store
		}
		var err error
		if n.member, err = member.Start(n.config, n.journal, factory); err != nil {
			w.t.Fatal(err)
		}
	}
}

// step lets time pass, and everything arrive that it leads to.
func (w *world) step() {
	w.t.Helper()
	w.now = w.now.Add(tick)
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := w.nodes[id]; n.member != nil {
			n.member.Tick(w.now)
		}
	}
	for turns := 0; w.exchange(); turns++ {
		if turns > 1000 {
			w.t.Fatal("they never come to rest")
		}
	}
}

// exchange makes durable and delivers what members ask for now, and reports whether there was anything.
func (w *world) exchange() bool {
	var flying []packet
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[id]
		if n.member == nil {
			continue
		}
		e := n.member.Ready()
		if forgotten := (*protocol.Forgotten)(nil); errors.As(e.Fault, &forgotten) {
			n.member, n.lost = nil, e.Fault
			continue
		}
		if e.Fault != nil {
			w.t.Fatal(e.Fault)
		}
		for _, envelope := range e.Send {
			flying = append(flying, packet{id, envelope.To, envelope.Message})
		}
		if n.slow {
			continue
		}
		n.disk.Write(e.Persist)
		n.journal.Persisted(e.Persist.Sequence)
		for _, envelope := range e.SendAfterPersist {
			flying = append(flying, packet{id, envelope.To, envelope.Message})
		}
	}
	for _, p := range flying {
		if held, _ := binary.Uvarint(w.nodes[p.from].disk["mc"]); p.message.Batches > held {
			w.t.Fatalf("member %d tells of %d batches, and its disk has %d", p.from, p.message.Batches, held)
		}
		if n := w.nodes[p.to]; n == nil || n.member == nil || w.lose != nil && w.lose(p) {
			continue
		}
		w.sent = append(w.sent, p)
		w.nodes[p.to].member.Receive(p.from, p.message)
	}
	return len(flying) > 0
}

// until steps until a condition holds, for at most an hour of virtual time.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := w.now.Add(time.Hour); !holds(); w.step() {
		if w.now > end {
			w.t.Fatalf("never: %s", what)
		}
	}
}

func (w *world) change(id view.MemberID) protocol.Change { return w.nodes[id].member.Change() }

func (w *world) untilFetched(id view.MemberID) {
	w.t.Helper()
	w.until(fmt.Sprintf("member %d has fetched", id), func() bool { return w.change(id).Fetched })
}

// pages are the pages that a member was sent, by whom (0: anyone).
func (w *world) pages(to, from view.MemberID) (pages []*peerv1.Transfer) {
	for _, p := range w.sent {
		if p.message.Kind == peerv1.Kind_TRANSFER_PAGE && p.to == to && (from == 0 || p.from == from) {
			pages = append(pages, p.message.Transfer)
		}
	}
	return pages
}

// names are the keys of all records in pages, in the order in which they came.
func names(pages []*peerv1.Transfer) (keys []string) {
	for _, t := range pages {
		for _, r := range t.Records {
			keys = append(keys, string(r.Key))
		}
	}
	return keys
}

func size(pages []*peerv1.Transfer) (bytes uint64) {
	for _, t := range pages {
		for _, r := range t.Records {
			bytes += uint64(len(r.Key) + len(r.Value))
		}
	}
	return bytes
}

const (
	recordBytes = 4 << 10
	records     = 300 // about five pages
)

func keyOf(i int) string { return fmt.Sprintf("r%04d", i) }

// value is what a key holds in a version.
func value(i int, version byte) []byte {
	return append([]byte{version}, bytes.Repeat([]byte{byte(i)}, recordBytes)...)
}

// fill puts the same records on the disks of members.
func (w *world) fill(ids ...view.MemberID) {
	for _, id := range ids {
		for i := range records {
			w.nodes[id].disk[keyOf(i)] = value(i, 1)
		}
	}
}

// bare is a disk without the member's own records.
func bare(d protocoltest.Disk) protocoltest.Disk {
	d = maps.Clone(d)
	maps.DeleteFunc(d, func(key string, _ []byte) bool { return key[0] == 'm' })
	return d
}
