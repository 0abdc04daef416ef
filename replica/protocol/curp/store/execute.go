package store

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// Executor executes requests at a master, each once: it puts an entry behind the log for each.
type Executor struct {
	*Store
	sessions *sessions
}

// NewExecutor goes on with the log as a new master has it, and with what the state and the log say of requests that
// were executed before.
func NewExecutor(s *Store) *Executor {
	s.expect(s.Behind(s.Commit)...)
	return &Executor{Store: s, sessions: loadSessions(s)}
}

// Execute runs a request: it makes an entry of the log, which changes the state and remembers the answer. It returns
// nil for a duplicate. A replayed request is one that a witness had saved.
func (x *Executor) Execute(r *peerv1.Request, replayed bool) (*peerv1.LogEntry, *peerv1.Answer) {
	c := r.Command
	if x.Recall(c) != nil {
		return nil, nil
	}
	e := x.nextEntry()
	e.Key, e.Session, e.Number = r.Key, c.Session, c.Number
	answer := x.run(e, r)
	x.sessions.remember(e, c, answer, replayed)
	x.extend(e)
	return e, answer
}

// Recall returns the answer that a request already got, or nil if it is new. What may be the duplicate of something
// forgotten is not executed.
func (x *Executor) Recall(c *peerv1.Command) *peerv1.Answer {
	return x.sessions.recall(c)
}

// ExpireSessions forgets, now and then, the sessions that were not seen for longest, by an entry of its own, and
// reports whether it made one. Only what is synced is forgotten: the replay of what is not would find that its session
// may have been there (section 4.8).
func (x *Executor) ExpireSessions() bool {
	if x.Last() < x.sessions.looked+uint64(min(expireAfterEntries, x.sessions.most())) {
		return false
	}
	x.sessions.looked = x.Last()
	e := x.nextEntry()
	forgets := x.sessions.forgetUnseen(e, x.Commit)
	if forgets {
		x.extend(e)
	}
	return forgets
}

// nextEntry begins the entry that comes behind the log.
func (x *Executor) nextEntry() *peerv1.LogEntry {
	return &peerv1.LogEntry{Term: x.term, Index: x.Last() + 1}
}

// extend puts an entry behind the log.
func (x *Executor) extend(e *peerv1.LogEntry) {
	x.expect(e)
	x.Append(e)
}

// run is what the request does to its register. The carstamps are for checkers: the order of the log.
func (x *Executor) run(e *peerv1.LogEntry, r *peerv1.Request) *peerv1.Answer {
	c := r.Command
	if c.Function == "" {
		x.assign(e, r.Key, register.ValueOf(r.Present, r.Value))
		return &peerv1.Answer{Timestamp: e.Index}
	}
	current := x.load(x.newest, r.Key)
	call := register.Call{Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes)}
	out, err := x.config.Functions.Apply(current.Value, call)
	if err != nil {
		x.outbox.Fault("execute an rmw: %w", err)
		return &peerv1.Answer{Refused: err.Error()}
	}
	a := &peerv1.Answer{Present: out.Reply.Present(), Value: out.Reply, Refused: out.Refused}
	if out.Changed {
		x.assign(e, r.Key, out.Next)
		a.Timestamp = e.Index
	}
	return a
}

func (x *Executor) assign(e *peerv1.LogEntry, key []byte, v register.Value) {
	if v.Present() {
		x.set(e, registerKey(key), &peerv1.RegisterRecord{Timestamp: e.Index, Present: true, Value: v})
	} else {
		remove(e, registerKey(key))
	}
}
