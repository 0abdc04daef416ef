package curp

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// member is what the parts of a Protocol share: the frame of all protocols, the member's copy of the partition, its
// place in the view, and what its disk counts for.
type member struct {
	*base.Base
	store     *store.Store
	disks     *position.Disks // how far the disks of the view's members are
	partition view.Partition
	index     int    // of the partition in the view
	digest    uint64 // of the view
	role      protocol.Role

	known   bool   // the disk had a part in the partition when this process began
	empty   bool   // the disk is new, and nothing was ever promised on it
	givenUp bool   // what the disk has is of before the partition was given up: it goes when the term begins
	lost    string // why the disk can't fill the role; empty: it can

	ticked   bool
	started  protocol.Instant // the first Tick
	promised protocol.Instant // until then leases may last that this member granted, or delegated

	loop []*peerv1.Message // from this member to itself
}

func newMember(config protocol.Config, journal *protocol.Journal) (*member, error) {
	config.Sync = config.Sync.WithDefaults()
	b := base.New("curp", config, journal, quorum.FirstDisks(config.View))
	// The high half of a question's number names this process: answers to an earlier one count for nothing.
	b.NumberFrom(mix(config.Nonce, uint64(config.Self)) &^ (1<<32 - 1))
	m := &member{Base: b, partition: config.View.Partitions[config.Shard], index: config.Shard}
	m.role = roleOf(m.partition, config.Self)
	m.digest = digestOf(config.View)
	var err error
	m.store, m.known, err = store.New(m.partition.Term, &b.Config, &b.Outbox)
	return m, err
}

func roleOf(p view.Partition, id view.MemberID) protocol.Role {
	switch {
	case p.Master == id:
		return protocol.Master
	case slices.Contains(p.Backups, id):
		return protocol.Backup
	}
	return protocol.Learner
}

// digestOf is the digest of a view as messages carry it.
func digestOf(v view.View) uint64 {
	n, err := strconv.ParseUint(v.Digest(), 16, 64)
	if err != nil {
		panic(err) // of 16 hexadecimal digits
	}
	return n
}

// mix makes one number of two.
func mix(a, b uint64) uint64 {
	draws := base.Draws(a*0x9e3779b97f4a7c15 + b)
	draws = base.Draws(draws.Next())
	return draws.Next()
}

// load reads what the disk has of the partition, unless that is of before the partition was given up.
func (m *member) load() {
	if own := m.store.Own; m.known && m.partition.Empty && own.Term < m.partition.Term {
		m.givenUp, m.store.Own = true, &peerv1.PartitionRecord{Granted: own.Granted, Shards: own.Shards}
		m.noteNewDisk()
	} else {
		m.store.Load()
	}
	m.store.Commit = min(m.store.Own.Commit, m.store.Last())
}

// enlist readies the disk for the member's role, and reports whether it can fill it.
func (m *member) enlist() bool {
	bootstrap, own := m.Config.Bootstrap, m.store.Own
	nothingPromised := m.known || m.role == protocol.Learner || bootstrap
	switch {
	case !nothingPromised:
		m.lose(fmt.Sprintf("its disk is empty, and it is a %v of term %d", m.role, m.partition.Term))
		return false
	case !m.known && !bootstrap:
		m.noteNewDisk()
	}
	alone := len(own.Backups) == 0 && own.Broken < own.Recovered
	if alone && !m.Config.Continued {
		// Its process ended, whatever its part is now: some of what it answered for may not be on its disk (section
		// 5.4).
		own.Broken = own.Recovered
		m.store.Note()
	}
	return true
}

// firstTick counts leases from now on. Those of a process before this one may last.
func (m *member) firstTick() {
	m.ticked, m.started = true, m.Now
	if m.promised = m.Config.Promised; m.promised == 0 {
		m.promised = m.Now.Add(m.Config.Sync.Lease)
	}
}

// Promised implements protocol.Partitioned: it is until when leases may last that this member granted, or delegated.
func (m *member) Promised() protocol.Instant {
	if !m.ticked {
		return m.Config.Promised
	}
	return max(m.promised, 1)
}

// active reports whether the member's disk can fill its role in the partition, as far as that is known.
func (m *member) active() bool { return m.lost == "" && !m.Doubted() }

// Doubted implements protocol.Protocol.
func (m *member) Doubted() bool { return m.disks.Asking() }

