package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/view"
)

// waitersBound is how many answers may wait for a sync.
const waitersBound = 1 << 16

// master is what the master of a partition does for clients once its term has begun (sections 3.2.3, 4.3 and 4.4): it
// executes requests, answers before the backups have them, and has what an answer depends on synced.
type master struct {
	*replication
	witnesses collection
	executor  *store.Executor // once the term has begun
	served    uint64          // the mark of the journal with which it is durable that this term serves

	executed map[requestID]*execution // those that are not synced
	touched  map[string]touch         // by key: the last entry about it, as long as that is not synced
	recent   map[string]uint64        // by key: the last entry about it, of the last ones
	waiters  []waiter
	waited   map[questionID]bool // whose answers the waiters are
	reads    []waitingRead       // for a lease, in the order in which they came
}

// execution is a request that was executed and is not held by all backups yet.
type execution struct {
	index  uint64
	answer *peerv1.Answer // nil: it is forgotten
	// blocked says that it depends on one before it that was not synced either: clients are told of it when it is.
	blocked bool
}

// touch is the last entry about a key, and the request that made it.
type touch struct {
	index uint64
	id    requestID
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
	reply *peerv1.Message
}

// waitingRead is a read that waits for a lease of the master.
type waitingRead struct {
	from view.MemberID
	m    *peerv1.Message
	at   protocol.Instant
}

func newMaster(m *member) *master {
	return &master{
		replication: &replication{member: m}, witnesses: collection{member: m},
		executed: map[requestID]*execution{}, touched: map[string]touch{}, recent: map[string]uint64{},
		waited: map[questionID]bool{},
	}
}

// begin takes over the log as this disk has it. A new master keeps all that it received, since any of it may be held by
// all backups. What an entry depended on is forgotten, so nothing is told before a sync.
func (m *master) begin() {
	s := m.store
	s.Commit = min(s.Own.Commit, s.Last())
	m.base = s.Commit
	s.ApplyUpTo(max(s.Commit, s.Own.Through))
	s.Own.Through = 0
	s.BeginTerm(m.partition.Term)
	m.enter()
	m.executor = store.NewExecutor(s)
	for _, e := range s.Behind(s.Commit) {
		if e.Session != 0 {
			id := requestID{e.Session, e.Number}
			m.touched[string(e.Key)] = touch{e.Index, id}
			m.executed[id] = &execution{index: e.Index, blocked: true}
		}
	}
	m.replication.begin()
	m.witnesses.begin()
}

// serve begins to serve clients. That it did so is durable before any of them hears of it.
func (m *master) serve() {
	m.serving = true
	m.settle()
	if m.store.Last() > m.store.Commit {
		m.syncLater()
	}
	if own := m.store.Own; own.Recovered != m.partition.Term {
		own.Recovered, own.Granted, own.Backups = m.partition.Term, false, nil
		for _, id := range m.partition.Backups {
			own.Backups = append(own.Backups, uint32(id))
		}
		m.store.Note()
		m.store.Save()
	}
	m.served = m.Journal.Mark()
}

// serves reports whether clients are served. A master that answers before its disk has the operation has to know that
// its disk remembers that it serves: else it would not know after a crash that there is something to recover.
func (m *master) serves() bool {
	return m.serving && (!m.speculative() || m.Journal.Survives(m.served))
}

// tellable reports whether what a serving master holds as synced is durable, and that it serves.
func (m *master) tellable() bool {
	return len(m.partition.Backups) > 0 && m.Journal.Survives(m.served)
}

// execute runs a request, once. It returns nil for a duplicate. It depends on the last entry about its key as long as
// that is not synced, but for one that it is known to follow: that is complete, so a later master has it, or replays it
// before this request from whichever witness it asks.
func (m *master) execute(r *peerv1.Request, follows requestID, replayed bool) *execution {
	e, answer := m.executor.Execute(r, replayed)
	if e == nil {
		return nil
	}
	m.executedAt = append(m.executedAt, m.Now)
	key, id := string(r.Key), idOf(r.Command)
	last := m.touched[key]
	x := &execution{index: e.Index, answer: answer, blocked: last.index > m.store.Commit && last.id != follows}
	m.touched[key] = touch{e.Index, id}
	m.executed[id] = x
	return x
}

