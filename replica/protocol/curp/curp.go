// Package curp is CURP (NSDI '19): a master orders and executes operations, its client saves them at witnesses at the
// same time, and an update whose key no unfinished one touches completes in one round trip, before the backups have it.
//
// A Protocol is one member's part in one partition, the shard of its index in view.Partitions. It is the client of the
// operations that are submitted here (client.go, section 3.2.1), and by the view master (master.go, sync.go), backup or
// learner (follower.go, copy.go), all over the member's copy of the partition (state.go, and log.go, records.go,
// session.go). recover.go is the recovery of section 3.3; the witness is another package.
//
// What a world has to do beside the contract of protocol.Protocol and protocol.Partitioned:
//   - Envelopes to a witness's ID carry a Message of kind WITNESS; its answers come by Receive from that ID.
//   - Tick before Receive, too, as before Submit: a lease is judged by the last reading of the clock, which must not be
//     older than the question (a process that was stopped for a while goes on with messages that wait).
//   - A member of a new view is started anew, with Config.Continued if the process went on: a master without backups
//     has to recover from a witness otherwise. Messages of other epochs of the view are dropped here.
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
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part in one partition. It implements protocol.Protocol.
type Protocol struct {
	base.Outbox
	config    protocol.Config
	mistakes  Mistakes
	partition view.Partition
	digest    uint64 // of the view
	index     int
	role      protocol.Role
	now       protocol.Instant
	started   protocol.Instant // the first Tick
	ticked    bool
	promised  protocol.Instant // until then leases may last that this member granted, or handed on
	lost      string           // why the role that the view gives can't be filled
	known     bool             // the disk had a part when this process began
	empty     bool             // and nothing was ever promised on it
	disks     *position.Disks
	// When others are told again of a witness that has started; never ranged over.
	alarmed map[view.MemberID]protocol.Instant
	aside   protocol.Effects // of what is about disks
	// What the disk has is of before the partition was given up: it goes when the term begins.
	stale bool

	store  *store.Store
	client client
	// Until the view is known to be held, a member takes no part in a new term; of its master.
	hold    *hold
	holders []view.MemberID // other members that have said that they hold this view
	// And the highest term of which those who know ever had all that was to be recovered; never ranged over.
	noted    map[view.MemberID]uint64
	master           // of a master
	follower follows // of a backup or learner

	loop []*peerv1.Message // from this member to itself
}

var (
	_ protocol.Protocol    = (*Protocol)(nil)
	_ protocol.Partitioned = (*Protocol)(nil)
)

