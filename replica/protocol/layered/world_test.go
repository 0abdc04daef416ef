package layered

import (
	"bytes"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const retry = time.Second

// world is n members with Gus beneath, messages between them that arrive in order, and disks that write at once.
type world struct {
	t       *testing.T
	view    view.View
	data    int // fragments that restore a value, with one member that may be lost
	now     protocol.Instant
	nodes   []*node
	flying  []flying
	passes  func(from, to view.MemberID, m *peerv1.Message) bool // nil: all
	results map[uint64]register.Result
	handle  uint64
	sent    map[peerv1.Kind]int
	bytes   int // of all messages sent
	took    map[string]int
}

type node struct {
	*member.Member
	layer   *Protocol // nil: values are stored whole
	id      view.MemberID
	disk    protocoltest.Disk
	journal *protocol.Journal
	boot    uint32
	down    bool
}

type flying struct {
	from, to view.MemberID
	message  *peerv1.Message
}

func newWorld(t *testing.T, n, data int) *world {
	w := &world{
		t: t, data: data, view: view.View{Cluster: "test", Epoch: 1}, took: map[string]int{},
		results: map[uint64]register.Result{}, sent: map[peerv1.Kind]int{},
	}
	for i := range n {
		w.view.Members = append(w.view.Members, view.Member{ID: view.MemberID(i + 1)})
		w.nodes = append(w.nodes, &node{id: view.MemberID(i + 1), disk: protocoltest.Disk{}})
	}
	for _, nd := range w.nodes {
		w.start(nd, true)
	}
	return w
}

// start begins a member's process on its disk.
func (w *world) start(nd *node, bootstrap bool) {
	if err := w.begin(nd, bootstrap); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) begin(nd *node, bootstrap bool) error {
	nd.boot++
	nd.down = false
	c := protocol.Config{
		Self: nd.id, View: w.view, Boot: nd.boot, Retry: retry, Suspect: 3 * retry, Bootstrap: bootstrap, Faults: 1,
		Continued: true, Fragments: protocol.Fragments{Data: w.data, Threshold: 100}, Nonce: uint64(nd.id)<<32 | uint64(nd.boot)<<16,
		Count: func(path string) { w.took[path]++ },
	}
	for _, m := range w.view.Members {
		if m.ID != nd.id {
			c.Nearest = append(c.Nearest, m.ID)
		}
	}
	nd.journal = protocol.NewJournal(nd.disk)
	factory := Wrap(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) Inner {
		return gus.New(c, j, r)
	})
	m, err := member.Start(c, nd.journal, func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
		inner := factory(c, j, r)
		nd.layer, _ = inner.(*Protocol)
		return inner
	})
	if err != nil {
		w.t.Fatal(err)
	}
	nd.Member = m
	m.Tick(w.now)
	return w.step(nd)
}

func (w *world) kill(id view.MemberID)   { w.nodes[id-1].down = true }
func (w *world) revive(id view.MemberID) { w.start(w.nodes[id-1], false) }

// wipe has a member come back with an empty disk.
func (w *world) wipe(id view.MemberID) {
	w.nodes[id-1].disk = protocoltest.Disk{}
	w.start(w.nodes[id-1], false)
}

// change has the members that are up go over to a joint view, in which one or none leaves and others join, on disks
// that it names.
func (w *world) change(leave view.MemberID, join ...view.MemberID) {
	w.view.Epoch++
	w.view.Members = slices.Clone(w.view.Members)
	for i := range w.view.Members {
		w.view.Members[i].Leaving = w.view.Members[i].ID == leave
	}
	for _, id := range join {
		w.view.Members = append(w.view.Members, view.Member{ID: id, Joining: true})
		w.nodes = append(w.nodes, &node{id: id, disk: protocoltest.Disk{}})
	}
	w.enter(join...)
}

// finish has them go over to the view after the change.
func (w *world) finish() {
	w.view = w.view.After()
	w.view.Epoch++
	w.enter()
}

func (w *world) enter(joining ...view.MemberID) {
	for _, nd := range w.nodes {
		if !nd.down {
			w.start(nd, slices.Contains(joining, nd.id))
		}
	}
}

