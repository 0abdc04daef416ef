package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// unsyncedBound is how many entries may be unsynced: with a backup away, nothing is synced until it is replaced.
const unsyncedBound = 1 << 14

// waitersBound is how many answers may wait for a sync.
const waitersBound = 1 << 16

// hotWithin is how few entries apart two updates of a key make it a hot one (section 4.4).
const hotWithin = 200

// master is what the master of a partition has in memory (sections 3.2.3, 4.3 and 4.4).
type master struct {
	serving bool
	served  uint64 // the mark of the journal with which it is durable that this term serves

	unsynced map[requestID]*unsynced
	touched  map[string]uint64  // by key: the last entry about it, as long as that is not synced
	recent   map[string]uint64  // by key: the last entry about it, of the last ones
	executed []protocol.Instant // when the entries behind commit were, one for each
	base     uint64             // the commit when the term began
	waiters  []waiter
	asked    map[questionID]bool // by whom they are waited for

	followers []*follower
	target    uint64           // a sync is in flight up to this entry
	more      bool             // and another one is wanted behind it
	mark      uint64           // without backups: of the journal, when the sync began
	since     protocol.Instant // when the oldest unsynced entry came
	readAt    protocol.Instant // the last read, for which leases are kept
	questions []question
	outboxes  []*outbox
	recovery  *recovery // until it serves
}

// questionID is a question of a client.
type questionID struct {
	from view.MemberID
	op   uint64
}

// waiter is an answer that leaves when an entry is synced.
type waiter struct {
	index uint64
	to    view.MemberID
	m     *peerv1.Message
}

// takeMaster begins to be the master of the view's term.
func (p *Protocol) takeMaster() {
	for _, f := range p.partition.Formers {
		if f.Has(p.config.Self) && f.Term < p.store.Own.Born && !p.mistakes.ServeAfterLoss {
			p.lose("it recovers from a term of an earlier disk of this member")
			return
		}
	}
	if (p.store.Own.Copying || p.store.Own.Through > p.store.Last()) && !p.mistakes.CountLearner {
		p.lose("it has a part of the state only")
		return
	}
	if p.store.Own.Recovered == p.partition.Term || p.mistakes.ServeUncommitted {
		p.beginMaster()
		return
	}
	p.hold = &hold{}
	p.noted[p.config.Self] = p.store.Own.NotedTerm
}

// beginMaster takes part in the term.
func (p *Protocol) beginMaster() {
	p.dropStale()
	p.master.unsynced, p.touched, p.recent = map[requestID]*unsynced{}, map[string]uint64{}, map[string]uint64{}
	p.asked = map[questionID]bool{}
	if p.mistakes.DropPending && p.store.Own.Term != p.partition.Term {
		p.store.Truncate(max(p.store.Own.Applied, p.store.Floor, min(p.store.Own.Commit, p.store.Last())))
	}
	p.store.Commit = min(p.store.Own.Commit, p.store.Last())
	p.base = p.store.Commit
	p.applyUpTo(max(p.store.Commit, p.store.Own.Through))
	p.store.Own.Through = 0
	p.store.BeginTerm(p.partition.Term)
	p.enter()
	p.rebuild()
	p.store.LoadSessions()
	p.startExecuted()
	for _, id := range p.partition.Backups {
		p.followers = append(p.followers, &follower{id: id, backup: true})
	}
	for _, m := range p.config.View.Members {
		if p.followerOf(m.ID) == nil && m.ID != p.config.Self {
			p.followers = append(p.followers, &follower{id: m.ID})
		}
	}
	for _, id := range p.partition.Witnesses {
		p.outboxes = append(p.outboxes, &outbox{witness: id})
	}
	switch {
	case p.store.Own.Recovered != p.partition.Term:
		p.startRecovery()
	case p.speculative() && p.store.Own.Broken == p.partition.Term:
		// It needs a later term, which recovers from this one.
	default:
		p.serve()
	}
}