// Start begins or resumes a member's part in a partition, the one of index config.Shard in config.View.Partitions, from
// its journal. Every shard of a member has a journal of its own.
func Start(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
	p, err := StartWith(config, journal, Mistakes{})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// StartWith is Start with mistakes, for tests.
func StartWith(config protocol.Config, journal *protocol.Journal, mistakes Mistakes) (*Protocol, error) {
	partition := config.Shard
	if err := config.View.Validate(); err != nil {
		return nil, err
	}
	if config.View.Index(config.Self) < 0 {
		return nil, fmt.Errorf("member %d is not in the view of epoch %d", config.Self, config.View.Epoch)
	}
	if partition < 0 || partition >= len(config.View.Partitions) {
		return nil, fmt.Errorf("the view of epoch %d has no partition %d; it has %d", config.View.Epoch, partition, len(config.View.Partitions))
	}
	p := &Protocol{
		config: config, partition: config.View.Partitions[partition], index: partition,
		Outbox: base.NewOutbox("curp", mix(config.Nonce, uint64(config.Self))&^(1<<32-1), journal),
		noted:  map[view.MemberID]uint64{},
	}
	p.config.Sync = config.Sync.WithDefaults()
	p.role = roleOf(p.partition, config.Self)
	p.digest = digestOf(config.View)
	p.mistakes = mistakes
	known, err := false, error(nil)
	p.store, known, err = store.New(p.partition.Term, &p.config, &p.Outbox, store.Mistakes{
		HonourAcks: mistakes.HonourAcks, ForgetWatermark: mistakes.ForgetWatermark,
		ForgetDuplicates: mistakes.ForgetDuplicates, ExpireInReplay: mistakes.ExpireInReplay,
	})
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", p.index, err)
	}
	p.startClient()
	p.known = known
	if err := p.startDisks(known); err != nil {
		return nil, fmt.Errorf("partition %d: %w", p.index, err)
	}
	if known && p.partition.Empty && p.store.Own.Term < p.partition.Term {
		p.stale, p.store.Own = true, &peerv1.PartitionRecord{Granted: p.store.Own.Granted}
		p.beBorn()
	} else {
		p.store.Load()
	}
	p.store.Commit = min(p.store.Own.Commit, p.store.Last())
	if !p.disks.Asking() {
		p.takePart(known)
	}
	return p, p.Err()
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

// takePart begins the role that the view gives, if the disk can fill it: one that is lost has forgotten what it
// promised.
func (p *Protocol) takePart(known bool) {
	if !known {
		empty := p.role == protocol.Learner || p.config.Bootstrap // nothing was ever promised on this disk
		switch {
		case !empty && !p.mistakes.ServeAfterLoss:
			p.lose("its disk is empty, and it is a " + p.role.String() + " of term " + fmt.Sprint(p.partition.Term))
			return
		case !p.config.Bootstrap:
			p.beBorn()
		}
	}
	alone := len(p.store.Own.Backups) == 0 && p.store.Own.Broken < p.store.Own.Recovered
	if alone && !p.config.Continued && !p.mistakes.RestartWithoutReplay {
		// Its process ended, whatever its part is now: some of what it answered for may not be on its disk (section 5.4).
		p.store.Own.Broken = p.store.Own.Recovered
		p.store.Note()
	}
	if p.role == protocol.Master {
		p.takeMaster()
	} else {
		p.takeFollower()
	}
}

// beBorn notes that this disk has no part in what the member did in earlier terms, and can't say of them that they
// never served.
func (p *Protocol) beBorn() {
	p.store.Own.Born, p.store.Own.NotedTerm = p.partition.Term, p.partition.Term-1
}

func (p *Protocol) lose(why string) {
	p.config.Took("member.lost")
	p.lost = why
}

// dropStale drops what the disk has of before the partition was given up.
func (p *Protocol) dropStale() {
	if p.stale {
		p.stale = false
		p.store.Wipe()
	}
}

// enter notes durably that the member takes part in the view's term.
func (p *Protocol) enter() {
	p.store.Own.Term = p.partition.Term
	p.store.Own.Granted = p.store.Own.Granted || p.role == protocol.Backup
	p.store.Note()
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	p.submit(r)
	p.drain()
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	err := bounds.Message(m)
	if err == nil {
		err = store.Check(m.Curp)
	}
	if err != nil {
		p.config.Took("message.refused")
		p.Refuse(from, err)
		return // nobody can have counted so far, or made such a record: nothing could come after it
	}
	if m.Kind == peerv1.Kind_WITNESS {
		if w := m.Witness; w != nil && w.Partition == uint32(p.index) {
			p.onWitness(from, w)
		}
		p.drain()
		return
	}
	if p.onPosition(from, m) {
		p.drain()
		return
	}
	stale := m.Epoch != p.config.View.Epoch || m.Curp.GetTerm() != p.partition.Term || m.Curp.GetView() != p.digest && !p.mistakes.AnyView
	if m.Curp == nil || stale && !(p.mistakes.IgnoreTerm && m.Kind == peerv1.Kind_UPDATE) {
		return
	}
	p.receive(from, m)
	p.drain()
}

func (p *Protocol) receive(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_UPDATE_REPLY:
		p.onUpdateReply(m)
	case peerv1.Kind_MASTER_READ_REPLY:
		p.onReadReply(m)
	case peerv1.Kind_UPDATE:
		p.onUpdate(from, m)
	case peerv1.Kind_MASTER_READ:
		p.onRead(from, m)
	case peerv1.Kind_SYNC_REPLY:
		p.onSyncReply(from, m)
	case peerv1.Kind_COPY:
		p.onCopy(from, m)
	case peerv1.Kind_SYNC:
		p.onSync(from, m)
	case peerv1.Kind_COPY_PAGE:
		p.onCopyPage(from, m)
	case peerv1.Kind_HOLD:
		if p.disks.Asking() {
			return // a disk that has forgotten is no record of views
		}
		p.send(from, p.held(m.Op))
	case peerv1.Kind_HOLD_REPLY:
		p.onHoldReply(from, m)
	}
}