// finishable reports whether the change may be finished, by what members say that are up.
func (w *world) finishable() bool {
	says := func(id view.MemberID) (c protocol.Change) {
		if nd := w.nodes[id-1]; !nd.down {
			c = nd.Change()
		}
		return c
	}
	return w.view.Covered(
		func(id view.MemberID) bool { c := says(id); return c.Settled && c.Transfers && c.Fetched },
		func(id view.MemberID) bool { return says(id).Settled })
}

func (w *world) turn(nd *node) {
	if err := w.step(nd); err != nil {
		w.t.Fatalf("member %d: %v", nd.id, err)
	}
}

// step does what a member asks for; the error is its fault.
func (w *world) step(nd *node) error {
	e := nd.Ready()
	if e.Fault != nil {
		return e.Fault
	}
	nd.disk.Write(e.Persist)
	nd.journal.Persisted(e.Persist.Sequence)
	for _, c := range append(e.Complete, e.CompleteAfterPersist...) {
		if _, twice := w.results[c.Handle]; twice {
			w.t.Fatalf("operation %d completes twice", c.Handle)
		}
		w.results[c.Handle] = c.Result
	}
	for _, s := range append(e.Send, e.SendAfterPersist...) {
		if s.Message.Fragment != nil {
			w.sent[s.Message.Kind]++
		}
		w.bytes += s.Message.SizeVT()
		w.flying = append(w.flying, flying{nd.id, s.To, s.Message})
	}
	return nil
}

// settle delivers until nothing is under way.
func (w *world) settle() {
	for len(w.flying) > 0 {
		f := w.flying[0]
		w.flying = w.flying[1:]
		to := w.nodes[f.to-1]
		if to.down || w.nodes[f.from-1].down || w.passes != nil && !w.passes(f.from, f.to, f.message) {
			continue
		}
		raw, err := f.message.MarshalVT()
		if err != nil {
			w.t.Fatal(err)
		}
		m := &peerv1.Message{}
		if err := m.UnmarshalVT(raw); err != nil {
			w.t.Fatal(err)
		}
		to.Receive(f.from, m)
		w.turn(to)
	}
}

// pass lets time pass, in steps that worlds take.
func (w *world) pass(d time.Duration) {
	for until := w.now.Add(d); w.now < until; {
		w.now = w.now.Add(retry / 4)
		for _, nd := range w.nodes {
			if !nd.down {
				nd.Tick(w.now)
				w.turn(nd)
			}
		}
		w.settle()
	}
}

func (w *world) submit(at view.MemberID, op register.Operation, deadline protocol.Instant) (handle uint64) {
	w.handle++
	nd := w.nodes[at-1]
	nd.Submit(protocol.Request{Handle: w.handle, Operation: op, Deadline: deadline})
	w.turn(nd)
	w.settle()
	return w.handle
}

func (w *world) write(at view.MemberID, key string, value []byte) register.Result {
	w.t.Helper()
	r, done := w.results[w.submit(at, register.Operation{Kind: register.Write, Key: key, Value: value}, 0)]
	if !done || r.Status != register.OK {
		w.t.Fatalf("a write at member %d ended: %v, with %+v", at, done, r)
	}
	return r
}

func (w *world) expect(at view.MemberID, key string, want []byte) register.Result {
	w.t.Helper()
	h := w.submit(at, register.Operation{Kind: register.Read, Key: key}, 0)
	if _, done := w.results[h]; !done {
		w.pass(4 * retry)
	}
	r, done := w.results[h]
	if !done || r.Status != register.OK || !bytes.Equal(r.Value, want) || r.Value.Present() != (want != nil) {
		w.t.Fatalf("a read at member %d ended: %v, with %v and %d bytes: %.80q %s; want %d", at, done, r.Status, len(r.Value), r.Value, r.Message, len(want))
	}
	return r
}

// fragments counts the members that have a fragment of some value of theirs or others'.
func (w *world) fragments() (members, records int) {
	for _, nd := range w.nodes {
		n := 0
		for key := range nd.disk { // order is irrelevant: a count
			if key[0] == piecesPrefix {
				n++
			}
		}
		records += n
		members += min(n, 1)
	}
	return members, records
}

func large(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i)*7 + byte(i>>8) + seed
	}
	return b
}