// rebuild finds what is not known to be synced: a new master keeps all that it received, since any of it may be held
// by all backups. What depended on what is forgotten, so nothing is told before a sync.
func (p *Protocol) rebuild() {
	for _, e := range p.store.Behind(p.store.Commit) {
		p.store.Expect(e)
		if e.Session != 0 {
			p.touched[string(e.Key)] = e.Index
			p.master.unsynced[requestID{e.Session, e.Number}] = &unsynced{index: e.Index, blocked: true}
		}
	}
}

// serve begins to serve clients. That it did so is durable before anyone hears of it.
func (p *Protocol) serve() {
	p.serving, p.recovery = true, nil
	p.settle()
	if p.store.Own.Recovered != p.partition.Term {
		p.store.Own.Recovered = p.partition.Term
		p.store.Own.Granted, p.store.Own.Backups = false, nil
		for _, id := range p.partition.Backups {
			p.store.Own.Backups = append(p.store.Own.Backups, uint32(id))
		}
		p.store.Note()
		p.store.Save()
	}
	p.served = p.Journal.Mark()
}

// serves reports whether clients are served. A master that answers before its disk has the operation has to know that
// its disk remembers that it serves: else it would not know after a crash that there is something to recover.
func (p *Protocol) serves() bool {
	return p.serving && (!p.speculative() || p.Journal.Survives(p.served))
}

// tellable reports whether what a serving master holds as synced is durable, and that it serves.
func (p *Protocol) tellable() bool {
	return len(p.partition.Backups) > 0 && p.Journal.Survives(p.served)
}

// speculative reports whether the master answers before its own disk has the operation: it is alone, and the witnesses
// hide the disk (section 5.4).
func (p *Protocol) speculative() bool {
	return len(p.partition.Backups) == 0 && len(p.partition.Witnesses) > 0
}

func (p *Protocol) refuse(to view.MemberID, kind peerv1.Kind, m *peerv1.Message) {
	if p.role == protocol.Master {
		p.send(to, p.message(kind, m.Op, &peerv1.Curp{Refused: true}))
	}
}

// onUpdate executes a request and answers before the backups have it, unless it depends on another one that they do not
// have either (section 3.2.3).
func (p *Protocol) onUpdate(from view.MemberID, m *peerv1.Message) {
	r := m.Curp.Request
	if !p.serves() || r.GetCommand() == nil || p.store.Last()-p.store.Commit >= unsyncedBound {
		p.refuse(from, peerv1.Kind_UPDATE_REPLY, m)
		return
	}
	reply := p.message(peerv1.Kind_UPDATE_REPLY, m.Op, &peerv1.Curp{})
	reply.Epoch, reply.Curp.Term, reply.Curp.View = m.Epoch, m.Curp.Term, m.Curp.View // the same, but for a mistake
	u := p.execute(r, false)
	if u == nil {
		p.answerDuplicate(from, m, reply)
		return
	}
	reply.Curp.Answer = u.answer
	switch {
	case u.blocked && !p.mistakes.UpdateUnsynced:
		p.config.Took("update.conflict")
		p.whenSynced(u.index, from, reply)
		p.sync()
	case m.Curp.Sync:
		p.whenSynced(u.index, from, reply)
		p.sync()
	default:
		p.answer(from, reply)
	}
	p.considerSync(string(r.Key), u.index)
}

// answerDuplicate answers what was executed before. As long as that is not synced, this answer says so too.
func (p *Protocol) answerDuplicate(from view.MemberID, m, reply *peerv1.Message) {
	p.config.Took("update.duplicate")
	c := m.Curp.Request.Command
	reply.Curp.Answer = p.store.Recall(c)
	u := p.master.unsynced[idOf(c)]
	if u == nil || u.index <= p.store.Commit {
		p.drop(m.Curp.Request.Key, idOf(c)) // its record may have come after the others were dropped
		reply.Curp.Synced = true
		p.tell(from, reply)
		return
	}
	if u.answer != nil {
		reply.Curp.Answer = u.answer
	}
	switch {
	case p.mistakes.AnswerDuplicateSynced:
		reply.Curp.Synced = true
		p.answer(from, reply)
	case m.Curp.Sync || u.blocked && !p.mistakes.UpdateUnsynced:
		p.whenSynced(u.index, from, reply)
		p.sync()
	default:
		p.answer(from, reply)
	}
}

