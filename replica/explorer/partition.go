package explorer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/core"
)

// A protocol with masters is explored in one partition: member 1 is its master, member 2 its backup, the others are
// learners, and a witness with a disk of its own, at the site of the backup, is the process behind the members. A
// takeover is a failover: whoever decides takes the master for lost, and records the view in which the backup is the
// master. Nobody knows of that view until he is told, which is a step of its own for each: a member goes on in the view
// with what it had, and the witness begins a life. The master lives on, as one does that others only do not hear.
//
// Leases rest on clocks that run alike, so all clocks move together here, and those of processes that are down. Times
// that go from one member to another are numbers to everybody else, so local states at other times are others.
//
// Nobody waits for a learner, and no client sees what it has of the log. So what a master has its learners follow does
// not arrive before everything does; else each of them would make tenfold as many states.

// placement is that of the partition.
var placement = membership.Placement{Partitions: 1, Faults: 1, Dedicated: true}

// leastPartitioned is of how many members there must be a quorum without the master.
const leastPartitioned = 3

// sync is how the master syncs. A lease lasts for as long as the time of a timeout.
var sync = protocol.Sync{Lease: retry}

// views are those of the scope: that of the beginning, and those that takeovers record, in their order.
func (s *Scope) views() ([]view.View, error) {
	first := view.View{Cluster: "explore", Epoch: 1}
	for i := range s.Members {
		id := view.MemberID(i + 1)
		first.Members = append(first.Members, view.Member{ID: id, Site: fmt.Sprint("s", id)})
	}
	if !s.Partitioned {
		return []view.View{first}, nil
	}
	if s.Members < leastPartitioned {
		return nil, fmt.Errorf("%d members; with masters, give at least %d: a quorum must do without the master",
			s.Members, leastPartitioned)
	}
	witness := view.Witness{
		ID: view.MemberID(s.Members + 1), Site: first.Members[1].Site, Address: "witness", Disk: "first",
	}
	first, err := membership.Place(first, []view.Witness{witness}, placement)
	if err != nil {
		return nil, err
	}
	d := membership.Decide(withoutMaster(first))
	if len(d.Changes) != 1 || d.Changes[0].Kind != membership.MasterReplaced {
		return nil, fmt.Errorf("it is not decided that another member is the master: %q",
			slices.Concat(d.Lines(), d.Waits))
	}
	return []view.View{first, d.Next}, nil
}

// learns reports whether a message is what a master has a learner follow.
func (p *process) learns(e *protocol.Envelope) bool {
	if e.Message.Kind != peerv1.Kind_SYNC || !p.known.scope.Partitioned {
		return false
	}
	return !slices.Contains(p.known.views[p.view].Partitions[0].Backups, e.To)
}

// withoutMaster is what a failover is decided from: everybody holds the view and hears everybody, but for the master.
func withoutMaster(v view.View) membership.Snapshot {
	p := v.Partitions[0]
	var heard []view.MemberID
	for _, m := range v.Members {
		if m.ID != p.Master {
			heard = append(heard, m.ID)
		}
	}
	for _, w := range v.Witnesses {
		heard = append(heard, w.ID)
	}
	s := membership.Snapshot{View: v, Placement: placement}
	for _, m := range v.Members {
		s.Members = append(s.Members, membership.MemberReport{
			Member: m.ID, Digest: v.Digest(), Epoch: v.Epoch, Hears: heard,
			Partitions: []membership.Part{{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}},
		})
	}
	return s
}

// witness is the witness of the partition as a process like a member: its log are records under numbers.
type witness struct {
	core    *core.Witness     `digest:"-"`
	journal *protocol.Journal `digest:"-"`
	logged  uint64            `digest:"-"` // records
	held    [][]byte          // what the core knows, as records
}

// startWitness resumes the witness of a view from its log.
func startWitness(c protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
	entry, _ := c.View.Witness(c.Self)
	made, err := core.New(core.Config{Slots: 4, Disk: entry.Disk})
	w := &witness{core: made, journal: journal}
	journal.Scan(nil, func(_, record []byte) bool {
		err = errors.Join(err, made.Restore(record))
		w.logged++
		return true
	})
	w.order(c.View)
	return w, err
}

// order has the witness begin the life of a view's term, unless it has begun it before: it is ordered again and again.
func (w *witness) order(v view.View) {
	w.core.Receive(core.Manager, &witnessv1.Message{
		Kind: witnessv1.Kind_START, Term: v.Partitions[0].Term, Disk: v.Witnesses[0].Disk,
	})
}

// Receive implements protocol.Machine.
func (w *witness) Receive(from view.MemberID, m *peerv1.Message) {
	w.core.Receive(uint32(from), m.Witness)
}

// Ready implements protocol.Machine.
func (w *witness) Ready() protocol.Effects {
	e := w.core.Ready()
	for _, record := range e.Persist {
		w.journal.Put(binary.BigEndian.AppendUint64(nil, w.logged), slices.Clone(record))
		w.logged++
	}
	w.held = w.core.Snapshot()
	return protocol.Effects{Send: answers(e.Send), Persist: w.journal.Take(), SendAfterPersist: answers(e.After)}
}

func answers(all []core.Envelope) (sent []protocol.Envelope) {
	for _, e := range all {
		m := &peerv1.Message{Kind: peerv1.Kind_WITNESS, Shard: e.Message.Partition, Witness: e.Message}
		sent = append(sent, protocol.Envelope{To: view.MemberID(e.To), Message: m})
	}
	return sent
}

// Submit implements protocol.Machine: nobody submits anything to a witness.
func (*witness) Submit(protocol.Request) {}

// Tick implements protocol.Machine: a witness has no clock.
func (*witness) Tick(protocol.Instant) {}

// Pace implements protocol.Machine.
func (*witness) Pace(_, _ time.Duration) {}

// Pending implements protocol.Machine.
func (*witness) Pending() int { return 0 }

// Unfinished implements protocol.Machine.
func (*witness) Unfinished() []protocol.Request { return nil }

// Doubted implements protocol.Protocol.
func (*witness) Doubted() bool { return false }