// sync replicates all entries to the backups.
func (m *master) sync() {
	if m.startSync() {
		m.advance()
	}
}

// advance lets go what waited for entries that are synced by now.
func (m *master) advance() {
	before := m.store.Commit
	if !m.replication.advance() {
		return
	}
	m.release(before)
	m.settle()
	if m.more && m.store.Commit >= m.target {
		m.more = false
		m.sync()
	}
}

// release answers those that waited for the entries behind before, and has the witnesses drop their requests.
func (m *master) release(before uint64) {
	for _, e := range m.store.Between(before, m.store.Commit) {
		if e.Session == 0 {
			continue
		}
		id, key := requestID{e.Session, e.Number}, string(e.Key)
		if x := m.executed[id]; x != nil && x.index <= e.Index {
			delete(m.executed, id)
		}
		if m.touched[key].index <= e.Index {
			delete(m.touched, key)
		}
		if e.Term == m.partition.Term {
			m.witnesses.drop(e.Key, id)
		}
	}
	m.waiters = slices.DeleteFunc(m.waiters, func(w waiter) bool { // in the order in which they came
		synced := w.index <= m.store.Commit
		if synced {
			delete(m.waited, questionID{w.to, w.reply.Op})
			m.answerSynced(w.to, w.reply)
		}
		return synced
	})
	m.witnesses.flush()
}

func (m *master) refuse(to view.MemberID, kind peerv1.Kind, op uint64) {
	if m.role == protocol.Master {
		m.send(to, m.message(kind, op, &peerv1.Curp{Refused: true}))
	}
}

// answerExecuted tells of what was executed once it is on the master's own disk, which takes no longer than the
// witnesses' disks. So a master that restarts has forgotten nothing that it told of. One without backups is an
// exception, and so is this member's own client, which waits for its disk itself (finish).
func (m *master) answerExecuted(to view.MemberID, reply *peerv1.Message) {
	m.sendWhen(m.speculative(), to, reply)
}

// answerSynced tells of what is synced.
func (m *master) answerSynced(to view.MemberID, reply *peerv1.Message) {
	m.sendWhen(m.tellable(), to, reply)
}

// answerOnceSynced syncs, and answers once an entry is synced, which it is not yet. Without backups that is when it is
// on disk.
func (m *master) answerOnceSynced(index uint64, to view.MemberID, reply *peerv1.Message) {
	reply.Curp.Synced, reply.Curp.Waited = true, true
	question := questionID{to, reply.Op}
	switch {
	case len(m.partition.Backups) == 0:
		m.sendWhen(false, to, reply)
	case m.waited[question]: // a client that asks again waits already
	case len(m.waiters) >= waitersBound:
		m.refuse(to, reply.Kind, reply.Op)
	default:
		m.waiters = append(m.waiters, waiter{index, to, reply})
		m.waited[question] = true
	}
	m.sync()
}

// tickSyncs syncs what has waited for long, and goes on with syncs that are under way.
func (m *master) tickSyncs() {
	m.advance() // without backups, the disk tells nobody that it is done
	if m.waitedLong() || len(m.waiters) > 0 || !m.serving {
		m.sync()
	}
	m.replication.tick()
}

// tick goes on with the garbage collection and, when the term serves, forgets what is not needed any more.
func (m *master) tick() {
	m.witnesses.tick()
	if !m.serving {
		return
	}
	for len(m.reads) > 0 && m.Now >= m.reads[0].at.Add(2*m.Config.Retry) {
		m.reads = m.reads[1:] // its client asks again
	}
	if m.executor.ExpireSessions() {
		m.executedAt = append(m.executedAt, m.Now)
		m.syncLater()
	}
	m.store.Trim(m.needed())
}
