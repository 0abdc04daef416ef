package curp_test

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const retry = 200 * time.Millisecond

// world runs the members and witnesses of one partition in virtual time. Witnesses are naive: what they are told is on
// disk at once, and they have room for everything.
type world struct {
	t         *testing.T
	now       time.Duration
	draw      *rand.Rand
	options   protocol.Sync
	tuning    protocol.Tuning
	view      view.View // the newest
	nodes     []*node   // member i+1 at i
	witnesses map[view.MemberID]*witness
	events    events
	sequence  uint64
	starts    uint64
	took      map[string]int
	trace     strings.Builder
	cut       func(from, to view.MemberID) bool // which messages are lost
	delay     func() time.Duration
	disk      func() time.Duration
	completed func(n *node, c protocol.Completion)
	recovered uint64 // the highest term that a master said it recovered
	stepped   *steps // of a script, which says what happens when; nil: time does
}

type node struct {
	w       *world
	id      view.MemberID
	disk    protocoltest.Disk
	founded bool
	boot    uint32
	life    uint64
	view    view.View
	journal *protocol.Journal
	p       *curp.Protocol
	batches []batch
	syncing bool
	shown   time.Duration // what its clock shows above virtual time
	ppm     int64
	paused  bool
	inbox   []func()
	handles uint64
	copied  bool // its disk was put back from a copy
}

type batch struct {
	protocol.Batch
	send     []protocol.Envelope
	complete []protocol.Completion
}

type event struct {
	at       time.Duration
	sequence uint64
	do       func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].sequence < e[j].sequence
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.sequence++
	heap.Push(&w.events, event{w.now + d, w.sequence, do})
}

// run lets virtual time pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// newWorld has members, of which 1 is the master and the next ones are backups, and as many witnesses, from 101 on,
// beside the backups.
func newWorld(t *testing.T, seed uint64, members, faults, witnesses int, options protocol.Sync) *world {
	return newWorldWith(t, nil, seed, members, faults, witnesses, options)
}

func newWorldWith(t *testing.T, s *steps, seed uint64, members, faults, witnesses int, options protocol.Sync) *world {
	w := &world{
		t: t, stepped: s, draw: rand.New(rand.NewPCG(seed, 7)), options: options,
		witnesses: map[view.MemberID]*witness{}, took: map[string]int{},
		cut: func(_, _ view.MemberID) bool { return false },
	}
	w.tuning.LogEntries = []int{0, 1, 4, 16}[seed%4]
	if s != nil {
		w.tuning.LogEntries = s.logEntries
	}
	w.delay = func() time.Duration { return time.Duration(1+w.draw.IntN(20)) * time.Millisecond }
	w.disk = func() time.Duration { return time.Duration(w.draw.IntN(4)) * time.Millisecond }
	w.view = view.View{Cluster: "test", Epoch: 1}
	p := view.Partition{Term: 1, Master: 1}
	for i := range members {
		id := view.MemberID(i + 1)
		w.view.Members = append(w.view.Members, view.Member{ID: id, Site: fmt.Sprint("site-", id)})
		w.nodes = append(w.nodes, &node{w: w, id: id, disk: protocoltest.Disk{}, founded: true})
		if i > 0 && i <= faults {
			p.Backups = append(p.Backups, id)
		}
	}
	for i := range max(witnesses, members) { // those above serve in later views
		id := view.MemberID(101 + i)
		at := w.view.Members[(i+1)%members]
		w.view.Witnesses = append(w.view.Witnesses, view.Witness{ID: id, Site: at.Site})
		w.witnesses[id] = &witness{w: w, lives: map[uint64]*life{}}
		if i < witnesses {
			p.Witnesses = append(p.Witnesses, id)
		}
	}
	w.view.Partitions = []view.Partition{p}
	w.begin()
	if s != nil {
		s.world = w
		s.completed = func(*node, protocol.Completion) {}
	}
	for _, n := range w.nodes {
		n.shown = time.Duration(w.draw.IntN(int(time.Hour)))
		n.ppm = w.draw.Int64N(2*protocol.DriftBound) - protocol.DriftBound
		if s != nil {
			n.shown, n.ppm = time.Second, 0
		}
		n.view = w.view
		n.start(false)
	}
	return w
}

// begin starts the lives of the newest view's witnesses.
func (w *world) begin() {
	p := w.view.Partitions[0]
	for _, id := range p.Witnesses {
		if x := w.witnesses[id]; x.lives[p.Term] == nil {
			x.lives[p.Term] = &life{}
		}
	}
}

