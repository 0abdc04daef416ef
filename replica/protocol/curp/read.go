package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// readSomewhere begins a read: here, if this member is a backup beside a witness, else at the master.
func (p *Protocol) readSomewhere(o *operation) {
	if o.request.Operation.Stale {
		p.readStale(o)
		return
	}
	if p.role != protocol.Backup || p.client.near == 0 || !p.active() {
		p.readAtMaster(o)
		return
	}
	p.client.local = p.now
	if !p.mayAnswer(o.key) {
		p.config.Took("read.local-refused")
		p.readAtMaster(o)
		return
	}
	// The witness first (appendix A.1): an update that it does not have any more when it answers was received here before.
	// If it were asked last, it could have dropped what came after the backup was read.
	if p.mistakes.BackupFirst {
		o.early = p.store.Read(o.key, p.store.Own.Applied)
	}
	o.checking = true
	p.ask(p.client.near, &witnessv1.Message{
		Kind: witnessv1.Kind_CHECK, Op: o.op, Term: p.partition.Term, Hashes: []uint64{register.Hash(o.key)},
	})
}

// mayAnswer reports whether this backup may tell of a key: under a lease, which says that no later master serves, and
// if no entry for it waits here of which it is not known whether all backups have it. One reader could see such an
// update here, and the next one miss it at another backup.
func (p *Protocol) mayAnswer(key []byte) bool {
	return (p.now < p.follower.lease || p.mistakes.LocalWithoutLease) && p.follower.attached &&
		(p.follower.waiting[string(key)] == 0 || p.mistakes.NoGuard)
}

// onCheckReply reads the backup, if the witness knows of no update of the key that could be complete.
func (p *Protocol) onCheckReply(from view.MemberID, w *witnessv1.Message) {
	o := p.client.operations[w.Op]
	if o == nil || !o.checking || from != p.client.near {
		return
	}
	o.checking = false
	if !w.Accepted || w.Term != p.partition.Term || !p.mayAnswer(o.key) {
		p.config.Took("read.local-refused")
		o.due = p.now.Add(p.config.Retry)
		p.readAtMaster(o)
		return
	}
	p.config.Took("read.local")
	answer := p.store.Read(o.key, p.store.Own.Applied)
	if p.mistakes.NoGuard {
		answer = p.store.ReadUnapplied(o.key)
	}
	if o.early != nil {
		answer = o.early
	}
	p.finish(o, answered(answer, o.trips, true))
}

// readAtMaster asks the master. A backup that would rather read here asks for a lease with it.
func (p *Protocol) readAtMaster(o *operation) {
	if p.partition.Master != p.config.Self && o.trips == 0 {
		o.trips = 1
	}
	c := &peerv1.Curp{Stale: o.request.Operation.Stale, Nonce: p.config.Nonce}
	if p.wantsLease() {
		c.Wanted = int64(p.now)
	}
	m := p.message(peerv1.Kind_MASTER_READ, o.op, c)
	m.Key = o.key
	p.send(p.partition.Master, m)
}

func (p *Protocol) onReadReply(m *peerv1.Message) {
	o := p.client.operations[m.Op]
	if o == nil || o.update != nil {
		return
	}
	if m.Curp.Refused {
		o.due = min(o.due, p.now.Add(p.config.Retry/4))
		return
	}
	if m.Curp.Waited {
		o.trips++
	}
	p.client.seen = max(p.client.seen, m.Curp.Commit)
	p.config.Took("read.master")
	p.finish(o, answered(m.Curp.Answer, o.trips, !m.Curp.Waited))
}

// serving what a client asks at the master

// question is a read that waits for a lease at the master.
type question struct {
	from view.MemberID
	m    *peerv1.Message
	at   protocol.Instant
}

// onRead answers a read at the master, which needs a lease: a later master could have served meanwhile.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	if !p.serves() {
		p.refuse(from, peerv1.Kind_MASTER_READ_REPLY, m)
		return
	}
	p.readAt = p.now
	p.wants(from, m.Curp)
	if p.now < p.leased() || p.mistakes.ReadWithoutLease || m.Curp.Stale && p.mistakes.StaleWithoutLease {
		p.answerRead(from, m)
		return
	}
	p.config.Took("read.lease")
	for _, q := range p.questions {
		if q.from == from && q.m.Op == m.Op {
			return
		}
	}
	p.questions = append(p.questions, question{from, m, p.now})
	for _, f := range p.followers {
		if f.backup && !f.flying && (len(p.questions) == 1 || p.now >= f.due) {
			p.sendSync(f)
		}
	}
}

// answerRead tells of a key what can't be lost any more (section 3.2.3): what an unsynced update made of it, after a
// sync.
func (p *Protocol) answerRead(from view.MemberID, m *peerv1.Message) {
	at := p.touched[string(m.Key)]
	c := &peerv1.Curp{Answer: p.store.Read(m.Key, p.store.Last()), Commit: max(p.store.Commit, at)}
	reply := p.message(peerv1.Kind_MASTER_READ_REPLY, m.Op, c)
	if at > p.store.Commit && m.Curp.Stale {
		if before := p.durably(m.Key); p.mistakes.StaleUnsynced {
			at = 0
		} else if before != nil {
			c.Answer, c.Commit, at = before, p.store.Commit, 0
		}
	}
	if at > p.store.Commit && !p.mistakes.ReadUnsynced {
		p.config.Took("read.unsynced")
		p.whenSynced(at, from, reply)
		p.sync()
		return
	}
	c.Synced = true
	p.tell(from, reply)
}

// answerQuestions goes on with the reads that waited for a lease.
func (p *Protocol) answerQuestions() {
	if len(p.questions) == 0 || !p.serving || p.now >= p.leased() {
		return
	}
	waiting := p.questions
	p.questions = nil
	for _, q := range waiting {
		p.answerRead(q.from, q.m)
	}
}
