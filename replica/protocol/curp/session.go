package curp

import (
	"cmp"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// Bounds on what a partition remembers of sessions (RIFL, section 4.8).
const (
	clientSessions     = 16384          // sessions of clients
	clientSessionsFor  = 10 * 60 * 1000 // milliseconds without a request, by the issue times of all clients
	memberSessions     = 4096           // sessions of members, which have no issue times
	clientAnswers      = 64             // of a client's session that has not acknowledged them
	memberAnswers      = 4096
	answerBytes        = 16 << 10 // a larger answer is forgotten: its duplicate is recognised, not answered
	expireAfterEntries = 1024     // how often it is looked whether sessions can go
)

// forgotten stands for an answer that is not kept.
var forgotten = &peerv1.Answer{Expired: true}

// session is what is remembered of a client's requests, or of those that a member made of operations without an id.
// Requests of equal number are one; of those below firstIncomplete the answer is known to its client.
type session struct {
	firstIncomplete uint64
	seenAt          int64
	usedAt, usedIn  uint64
	done            []uint64 // numbers with a record of their answer, ascending
}

// sessions are all of a partition's, as the master knows them; their records are part of the replicated state.
type sessions struct {
	byID    map[uint64]*session
	latest  int64 // the newest issue time
	horizon peerv1.SessionHorizon
	looked  uint64 // the index at which expiry was looked at
}

// loadSessions reads the sessions from the state, and from the entries that are not applied yet. It leaves out the
// registers between them: there may be millions, and clients wait for a new master meanwhile.
func (st *state) loadSessions() {
	st.sessions = sessions{byID: map[uint64]*session{}}
	for _, kind := range []byte{doneRecord, sessionRecord} {
		st.loadRecords(kind)
	}
	if raw, ok := st.newest([]byte{horizonRecord}); ok {
		st.loadSession([]byte{horizonRecord}, raw)
	}
	for _, key := range slices.Sorted(maps.Keys(st.ahead)) {
		if a := st.ahead[key]; a.raw != nil && !st.loadSession([]byte(key), a.raw) {
			return
		}
	}
}

// loadRecords reads the records of a kind from the state. Their keys are longer than what names the kind.
func (st *state) loadRecords(kind byte) {
	st.journal.Scan([]byte{kind}, func(key, raw []byte) bool {
		if key[0] != kind {
			return false
		}
		_, newer := st.ahead[string(key)]
		return newer || st.loadSession(key, raw)
	})
}

// loadSession takes a record of the state in, if it is of a session; false: it is damaged.
func (st *state) loadSession(key, raw []byte) bool {
	err := checkKey(key)
	switch {
	case err != nil:
	case key[0] == doneRecord:
		s, number := st.session(beUint64(key[1:9])), beUint64(key[9:17])
		if at, known := slices.BinarySearch(s.done, number); !known {
			s.done = slices.Insert(s.done, at, number)
		}
	case key[0] == horizonRecord:
		err = st.sessions.horizon.UnmarshalVT(raw)
	case key[0] == sessionRecord:
		var record peerv1.PartitionSession
		if err = read(&record, raw, bounds.Record); err == nil {
			s := st.session(beUint64(key[1:9]))
			s.firstIncomplete, s.seenAt, s.usedAt, s.usedIn = record.FirstIncomplete, record.SeenAt, record.UsedAt, record.UsedIn
			st.sessions.latest = max(st.sessions.latest, s.seenAt)
		}
	}
	if err != nil {
		st.outbox.Fault("a session on disk is damaged: %w", err)
	}
	return err == nil
}

func (st *state) session(id uint64) *session {
	s := st.sessions.byID[id]
	if s == nil {
		s = &session{}
		st.sessions.byID[id] = s
	}
	return s
}

// recall returns the answer that a request already got, or nil if it is new. What may be the duplicate of something
// forgotten is not executed.
func (st *state) recall(c *peerv1.Command) *peerv1.Answer {
	if st.mistakes.ForgetDuplicates {
		return nil
	}
	s := st.sessions.byID[c.Session]
	if s == nil {
		h := &st.sessions.horizon
		if c.IssuedAt != 0 && h.SeenAt != 0 && !seenAfter(c.IssuedAt, c.Session, h.SeenAt, h.Session) {
			return forgotten
		}
		return nil
	}
	if _, known := slices.BinarySearch(s.done, c.Number); known {
		raw, _ := st.newest(doneKey(c.Session, c.Number))
		a := &peerv1.Answer{}
		if err := read(a, raw, bounds.Record); err != nil {
			st.outbox.Fault("an answer on disk is damaged: %w", err)
		}
		return a
	}
	if c.Number < s.firstIncomplete {
		return forgotten
	}
	return nil
}

// seenAfter orders sessions by when they were last seen; no two are the same.
func seenAfter(seenAt int64, session uint64, than int64, thanSession uint64) bool {
	return cmp.Or(cmp.Compare(seenAt, than), cmp.Compare(session, thanSession)) > 0
}

// remember keeps the answer of a request, with the entry that it made. A replayed request acknowledges nothing: those
// before it, whose answers its client had, may come after it (section 4.8).
func (st *state) remember(e *peerv1.LogEntry, c *peerv1.Command, a *peerv1.Answer, replay bool) {
	s := st.session(c.Session)
	s.seenAt = max(s.seenAt, c.IssuedAt)
	s.usedAt, s.usedIn = e.Index, e.Term
	if at, known := slices.BinarySearch(s.done, c.Number); !known {
		s.done = slices.Insert(s.done, at, c.Number)
	}
	if len(a.Value) > answerBytes {
		a = forgotten
	}
	st.set(e, doneKey(c.Session, c.Number), a)
	if !replay || st.mistakes.HonourAcks {
		s.firstIncomplete = max(s.firstIncomplete, min(c.FirstIncomplete, c.Number))
		most := memberAnswers
		if s.seenAt != 0 {
			most = clientAnswers
		}
		if excess := len(s.done) - most; excess > 0 {
			s.firstIncomplete = max(s.firstIncomplete, s.done[excess])
		}
		for len(s.done) > 0 && s.done[0] < s.firstIncomplete {
			st.remove(e, doneKey(c.Session, s.done[0]))
			s.done = s.done[1:]
		}
	}
	record := &peerv1.PartitionSession{FirstIncomplete: s.firstIncomplete, SeenAt: s.seenAt, UsedAt: s.usedAt, UsedIn: s.usedIn}
	if st.mistakes.ForgetWatermark {
		st.put(sessionKey(c.Session), record)
	} else {
		st.set(e, sessionKey(c.Session), record)
	}
	st.sessions.latest = max(st.sessions.latest, s.seenAt)
	if replay && st.mistakes.ExpireInReplay {
		st.forgetUnseen(e, e.Index)
	}
}

// expireSessions forgets, now and then, the sessions that were not seen for longest. Only what is synced is forgotten:
// the replay of what is not would find that its session may have been there (section 4.8).
func (p *Protocol) expireSessions() {
	if p.log.last() < p.sessions.looked+expireAfterEntries {
		return
	}
	p.sessions.looked = p.log.last()
	e := &peerv1.LogEntry{Term: p.partition.Term, Index: p.log.last() + 1}
	if p.forgetUnseen(e, p.commit) {
		p.extend(e)
	}
}

// forgetUnseen adds to an entry what forgets sessions whose last request is among the entries up to synced.
func (st *state) forgetUnseen(e *peerv1.LogEntry, synced uint64) (any bool) {
	var clients, members []uint64
	for id, s := range st.sessions.byID { // sorted below
		if s.seenAt != 0 {
			clients = append(clients, id)
		} else {
			members = append(members, id)
		}
	}
	all := st.sessions.byID
	slices.SortFunc(clients, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(all[a].seenAt, all[b].seenAt), cmp.Compare(a, b))
	})
	slices.SortFunc(members, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(all[a].usedAt, all[b].usedAt), cmp.Compare(a, b))
	})
	h := &st.sessions.horizon
	for i, id := range clients {
		s := all[id]
		if len(clients)-i <= clientSessions && s.seenAt >= st.sessions.latest-clientSessionsFor {
			break
		}
		if s.usedAt > synced {
			continue
		}
		if seenAfter(s.seenAt, id, h.SeenAt, h.Session) {
			h.SeenAt, h.Session = s.seenAt, id
		}
		st.forget(e, id)
		any = true
	}
	if any {
		st.set(e, []byte{horizonRecord}, h)
	}
	// A member's process is a session, and its number says nothing of the time. What it recorded at witnesses can come up
	// in its own term only.
	for i, id := range members {
		s := all[id]
		if len(members)-i <= memberSessions {
			break
		}
		if s.usedIn < st.term && s.usedAt <= synced {
			st.forget(e, id)
			any = true
		}
	}
	return any
}

func (st *state) forget(e *peerv1.LogEntry, id uint64) {
	for _, number := range st.sessions.byID[id].done {
		st.remove(e, doneKey(id, number))
	}
	st.remove(e, sessionKey(id))
	delete(st.sessions.byID, id)
}