// change makes the next view.
func (w *world) change(p view.Partition) {
	w.view.Epoch++
	w.view.Partitions = []view.Partition{p}
	if err := w.view.Validate(); err != nil {
		w.t.Fatal(err)
	}
	w.begin()
	w.logf("view %d: %+v", w.view.Epoch, p)
}

func (w *world) logf(format string, args ...any) {
	if w.trace.Len() < 1<<20 {
		fmt.Fprintf(&w.trace, "%v ", w.now)
		fmt.Fprintf(&w.trace, format+"\n", args...)
	}
}

func (n *node) clock() protocol.Instant {
	return protocol.Instant(n.shown + n.w.now + n.w.now*time.Duration(n.ppm)/1_000_000)
}

func (n *node) start(continued bool) {
	w := n.w
	n.boot++
	n.life++
	w.starts++
	n.paused, n.inbox, n.syncing = false, nil, false
	n.journal = protocol.NewJournal(n.disk)
	config := protocol.Config{
		Self: n.id, View: n.view, Boot: n.boot, Functions: register.NewRegistry(),
		Limits: register.DefaultLimits(), Retry: retry,
		Suspect: 5 * retry, Seed: uint64(n.id), Nonce: w.starts, Bootstrap: n.founded, Count: func(path string) {
			w.took[path]++
		},
		Sync:      w.options,
		Tuning:    w.tuning,
		Continued: continued && n.p != nil && !n.p.Doubted(), Undoubted: w.stepped != nil && !w.stepped.doubted,
	}
	// Others would take a new disk for an older copy of the one that is lost.
	config.Undoubted = config.Undoubted || !n.founded
	for _, m := range n.view.Members {
		if m.ID != n.id {
			config.Nearest = append(config.Nearest, m.ID)
		}
	}
	if continued && n.p != nil {
		config.Promised = n.p.Promised()
	}
	p, err := curp.Start(config, n.journal)
	if err != nil {
		w.t.Fatal(err)
	}
	n.p = p.(*curp.Protocol)
	n.tick(n.life)
}

func (n *node) tick(life uint64) {
	if n.life != life {
		return
	}
	n.turn(func() { n.p.Tick(n.clock()) })
	n.w.after(retry/4, func() { n.tick(life) })
}

// turn is a step of the protocol, which begins with the time; a member that is paused makes it later.
func (n *node) turn(step func()) {
	if n.p == nil {
		return
	}
	if n.paused {
		n.inbox = append(n.inbox, step)
		return
	}
	n.p.Tick(n.clock())
	step()
	n.ready()
}

func (n *node) resume() {
	if !n.paused {
		return
	}
	n.paused = false
	steps := n.inbox
	n.inbox = nil
	for _, step := range steps {
		n.turn(step)
	}
}

func (n *node) ready() {
	e := n.p.Ready()
	if why := (*protocol.Forgotten)(nil); errors.As(e.Fault, &why) && n.copied {
		n.crash()
		return
	}
	if e.Fault != nil {
		n.w.t.Fatalf("member %d: %v\n%s", n.id, e.Fault, n.w.trace.String())
	}
	n.release(e.Send, e.Complete)
	if s := n.p.PartitionStatus(); s.Serving {
		n.w.recovered = max(n.w.recovered, s.Recovered)
	}
	switch {
	case e.Persist.Sequence != 0 || len(n.batches) > 0:
		n.batches = append(n.batches, batch{e.Persist, e.SendAfterPersist, e.CompleteAfterPersist})
		n.sync()
	default:
		n.release(e.SendAfterPersist, e.CompleteAfterPersist)
	}
}

func (n *node) sync() {
	if n.syncing || len(n.batches) == 0 {
		return
	}
	if w := n.w; w.stepped != nil {
		if !w.stepped.manual {
			n.persist(len(n.batches))
		}
		return
	}
	n.syncing = true
	count, life := len(n.batches), n.life
	n.w.after(n.w.disk(), func() {
		if n.life == life {
			n.syncing = false
			n.persist(count)
			n.sync()
		}
	})
}

// persist makes a member's oldest batches durable.
func (n *node) persist(count int) {
	done := n.batches[:count]
	n.batches = slices.Clone(n.batches[count:])
	for _, b := range done {
		n.disk.Write(b.Batch)
		if b.Sequence != 0 {
			n.journal.Persisted(b.Sequence)
		}
	}
	for _, b := range done {
		n.release(b.send, b.complete)
	}
}

func (n *node) release(send []protocol.Envelope, complete []protocol.Completion) {
	w := n.w
	for _, e := range send {
		w.post(n.id, e.To, e.Message)
	}
	for _, c := range complete {
		w.logf("%d completes %d: %s %s", n.id, c.Handle, c.Result.Status, short(c.Result.Value))
		w.completed(n, c)
	}
}

