package store

import (
	"cmp"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Bounds on what a partition remembers of sessions (RIFL, section 4.8), unless the tuning has others.
const (
	clientSessions     = 16384          // sessions of clients
	clientSessionsFor  = 10 * 60 * 1000 // milliseconds without a request, by the issue times of all clients
	memberSessions     = 4096           // sessions of members, which have no issue times
	clientAnswers      = 64             // of a client's session that has not acknowledged them
	memberAnswers      = 4096
	answerBytes        = 16 << 10 // a larger answer is forgotten: its duplicate is recognised, not answered
	expireAfterEntries = 1024     // how often it is looked whether sessions can go, at least
)

// forgotten stands for an answer that is not kept.
var forgotten = &peerv1.Answer{Expired: true}

// session is what is remembered of a client's requests, or of those that a member made of operations without an id.
// Requests of equal number are one; of those below FirstIncomplete the answer is known to its client.
type session struct {
	peerv1.PartitionSession          // without SeenAt, the newest issue time, it is a member's
	done                    []uint64 // numbers with a record of their answer, ascending
}

// add notes that there is a record of the answer to a request.
func (s *session) add(number uint64) {
	if at, known := slices.BinarySearch(s.done, number); !known {
		s.done = slices.Insert(s.done, at, number)
	}
}

// sessions are all of a partition's, as the master knows them; their records are part of the replicated state.
type sessions struct {
	*Store
	byID    map[uint64]*session
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

// loadSessions reads the sessions from the state, and from the entries that are not applied yet. It leaves out the
// registers between them: there may be millions, and clients wait for a new master meanwhile.
func loadSessions(s *Store) *sessions {
	all := &sessions{Store: s, byID: map[uint64]*session{}}
	for _, kind := range []byte{doneRecord, sessionRecord} {
		for key, raw := range s.outbox.Journal.Kind([]byte{kind}) {
			if _, newer := s.ahead[string(key)]; !newer && !all.load(key, raw) {
				break
			}
		}
	}
	if raw, ok := s.newest([]byte{horizonRecord}); ok {
		all.load([]byte{horizonRecord}, raw)
	}
	for _, key := range slices.Sorted(maps.Keys(s.ahead)) {
		if a := s.ahead[key]; a.present && !all.load([]byte(key), a.raw) {
			break
		}
	}
	return all
}

// load takes a record of the state in, if it is of a session; false: it is damaged.
func (all *sessions) load(key, raw []byte) bool {
	err := checkKey(key)
	switch {
	case err != nil:
	case key[0] == doneRecord:
		all.session(beUint64(key[1:])).add(beUint64(key[9:]))
	case key[0] == horizonRecord:
		err = all.horizon.UnmarshalVT(raw)
	case key[0] == sessionRecord:
		s := all.session(beUint64(key[1:]))
		err = decode(&s.PartitionSession, raw)
	}
	if err != nil {
		all.outbox.Fault("a session on disk is damaged: %w", err)
	}
	return err == nil
}

// recall returns the answer that a request already got, or nil if it is new. What may be the duplicate of something
// forgotten counts as one.
func (all *sessions) recall(c *peerv1.Command) *peerv1.Answer {
	if s := all.byID[c.Session]; s != nil {
		if _, known := slices.BinarySearch(s.done, c.Number); known {
			raw, _ := all.newest(doneKey(c.Session, c.Number))
			a := &peerv1.Answer{}
			if err := decode(a, raw); err != nil {
				all.outbox.Fault("an answer on disk is damaged: %w", err)
			}
			return a
		}
		if c.Number < s.FirstIncomplete {
			return forgotten
		}
	}
	// A session that is known may have been forgotten before, with what it had done until then.
	h := &all.horizon
	if c.IssuedAt != 0 && !seenAfter(c.IssuedAt, c.Session, h.SeenAt, h.Session) {
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
func (all *sessions) remember(e *peerv1.LogEntry, c *peerv1.Command, a *peerv1.Answer, replayed bool) {
	s := all.session(c.Session)
	s.SeenAt = max(s.SeenAt, c.IssuedAt)
	s.UsedAt, s.UsedIn = e.Index, e.Term
	s.add(c.Number)
	if len(a.Value) > cmp.Or(all.config.Tuning.AnswerBytes, answerBytes) {
		a = forgotten
	}
	all.set(e, doneKey(c.Session, c.Number), a)
	if !replayed {
		all.acknowledge(e, s, c)
	}
	all.set(e, sessionKey(c.Session), &s.PartitionSession)
}

// acknowledge drops the answers that the client of a request has, and the oldest ones of a session that has too many.
// One is left: the request's own, which is no duplicate (recall), or the first that a session may keep.
func (all *sessions) acknowledge(e *peerv1.LogEntry, s *session, c *peerv1.Command) {
	s.FirstIncomplete = max(s.FirstIncomplete, min(c.FirstIncomplete, c.Number))
	most := memberAnswers
	if s.SeenAt != 0 {
		most = cmp.Or(all.config.Tuning.Answers, clientAnswers)
	}
	if excess := len(s.done) - most; excess > 0 {
		s.FirstIncomplete = max(s.FirstIncomplete, s.done[excess])
	}
	for s.done[0] < s.FirstIncomplete {
		remove(e, doneKey(c.Session, s.done[0]))
		s.done = s.done[1:]
	}
}

// forgetUnseen adds to an entry what forgets sessions whose last request is among the entries up to synced. It reports
// whether there are any.
func (all *sessions) forgetUnseen(e *peerv1.LogEntry, synced uint64) (forgets bool) {
	oldest := slices.SortedFunc(maps.Keys(all.byID), func(a, b uint64) int {
		if all.byID[a].SeenAt == 0 && all.byID[b].SeenAt == 0 {
			return cmp.Or(cmp.Compare(all.byID[a].UsedAt, all.byID[b].UsedAt), cmp.Compare(a, b))
		}
		return cmp.Or(cmp.Compare(all.byID[a].SeenAt, all.byID[b].SeenAt), cmp.Compare(a, b))
	})
	ofClients := slices.IndexFunc(oldest, func(id uint64) bool { return all.byID[id].SeenAt != 0 })
	if ofClients < 0 {
		ofClients = len(oldest)
	}
	members, clients := oldest[:ofClients], oldest[ofClients:]
	h, keptFor := &all.horizon, cmp.Or(all.config.Tuning.SessionsFor.Milliseconds(), clientSessionsFor)
	for i, id := range clients {
		s, latest := all.byID[id], all.byID[clients[len(clients)-1]].SeenAt
		if len(clients)-i <= all.most() && s.SeenAt >= latest-keptFor {
			break
		}
		if s.UsedAt > synced {
			continue
		}
		if seenAfter(s.SeenAt, id, h.SeenAt, h.Session) {
			h.SeenAt, h.Session = s.SeenAt, id
		}
		all.forget(e, id)
		forgets = true
	}
	if forgets {
		all.set(e, []byte{horizonRecord}, h)
	}
	// A member's process is a session, and its number says nothing of the time. What it recorded at witnesses can come
	// up in its own term only.
	for _, id := range members[:max(0, len(members)-memberSessions)] {
		if s := all.byID[id]; s.UsedIn < all.term && s.UsedAt <= synced {
			all.forget(e, id)
			forgets = true
		}
	}
	return forgets
}

// most is how many sessions of clients are remembered.
func (all *sessions) most() int { return cmp.Or(all.config.Tuning.Sessions, clientSessions) }

func (all *sessions) forget(e *peerv1.LogEntry, id uint64) {
	for _, number := range all.byID[id].done {
		remove(e, doneKey(id, number))
	}
	remove(e, sessionKey(id))
	delete(all.byID, id)
}
