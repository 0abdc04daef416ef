package bounds_test

import (
	"maps"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// world is three members of any protocol of the catalog, whose messages arrive at once, and whose batches are durable
// at once.
type world struct {
	t       testing.TB
	entry   catalog.Entry
	view    view.View
	members [3]protocol.Protocol
	logs    [3]*protocol.Journal
	disks   [3]protocoltest.Disk
	boots   [3]uint32
	faults  [3]error // why a member does not run
	refused []protocol.Refused
	ended   map[uint64]register.Result
	handle  uint64
	number  uint64 // of rmws
	now     protocol.Instant
	waiting []sent
	heard   func(sent) *peerv1.Message // what arrives in its place, or nil; if there is no function, what was sent
}

type sent struct {
	from, to view.MemberID
	message  *peerv1.Message
}

func found(t testing.TB, name string) *world { return foundAt(t, name, 0) }

// foundAt founds a cluster at a time of its members' clocks.
func foundAt(t testing.TB, name string, now time.Duration) *world {
	entry, err := catalog.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, entry: entry, ended: map[uint64]register.Result{}, now: protocol.Instant(now)}
	w.view = view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	if entry.Partitioned != nil {
		w.view.Partitions = []view.Partition{{Term: 1, Master: 1, Backups: []view.MemberID{2}}}
	}
	for i := range w.members {
		w.disks[i] = protocoltest.Disk{}
		w.start(i, true)
	}
	w.pass(8)
	return w
}

// start starts a member on its disk, which is not doubted.
func (w *world) start(i int, bootstrap bool) {
	w.boots[i]++
	w.logs[i] = protocol.NewJournal(w.disks[i])
	tuning := protocol.Tuning{}
	if len(w.view.Partitions) > 0 {
		tuning.LogEntries = 1 // of CURP, whose state on disk has no records otherwise that a log has
	}
	p, err := w.entry.Start(protocol.Config{
		Tuning: tuning,
		Self:   view.MemberID(i + 1), View: w.view, Boot: w.boots[i], Functions: register.NewRegistry(),
		Limits: register.DefaultLimits(),
		Retry:  time.Second, Suspect: 4 * time.Second, Bootstrap: bootstrap, Continued: !bootstrap,
		Nonce: uint64(w.boots[i])*10 + uint64(i) + 1,
		Seed:  uint64(i + 1), Nearest: []view.MemberID{view.MemberID((i+1)%3 + 1), view.MemberID((i+2)%3 + 1)},
	}, w.logs[i])
	w.members[i], w.faults[i] = p, err
	if err == nil {
		p.Tick(w.now)
		w.turn(i)
	}
}

// turn takes what a member asks for.
func (w *world) turn(i int) {
	if w.faults[i] != nil {
		return
	}
	e := w.members[i].Ready()
	if w.faults[i] = e.Fault; e.Fault != nil {
		return
	}
	w.refused = append(w.refused, e.Refused...)
	w.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		w.logs[i].Persisted(e.Persist.Sequence)
	}
	for _, all := range [][]protocol.Completion{e.Complete, e.CompleteAfterPersist} {
		for _, done := range all {
			w.ended[done.Handle] = done.Result
		}
	}
	for _, all := range [][]protocol.Envelope{e.Send, e.SendAfterPersist} {
		for _, n := range all {
			w.waiting = append(w.waiting, sent{view.MemberID(i + 1), n.To, n.Message})
		}
	}
}

// settle delivers what is under way, as far as it comes to an end.
func (w *world) settle() {
	for range 4096 {
		if len(w.waiting) == 0 {
			return
		}
		m := w.waiting[0]
		w.waiting = w.waiting[1:]
		if w.heard != nil {
			if m.message = w.heard(m); m.message == nil {
				continue
			}
		}
		w.deliver(m)
	}
	w.waiting = nil
}

func (w *world) deliver(m sent) {
	if i := int(m.to) - 1; w.faults[i] == nil {
		w.members[i].Receive(m.from, m.message)
		w.turn(i)
	}
}

// pass lets time pass, in quarters of a second.
func (w *world) pass(quarters int) {
	for range quarters {
		w.now = w.now.Add(time.Second / 4)
		for i := range w.members {
			if w.faults[i] == nil {
				w.members[i].Tick(w.now)
				w.turn(i)
			}
		}
		w.settle()
	}
}

// do is the result of an operation at a member, at its deadline at the latest.
func (w *world) do(i int, op register.Operation) register.Result {
	if w.faults[i] != nil {
		return register.Result{}
	}
	w.handle++
	w.members[i].Submit(protocol.Request{Handle: w.handle, Operation: op, Deadline: w.now.Add(2 * time.Second)})
	w.turn(i)
	w.settle()
	for range 12 {
		if _, over := w.ended[w.handle]; over {
			break
		}
		w.pass(1)
	}
	return w.ended[w.handle]
}

// use has each of some members read, write and, twice under one name, increment; or, where only that is done, add to a
// set.
func (w *world) use(members ...int) {
	for _, i := range members {
		if w.entry.Name() == "rmwpaxosatleastonce" {
			w.do(i, register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{
				Function: register.AddMember, Args: [][]byte{{'0' + byte(w.handle%10)}}, MaxValueBytes: 100,
			}})
			continue
		}
		w.do(i, register.Operation{Kind: register.Read, Key: "k"})
		w.do(i, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("1")})
		w.increment(i, w.number+1)
		w.increment(i, w.number)
	}
}

func (w *world) increment(i int, number uint64) {
	w.number = number
	w.do(i, register.Operation{
		Kind: register.RMW, Key: "k",
		ID:   register.ID{Session: 7, Number: number, FirstIncomplete: max(number, 1) - 1, IssuedAt: 1},
		Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}, MaxValueBytes: 100},
	})
}

// copyOf is a disk as it is now.
func copyOf(d protocoltest.Disk) protocoltest.Disk { return maps.Clone(d) }
