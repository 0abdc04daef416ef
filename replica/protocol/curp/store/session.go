package store

import (
	"cmp"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
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
	seenAt          int64 // the newest issue time; 0: a member's
	usedAt, usedIn  uint64
	done            []uint64 // numbers with a record of their answer, ascending
}

// add notes that there is a record of the answer to a request.
func (s *session) add(number uint64) {
	if at, known := slices.BinarySearch(s.done, number); !known {
		s.done = slices.Insert(s.done, at, number)
	}
}

// sessions are all of a partition's, as the master knows them; their records are part of the replicated state.
type sessions struct {
	byID    map[uint64]*session
	latest  int64 // the newest issue time
	horizon peerv1.SessionHorizon
	looked  uint64 // the index at which expiry was looked at
}

// session returns that of an id, new if there was none.
func (all *sessions) session(id uint64) *session {
	s := all.byID[id]
	if s == nil {
		s = &session{}
		all.byID[id] = s
	}
	return s
}

// LoadSessions reads the sessions from the state, and from the entries that are not applied yet. It leaves out the
// registers between them: there may be millions, and clients wait for a new master meanwhile.
func (s *Store) LoadSessions() {
	s.sessions = sessions{byID: map[uint64]*session{}}
	for _, kind := range []byte{doneRecord, sessionRecord} {
		s.outbox.Journal.Scan([]byte{kind}, func(key, raw []byte) bool { // keys are longer than what names the kind
			if key[0] != kind {
				return false
			}
			_, newer := s.ahead[string(key)]
			return newer || s.loadSession(key, raw)
		})
	}
	if raw, ok := s.newest([]byte{horizonRecord}); ok {
		s.loadSession([]byte{horizonRecord}, raw)
	}
	for _, key := range slices.Sorted(maps.Keys(s.ahead)) {
		if a := s.ahead[key]; a.present && !s.loadSession([]byte(key), a.raw) {
			return
		}
	}
}

// loadSession takes a record of the state in, if it is of a session; false: it is damaged.
func (s *Store) loadSession(key, raw []byte) bool {
	all := &s.sessions
	err := checkKey(key)
	switch {
	case err != nil:
	case key[0] == doneRecord:
		all.session(beUint64(key[1:])).add(beUint64(key[9:]))
	case key[0] == horizonRecord:
		err = all.horizon.UnmarshalVT(raw)
	case key[0] == sessionRecord:
		var record peerv1.PartitionSession
		err = decode(&record, raw)
		x := all.session(beUint64(key[1:]))
		x.firstIncomplete, x.seenAt, x.usedAt, x.usedIn = record.FirstIncomplete, record.SeenAt, record.UsedAt, record.UsedIn
		all.latest = max(all.latest, x.seenAt)
	}
	if err != nil {
		s.outbox.Fault("a session on disk is damaged: %w", err)
	}
	return err == nil
}