// unsynced is a request that was executed and is not held by all backups yet.
type unsynced struct {
	index  uint64
	answer *peerv1.Answer
	// blocked says that it depends on one before it that was not synced either: nobody may be told of it until it is.
	blocked bool
}

// execute runs a request, once. It returns nil for a duplicate.
func (p *Protocol) execute(r *peerv1.Request, replay bool) *unsynced {
	e, answer := p.store.Execute(r, replay)
	if e == nil {
		return nil
	}
	p.executed = append(p.executed, p.now)
	key := string(r.Key)
	u := &unsynced{index: e.Index, answer: answer, blocked: p.touched[key] > p.store.Commit}
	p.touched[key] = e.Index
	p.master.unsynced[idOf(r.Command)] = u
	return u
}

// answer tells of what was executed once it is on the master's own disk, which takes no longer than the witnesses'
// disks. So a master that restarts has forgotten nothing that it told of. One without backups is an exception.
func (p *Protocol) answer(to view.MemberID, m *peerv1.Message) {
	if p.speculative() || p.mistakes.AnswerBeforePersist {
		p.send(to, m)
		return
	}
	p.sendDurably(to, m)
}

// tell sends what is synced.
func (p *Protocol) tell(to view.MemberID, m *peerv1.Message) {
	if p.tellable() {
		p.send(to, m)
		return
	}
	p.sendDurably(to, m)
}

// whenSynced answers once an entry is synced. Without backups that is when it is on disk.
func (p *Protocol) whenSynced(index uint64, to view.MemberID, m *peerv1.Message) {
	m.Curp.Synced, m.Curp.Waited = true, true
	switch {
	case len(p.partition.Backups) == 0:
		p.sendDurably(to, m)
	case index <= p.store.Commit:
		p.tell(to, m)
	case p.asked[questionID{to, m.Op}]: // a client that asks again waits already
	case len(p.waiters) >= waitersBound:
		p.refuse(to, m.Kind, m)
	default:
		p.waiters = append(p.waiters, waiter{index, to, m})
		p.asked[questionID{to, m.Op}] = true
	}
}

// considerSync syncs when many operations are unsynced, or when the key is a hot one: the next update of it would have
// to wait (section 4.4).
func (p *Protocol) considerSync(key string, index uint64) {
	last, known := p.recent[key]
	if len(p.recent) >= 4096 {
		p.recent = map[string]uint64{}
	}
	p.recent[key] = index
	switch {
	case known && index-last <= hotWithin:
		p.config.Took("sync.hot")
		p.sync()
	case index-p.store.Commit >= uint64(p.config.Sync.After):
		p.config.Took("sync.many")
		p.sync()
	case p.since == 0:
		p.since = max(p.now, 1)
	}
	if p.mistakes.GCBeforeSync {
		for _, e := range p.store.Behind(p.store.Last() - 1) {
			p.drop(e.Key, requestID{e.Session, e.Number})
		}
	}
}

// tickMaster repeats, syncs what waits for long, and forgets.
func (p *Protocol) tickMaster() {
	if p.hold != nil {
		p.tickHold()
		return
	}
	p.tickSync()
	p.tickRecovery()
	p.tickGC()
	if !p.serving {
		return
	}
	for len(p.questions) > 0 && p.now >= p.questions[0].at.Add(2*p.config.Retry) {
		p.questions = p.questions[1:] // its client asks again
	}
	if p.store.ExpireSessions() {
		p.executed = append(p.executed, p.now)
	}
	p.store.Trim(p.needed())
}