// onWitness handles what a witness answers: to a client, to a master, or to one that recovers.
func (p *Protocol) onWitness(from view.MemberID, w *witnessv1.Message) {
	p.hearWitness(from, w)
	switch w.Kind {
	case witnessv1.Kind_RECORD_REPLY:
		p.onRecordReply(from, w)
	case witnessv1.Kind_CHECK_REPLY:
		p.onCheckReply(from, w)
	case witnessv1.Kind_GC_REPLY:
		p.onGCReply(from, w)
	case witnessv1.Kind_RECOVERY_DATA_REPLY:
		p.onRecoveryData(from, w)
	}
}

// Tick implements protocol.Machine.
func (p *Protocol) Tick(now protocol.Instant) {
	p.now = now
	if !p.ticked {
		p.ticked, p.started = true, now
		if p.promised = p.config.Promised; p.promised == 0 {
			p.promised = now.Add(p.config.Sync.Lease) // what a process before this one granted
		} else if p.mistakes.ForgetPromise {
			p.promised = now
		}
		if !p.disks.Asking() {
			p.present()
		}
	}
	p.tickDisks()
	p.tickClient()
	if p.active() {
		if p.role == protocol.Master {
			p.tickMaster()
		} else {
			p.tickFollower()
		}
	}
	p.drain()
}

// active reports whether the member's disk can fill its role in the partition, as far as that is known.
func (p *Protocol) active() bool { return p.lost == "" && !p.disks.Asking() }

// drain delivers what the member sent to itself.
func (p *Protocol) drain() {
	for len(p.loop) > 0 {
		m := p.loop[0]
		p.loop = p.loop[1:]
		p.receive(p.config.Self, m)
	}
	p.loop = nil
}

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	p.store.Save()
	for _, envelope := range p.aside.Send {
		envelope.Message.Epoch = p.config.View.Epoch
	}
	if !p.empty && !p.disks.Asking() {
		p.disks.Note()
	}
	e := p.Outbox.Ready()
	e.Send = append(e.Send, p.aside.Send...)
	if p.aside.Fault != nil {
		e.Fault = p.aside.Fault
	}
	p.aside = protocol.Effects{}
	if e.Fault != nil {
		return protocol.Effects{Fault: e.Fault} // nothing of a broken turn may last or leave
	}
	p.disks.Add(&e.Persist)
	p.stamp(&e)
	return e
}

// stamp says in messages how far this disk is, unless it is none that counts.
func (p *Protocol) stamp(e *protocol.Effects) {
	if p.empty {
		return
	}
	durable, taken := p.Journal.Counted()
	for _, envelope := range e.Send {
		p.disks.Stamp(envelope.Message, durable)
	}
	for _, envelope := range e.SendAfterPersist {
		p.disks.Stamp(envelope.Message, taken)
	}
}

// Pace implements protocol.Machine.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
}

// message begins a message to another member of the partition.
func (p *Protocol) message(kind peerv1.Kind, op uint64, c *peerv1.Curp) *peerv1.Message {
	c.Term, c.View = p.partition.Term, p.digest
	return &peerv1.Message{Kind: kind, Op: op, Epoch: p.config.View.Epoch, Curp: c}
}

func (p *Protocol) send(to view.MemberID, m *peerv1.Message) {
	if to == p.config.Self {
		p.loop = append(p.loop, m)
		return
	}
	p.Send(to, m)
}

// sendDurably sends once everything that was put into the journal so far is durable. What goes to this member itself
// goes at once: the client waits (complete).
func (p *Protocol) sendDurably(to view.MemberID, m *peerv1.Message) {
	if to == p.config.Self {
		p.loop = append(p.loop, m)
		return
	}
	p.SendDurably(to, m)
}

// ask sends a question to a witness.
func (p *Protocol) ask(witness view.MemberID, w *witnessv1.Message) {
	w.Partition = uint32(p.index)
	p.Send(witness, &peerv1.Message{Kind: peerv1.Kind_WITNESS, Epoch: p.config.View.Epoch, Witness: w})
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
	z := a*0x9e3779b97f4a7c15 + b
	for range 2 {
		draws := base.Draws(z)
		z = draws.Next()
	}
	return z
}
