// Package curp is CURP (NSDI '19): a master orders and executes operations, its client saves them at witnesses at the
// same time, and an update whose key no unfinished one touches completes in one round trip, before the backups have it.
//
// A Protocol is one member's part in one partition, the shard of its index in view.Partitions. It is put together of
// parts that share a member (member.go), with its copy of the partition (package store):
//
//   - the coordinator is the client of the operations that are submitted here (section 3.2.1): client.go, with
//     update.go and read.go, and what both need in operation.go;
//   - the term of the view begins at its master with a confirmation of the view, and with a recovery (section 3.3):
//     term.go, recover.go, confirm.go;
//   - the master serves clients (serve.go, master.go) over a replication to its backups (replicate.go) and a collection
//     of garbage at its witnesses (collect.go);
//   - the backup, or learner, follows a master (follow.go, copy.go, backup.go);
//   - vouching is what members say of disks, also of those of witnesses (vouch.go).
//
// A part knows those that are listed below it, and the backup and vouching know none. The witness is another package.
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

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part in one partition. It implements protocol.Protocol.
type Protocol struct {
	*member
	client   *coordinator
	term     *term     // at the master
	backup   *backup   // at a backup or learner
	vouching *vouching // about disks
}

var (
	_ protocol.Protocol    = (*Protocol)(nil)
	_ protocol.Partitioned = (*Protocol)(nil)
	_ protocol.Keyed       = (*Protocol)(nil)
)

// Start begins or resumes a member's part in a partition, the one of index config.Shard in config.View.Partitions, from
// its journal. Every shard of a member has a journal of its own.
func Start(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
	v := config.View
	if err := v.Validate(); err != nil {
		return nil, err
	}
	if v.Index(config.Self) < 0 {
		return nil, fmt.Errorf("member %d is not in the view of epoch %d", config.Self, v.Epoch)
	}
	if config.Shard < 0 || config.Shard >= len(v.Partitions) {
		return nil, fmt.Errorf("the view of epoch %d has no partition %d; it has %d",
			v.Epoch, config.Shard, len(v.Partitions))
	}
	p, err := assemble(config, journal)
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", config.Shard, err)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func assemble(config protocol.Config, journal *protocol.Journal) (*Protocol, error) {
	m, err := newMember(config, journal)
	if err != nil {
		return nil, err
	}
	p := &Protocol{member: m, term: newTerm(m), backup: &backup{member: m}}
	p.client = newCoordinator(p.term.master, p.backup)
	if p.vouching, err = newVouching(m); err != nil {
		return nil, err
	}
	m.load()
	if !m.Doubted() {
		p.takePart()
	}
	return p, nil
}

// takePart begins the role that the view gives, if the disk can fill it: one that is lost has forgotten what it
// promised.
func (p *Protocol) takePart() {
	if !p.enlist() {
		return
	}
	if p.role == protocol.Master {
		p.term.prepare()
	} else {
		p.backup.prepare()
	}
}

// RecordsOf implements protocol.Keyed: the master executes rmws and answers reads, and so does a backup that reads
// here.
func (p *Protocol) RecordsOf(kind register.Kind) string {
	executes := p.role == protocol.Master && kind != register.Write
	if executes || p.role == protocol.Backup && p.client.near != 0 && kind == register.Read {
		return store.RegisterRecords
	}
	return ""
}

// RecordsFor implements protocol.Keyed, of what asks the master. What has executed a register lately has it in memory.
func (p *Protocol) RecordsFor(m *peerv1.Message) string {
	asks := m.Kind == peerv1.Kind_MASTER_READ || m.Kind == peerv1.Kind_UPDATE
	if asks && p.role == protocol.Master && !p.store.Ahead(m.Key) {
		return store.RegisterRecords
	}
	return ""
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	p.client.submit(r)
	p.deliverLoop()
}

// Pending implements protocol.Machine: it counts the operations that this member is the client of.
func (p *Protocol) Pending() int { return p.client.operations.Len() }

// Unfinished implements protocol.Machine.
func (p *Protocol) Unfinished() []protocol.Request { return p.client.unfinished() }

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	err := bounds.Message(m)
	if err == nil {
		err = store.Check(m.Curp)
	}
	switch {
	case err != nil: // nobody can have counted so far, or made such a record: nothing could come after it
		p.Took(pathMessageRefused)
		p.Refuse(from, err)
	case m.Kind == peerv1.Kind_WITNESS:
		if w := m.Witness; w != nil && w.Partition == uint32(p.index) {
			p.onWitness(from, w)
		}
	case p.vouching.onPosition(from, m):
		p.takePartOnceTrusted()
	case m.Curp != nil && p.ofThisTerm(m):
		p.receive(from, m)
	}
	p.deliverLoop()
}

func (p *Protocol) receive(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_UPDATE_REPLY:
		p.client.onUpdateReply(m)
	case peerv1.Kind_MASTER_READ_REPLY:
		p.client.onReadReply(m)
	case peerv1.Kind_UPDATE:
		p.term.master.onUpdate(from, m)
	case peerv1.Kind_MASTER_READ:
		p.term.master.onRead(from, m)
	case peerv1.Kind_SYNC_REPLY:
		p.term.onSyncReply(from, m)
	case peerv1.Kind_COPY:
		p.term.master.onCopy(from, m)
	case peerv1.Kind_SYNC:
		p.backup.onSync(from, m)
	case peerv1.Kind_COPY_PAGE:
		p.backup.onCopyPage(from, m)
	case peerv1.Kind_HOLD:
		p.term.onHold(from, m)
	case peerv1.Kind_HOLD_REPLY:
		p.term.onHoldReply(from, m)
	}
}

// onWitness handles what a witness answers: to a client, to a master, or to one that recovers.
func (p *Protocol) onWitness(from view.MemberID, w *witnessv1.Message) {
	p.vouching.onWitness(from, w)
	switch w.Kind {
	case witnessv1.Kind_RECORD_REPLY:
		p.client.onRecordReply(from, w)
	case witnessv1.Kind_CHECK_REPLY:
		p.client.onCheckReply(from, w)
	case witnessv1.Kind_GC_REPLY:
		p.term.master.onDropped(from, w)
	case witnessv1.Kind_RECOVERY_DATA_REPLY:
		p.term.onRecoveryData(from, w)
	}
}

// deliverLoop delivers what the member sent to itself.
func (p *Protocol) deliverLoop() {
	for len(p.loop) > 0 {
		m := p.loop[0]
		p.loop = p.loop[1:]
		p.receive(p.Config.Self, m)
	}
	p.loop = nil
}

// Tick implements protocol.Machine.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now = now
	if !p.ticked {
		p.firstTick()
		if !p.Doubted() {
			p.announce()
		}
	}
	p.disks.Tick(now)
	p.takePartOnceTrusted()
	if !p.empty {
		p.disks.Tell()
	}
	p.client.tick()
	if p.active() {
		if p.role == protocol.Master {
			p.term.tick()
		} else {
			p.backup.tickCopy()
		}
	}
	p.deliverLoop()
}

// takePartOnceTrusted begins the role that the view gives once the disk is known to be whole.
func (p *Protocol) takePartOnceTrusted() {
	if !p.disks.Trusted() {
		return
	}
	p.takePart()
	if p.ticked {
		p.announce()
	}
}

// announce tells the others of this member: that it holds the view, and how far it knows disks to be.
func (p *Protocol) announce() {
	p.term.announce()
	p.vouching.tellAll()
}

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	p.store.Save()
	if !p.empty && !p.Doubted() {
		p.disks.Note()
	}
	e := p.Outbox.Ready()
	p.vouching.ready(&e)
	return e
}