// speculative reports whether the master answers before its own disk has the operation: it is alone, and the witnesses
// hide the disk (section 5.4).
func (m *member) speculative() bool {
	return len(m.partition.Backups) == 0 && len(m.partition.Witnesses) > 0
}

// message begins a message to another member of the partition.
func (m *member) message(kind peerv1.Kind, op uint64, c *peerv1.Curp) *peerv1.Message {
	c.Term, c.View = m.partition.Term, m.digest
	return &peerv1.Message{Kind: kind, Op: op, Epoch: m.Config.View.Epoch, Curp: c}
}

// ofThisTerm reports whether a message is of the view's term of the partition.
func (m *member) ofThisTerm(msg *peerv1.Message) bool {
	return msg.Epoch == m.Config.View.Epoch && msg.Curp.GetTerm() == m.partition.Term &&
		msg.Curp.GetView() == m.digest
}

func (m *member) send(to view.MemberID, msg *peerv1.Message) { m.sendWhen(true, to, msg) }

// sendWhen sends at once if what the message tells of is durable, and otherwise when everything that was put into the
// journal so far is. What goes to this member itself goes at once: its client waits (coordinator.finish). If nothing
// waits for the disk, the message does not either: on a slow one, leases would end while messages about them wait for
// writes of other partitions.
func (m *member) sendWhen(durable bool, to view.MemberID, msg *peerv1.Message) {
	if to == m.Config.Self {
		m.loop = append(m.loop, msg)
		return
	}
	m.SendWhen(durable || m.store.Durable(), to, msg)
}

// ask sends a question to a witness.
func (m *member) ask(witness view.MemberID, w *witnessv1.Message) {
	w.Partition = uint32(m.index)
	m.Send(witness, &peerv1.Message{Kind: peerv1.Kind_WITNESS, Epoch: m.Config.View.Epoch, Witness: w})
}

// shorter is what a lease of that duration is worth to its holder: two clocks may differ by twice the bound.
func shorter(d time.Duration) time.Duration {
	return d - d*2*protocol.DriftBound/1_000_000
}

// worth is what a lease is worth here that is said to last for so many nanoseconds: none lasts longer than leases do.
func (m *member) worth(nanoseconds int64) time.Duration {
	return shorter(min(time.Duration(nanoseconds), m.Config.Sync.Lease))
}

// What the record of the member's part says of terms.

// entered reports whether the member has taken part in the view's term before.
func (m *member) entered() bool { return m.store.Own.Term == m.partition.Term }

// enter notes durably that the member takes part in the view's term.
func (m *member) enter() {
	m.store.Own.Term = m.partition.Term
	m.store.Own.Granted = m.store.Own.Granted || m.role == protocol.Backup
	m.store.Note()
}

// noteNewDisk notes that this disk has no part in what the member did in earlier terms, and can't say of them that they
// never served.
func (m *member) noteNewDisk() {
	m.store.Own.Born, m.store.Own.NotedTerm = m.partition.Term, m.partition.Term-1
}

func (m *member) lose(why string) {
	m.Took(pathMemberLost)
	m.lost = why
}

// dropGivenUp drops what the disk has of before the partition was given up.
func (m *member) dropGivenUp() {
	if m.givenUp {
		m.givenUp = false
		m.store.Wipe()
	}
}

// answeredHere reports whether this member needs no witness to know what completed in a former term: it was the master,
// and its disk has kept all that it answered for. If it never served in that term, it answered for nothing.
func (m *member) answeredHere(f view.Former) bool {
	return f.Master == m.Config.Self && f.Term > m.store.Own.Broken
}

// recovered reports whether all that is to be recovered from a former term is here: the master of a later one, perhaps
// this member, had replayed it, and synced that to it. What witnesses of the term saved beside that has not completed,
// and must stay out of it: the later term may have told of states without it.
func (m *member) recovered(f view.Former) bool { return f.Term < m.store.Own.WholeTerm }

// testifies reports whether what the disk has noted of terms counts: an empty one has forgotten it, and an older copy
// has noted less. One that is lost for its part, such as for a state that it was still copying, has forgotten nothing.
func (m *member) testifies() bool { return !m.Doubted() && (m.known || m.lost == "") }

// complete reports whether state and log together are those of the master, up to the log's end.
func (m *member) complete() bool {
	return !m.store.Own.Copying && m.store.Last() >= m.store.Own.Through
}