// Recall returns the answer that a request already got, or nil if it is new. What may be the duplicate of something
// forgotten is not executed.
func (s *Store) Recall(c *peerv1.Command) *peerv1.Answer {
	if s.mistakes.ForgetDuplicates {
		return nil
	}
	x := s.sessions.byID[c.Session]
	if x == nil {
		h := &s.sessions.horizon
		if c.IssuedAt != 0 && h.SeenAt != 0 && !seenAfter(c.IssuedAt, c.Session, h.SeenAt, h.Session) {
			return forgotten
		}
		return nil
	}
	if _, known := slices.BinarySearch(x.done, c.Number); known {
		raw, _ := s.newest(doneKey(c.Session, c.Number))
		a := &peerv1.Answer{}
		if err := decode(a, raw); err != nil {
			s.outbox.Fault("an answer on disk is damaged: %w", err)
		}
		return a
	}
	if c.Number < x.firstIncomplete {
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
func (s *Store) remember(e *peerv1.LogEntry, c *peerv1.Command, a *peerv1.Answer, replayed bool) {
	x := s.sessions.session(c.Session)
	x.seenAt = max(x.seenAt, c.IssuedAt)
	x.usedAt, x.usedIn = e.Index, e.Term
	x.add(c.Number)
	if len(a.Value) > answerBytes {
		a = forgotten
	}
	s.set(e, doneKey(c.Session, c.Number), a)
	if !replayed || s.mistakes.HonourAcks {
		s.acknowledge(e, x, c)
	}
	record := &peerv1.PartitionSession{FirstIncomplete: x.firstIncomplete, SeenAt: x.seenAt, UsedAt: x.usedAt, UsedIn: x.usedIn}
	if s.mistakes.ForgetWatermark {
		s.put(sessionKey(c.Session), record)
	} else {
		s.set(e, sessionKey(c.Session), record)
	}
	s.sessions.latest = max(s.sessions.latest, x.seenAt)
	if replayed && s.mistakes.ExpireInReplay {
		s.forgetUnseen(e, e.Index)
	}
}

// acknowledge drops the answers that the client of a request has, and the oldest ones of a session that has too many.
func (s *Store) acknowledge(e *peerv1.LogEntry, x *session, c *peerv1.Command) {
	x.firstIncomplete = max(x.firstIncomplete, min(c.FirstIncomplete, c.Number))
	most := memberAnswers
	if x.seenAt != 0 {
		most = clientAnswers
	}
	if excess := len(x.done) - most; excess > 0 {
		x.firstIncomplete = max(x.firstIncomplete, x.done[excess])
	}
	for len(x.done) > 0 && x.done[0] < x.firstIncomplete {
		s.remove(e, doneKey(c.Session, x.done[0]))
		x.done = x.done[1:]
	}
}

// ExpireSessions forgets, now and then, the sessions that were not seen for longest, by an entry of its own, and
// reports whether it made one. Only what is synced is forgotten: the replay of what is not would find that its session
// may have been there (section 4.8).
func (s *Store) ExpireSessions() bool {
	if s.Last() < s.sessions.looked+expireAfterEntries {
		return false
	}
	s.sessions.looked = s.Last()
	e := s.nextEntry()
	forgets := s.forgetUnseen(e, s.Commit)
	if forgets {
		s.extend(e)
	}
	return forgets
}

// forgetUnseen adds to an entry what forgets sessions whose last request is among the entries up to synced. It reports
// whether there are any.
func (s *Store) forgetUnseen(e *peerv1.LogEntry, synced uint64) (forgets bool) {
	all := s.sessions.byID
	oldest := slices.SortedFunc(maps.Keys(all), func(a, b uint64) int {
		if all[a].seenAt == 0 && all[b].seenAt == 0 {
			return cmp.Or(cmp.Compare(all[a].usedAt, all[b].usedAt), cmp.Compare(a, b))
		}
		return cmp.Or(cmp.Compare(all[a].seenAt, all[b].seenAt), cmp.Compare(a, b))
	})
	ofClients := slices.IndexFunc(oldest, func(id uint64) bool { return all[id].seenAt != 0 })
	if ofClients < 0 {
		ofClients = len(oldest)
	}
	members, clients := oldest[:ofClients], oldest[ofClients:]
	h := &s.sessions.horizon
	for i, id := range clients {
		x := all[id]
		if len(clients)-i <= clientSessions && x.seenAt >= s.sessions.latest-clientSessionsFor {
			break
		}
		if x.usedAt > synced {
			continue
		}
		if seenAfter(x.seenAt, id, h.SeenAt, h.Session) {
			h.SeenAt, h.Session = x.seenAt, id
		}
		s.forget(e, id)
		forgets = true
	}
	if forgets {
		s.set(e, []byte{horizonRecord}, h)
	}
	// A member's process is a session, and its number says nothing of the time. What it recorded at witnesses can come up
	// in its own term only.
	for _, id := range members[:max(0, len(members)-memberSessions)] {
		if x := all[id]; x.usedIn < s.term && x.usedAt <= synced {
			s.forget(e, id)
			forgets = true
		}
	}
	return forgets
}

func (s *Store) forget(e *peerv1.LogEntry, id uint64) {
	for _, number := range s.sessions.byID[id].done {
		s.remove(e, doneKey(id, number))
	}
	s.remove(e, sessionKey(id))
	delete(s.sessions.byID, id)
}