func (w *world) post(from, to view.MemberID, m *peerv1.Message) {
	if w.stepped != nil {
		w.stepped.post(packet{from, to, m})
		return
	}
	w.logf("%d -> %d %s", from, to, brief(m))
	if w.cut(from, to) {
		return
	}
	w.after(w.delay(), func() { w.deliver(from, to, m) })
}

func (w *world) deliver(from, to view.MemberID, m *peerv1.Message) {
	if x := w.witnesses[to]; x != nil {
		if reply := x.receive(m.Witness); reply != nil {
			reply.Op, reply.Partition, reply.Term = m.Witness.Op, m.Witness.Partition, m.Witness.Term
			w.post(to, from, &peerv1.Message{Kind: peerv1.Kind_WITNESS, Witness: reply})
		}
		return
	}
	n := w.nodes[to-1]
	n.turn(func() { n.p.Receive(from, m) })
}

// crash stops a member; what is not durable is lost.
func (n *node) crash() {
	n.w.logf("%d crashes", n.id)
	n.p = nil
	n.life++
	n.batches, n.inbox, n.paused, n.syncing = nil, nil, false, false
}

// configure has a member take on the newest view, in its process if it has one.
func (n *node) configure() {
	if n.view.Epoch == n.w.view.Epoch && n.p != nil || n.paused {
		return
	}
	n.view = n.w.view
	if n.p == nil {
		n.start(false)
		return
	}
	n.persist(len(n.batches))
	unfinished := n.p.Unfinished()
	n.start(true)
	for _, r := range unfinished {
		n.p.Submit(r)
	}
	n.ready()
}

// witness is a naive one.
type witness struct {
	w     *world
	down  bool
	lives map[uint64]*life // by term
}

type life struct {
	saved  []*saved // in the order in which they came
	frozen bool
}

type saved struct {
	*witnessv1.Request
	age int
}

// is reports whether a request has a key's hash and an id.
func (s *saved) is(hash uint64, id *witnessv1.ID) bool {
	return s.Hashes[0] == hash && s.Id.Session == id.GetSession() && s.Id.Number == id.GetNumber()
}

// last is the one of a hash that was saved last.
func (l *life) last(hash uint64) (last *saved) {
	for _, s := range l.saved {
		if s.Hashes[0] == hash {
			last = s
		}
	}
	return last
}

func (x *witness) receive(m *witnessv1.Message) *witnessv1.Message {
	l := x.lives[m.Term]
	if x.down {
		return nil
	}
	if l == nil {
		return &witnessv1.Message{Kind: m.Kind + 1, Refused: "no life"}
	}
	reply := &witnessv1.Message{Kind: m.Kind + 1}
	switch m.Kind {
	case witnessv1.Kind_RECORD:
		hash := m.Hashes[0]
		have := slices.ContainsFunc(l.saved, func(s *saved) bool { return s.is(hash, m.Id) })
		last := l.last(hash)
		reply.Accepted = !l.frozen && (have || last == nil || last.is(hash, m.Follows))
		if reply.Accepted && !have {
			l.saved = append(l.saved, &saved{&witnessv1.Request{Id: m.Id, Hashes: m.Hashes, Request: m.Request}, 0})
		}
	case witnessv1.Kind_CHECK:
		reply.Accepted = !l.frozen && l.last(m.Hashes[0]) == nil
	case witnessv1.Kind_GC:
		if l.frozen {
			reply.Refused = "frozen"
			break
		}
		reply.Accepted = true
		for _, d := range m.Drops {
			l.saved = slices.DeleteFunc(l.saved, func(s *saved) bool { return s.is(d.Hash, d.Id) })
		}
		for _, s := range l.saved {
			if s.age++; s.age >= 3 {
				reply.Requests = append(reply.Requests, s.Request)
			}
		}
	case witnessv1.Kind_RECOVERY_DATA:
		l.frozen, reply.Accepted = true, true
		all := slices.Clone(l.saved) // those of several keys in any order
		slices.SortStableFunc(all, func(a, b *saved) int { return cmp.Compare(a.Hashes[0], b.Hashes[0]) })
		next := min(m.Offset, uint64(len(all)))
		for _, s := range all[next:min(next+2, uint64(len(all)))] {
			reply.Requests = append(reply.Requests, s.Request)
		}
		reply.Last = int(next)+len(reply.Requests) == len(all)
	}
	return reply
}

func brief(m *peerv1.Message) string {
	return describe(m, func(session uint64) string { return fmt.Sprint(session) })
}
