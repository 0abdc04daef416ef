package check

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
)

// Makes judges the entries that a partition's master makes: what they remember of requests and forget, by the state
// before each, which is the one on its disk with the entries that are not applied yet.
func (h *Holder) Makes(t *protocol.Tuning, q *Requests, b *protocol.Batch) error {
	if h.Shard >= len(h.View.Partitions) || h.View.Partitions[h.Shard].Master != h.Member {
		return nil
	}
	term, made := h.View.Partitions[h.Shard].Term, map[uint64][]byte{}
	of := func(raw []byte) uint64 { return field.Number(raw, entryOfTerm) }
	for _, m := range b.Mutations {
		if len(m.Key) == 9 && m.Key[0] == curpEntry && m.Value != nil && of(m.Value) == term {
			made[binary.BigEndian.Uint64(m.Key[1:])] = m.Value
		}
	}
	var own peerv1.PartitionRecord
	if len(made) == 0 || own.UnmarshalVT(h.after(b, curpOwn)) != nil || own.Term != term {
		return nil
	}
	s := h.stateWith(b)
	for index := own.Applied + 1; ; index++ {
		raw, isNew := made[index]
		if !isNew {
			raw = h.curpEntry(index)
		}
		var e peerv1.LogEntry
		if raw == nil || e.UnmarshalVT(raw) != nil {
			return nil
		}
		if isNew {
			if err := s.entry(&making{&e, t, q, own.Commit}); err != nil {
				return fmt.Errorf("shard %d: entry %d: %w", h.Shard, index, err)
			}
		}
		s.execute(&e)
	}
}

// Looked judges the sessions of clients that a master remembers after it has looked which can go, when all that it has
// made is on its disk: of those used by nothing that was not synced before, as many as it may, and none too old.
func (h *Holder) Looked(t *protocol.Tuning, synced uint64) error {
	s := h.executed()
	all := slices.DeleteFunc(s.clients(), func(k known) bool { return k.usedAt > synced })
	n, most := len(all), sessionsKept(t)
	if n == 0 || n <= most && all[0].seenAt >= all[n-1].seenAt-keptFor(t) {
		return nil
	}
	return fmt.Errorf("it has looked which sessions can go since entry %d was synced, and remembers %d of before, the "+
		"oldest seen at %d, the newest at %d: it may remember %d", synced, n, all[0].seenAt, all[n-1].seenAt, most)
}

// executed is the state as the log on the disk makes it, up to its end.
func (h *Holder) executed() *state {
	s := h.stateWith(&protocol.Batch{})
	for index := h.curpOwn().GetApplied() + 1; ; index++ {
		var e peerv1.LogEntry
		if raw := h.curpEntry(index); raw == nil || e.UnmarshalVT(raw) != nil {
			return s
		}
		s.execute(&e)
	}
}

// state is that of a partition as its master has executed the log.
type state struct {
	h     *Holder
	b     *protocol.Batch
	ahead map[string][]byte // of entries that are not applied; nil: deleted
}

func (h *Holder) stateWith(b *protocol.Batch) *state {
	return &state{h: h, b: b, ahead: map[string][]byte{}}
}

// execute makes of the state what it is after an entry.
func (s *state) execute(e *peerv1.LogEntry) {
	for _, r := range e.Records {
		s.ahead[string(r.Key)] = append([]byte{}, r.Value...) // also an empty one is there
	}
	for _, key := range e.Deleted {
		s.ahead[string(key)] = nil
	}
}

// making is an entry, with what it is judged by. Its master has synced no more than commit when it makes it.
type making struct {
	*peerv1.LogEntry
	t      *protocol.Tuning
	q      *Requests
	commit uint64
}

// get is a record of the state, and whether there is one.
func (s *state) get(key []byte) (raw []byte, is bool) {
	raw, is = s.ahead[string(key)]
	if is {
		return raw, raw != nil
	}
	if raw, is = written(s.b, string(key)); is {
		return raw, raw != nil
	}
	raw, is = s.h.Records[string(key)]
	return raw, is
}

// clients are the sessions of clients that the state has, by when they were seen last.
func (s *state) clients() (all []known) {
	add := func(key string) {
		if len(key) != 9 || key[0] != curpSession {
			return
		}
		var session peerv1.PartitionSession
		if raw, is := s.get([]byte(key)); is && session.UnmarshalVT(raw) == nil && session.SeenAt != 0 {
			all = append(all, known{binary.BigEndian.Uint64([]byte(key[1:])), session.SeenAt, session.UsedAt})
		}
	}
	for key := range s.h.Records { // order is irrelevant: they are sorted
		add(key)
	}
	for _, m := range s.b.Mutations {
		add(string(m.Key))
	}
	for key := range s.ahead { // order is irrelevant: they are sorted
		add(key)
	}
	slices.SortFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.seenAt, b.seenAt), cmp.Compare(a.id, b.id))
	})
	return slices.Compact(all)
}

// known is a session that is remembered.
type known struct {
	id     uint64
	seenAt int64
	usedAt uint64 // by that entry
}

// entry judges one that a master makes.
func (s *state) entry(e *making) error {
	for _, key := range e.Deleted {
		sets := func(r *peerv1.Record) bool { return bytes.Equal(r.Key, key) } // a late request's own answer
		if _, is := s.get(key); !is && key[0] != curpRegister && !slices.ContainsFunc(e.Records, sets) {
			return fmt.Errorf("it deletes the record %q, which is not there", key)
		}
	}
	if e.Session == 0 {
		return s.forgets(e)
	}
	return s.executes(e)
}

// executes judges what an entry remembers of its request: it was not executed before, and requests that count as over
// from now on are those that its client has acknowledged, or before the answers that are kept.
func (s *state) executes(e *making) error {
	record := func(key []byte) []byte {
		for _, r := range e.Records {
			if bytes.Equal(r.Key, key) {
				return r.Value
			}
		}
		return nil
	}
	key := sessionKey(e.Session)
	var before, now peerv1.PartitionSession
	raw, _ := s.get(key)
	if before.UnmarshalVT(raw) != nil || now.UnmarshalVT(record(key)) != nil {
		return nil
	}
	if _, is := s.get(doneKey(e.Session, e.Number)); is || e.Number < before.FirstIncomplete {
		return fmt.Errorf("it executes request %d#%d again", e.Session, e.Number)
	}
	if now.UsedAt != e.Index || now.UsedIn != e.Term || now.SeenAt < before.SeenAt ||
		now.FirstIncomplete < before.FirstIncomplete {
		return fmt.Errorf("it remembers session %d as %v, which was %v", e.Session, &now, &before)
	}
	if err := e.q.sees(e.Session, e.Number, now.SeenAt); err != nil {
		return err
	}
	if now.SeenAt == 0 || now.FirstIncomplete == before.FirstIncomplete {
		return nil
	}
	drops := slices.ContainsFunc(e.Deleted, func(key []byte) bool { return key[0] == curpDone })
	acknowledged := before.FirstIncomplete
	if of := e.q.sessions[e.Session]; of != nil {
		acknowledged = max(acknowledged, of.acknowledged)
	}
	if now.FirstIncomplete > acknowledged && !drops {
		return fmt.Errorf("it takes the requests of session %d before %d for over, of which its client has "+
			"acknowledged those before %d, and drops no answer", e.Session, now.FirstIncomplete, acknowledged)
	}
	kept, most := 0, cmp.Or(e.t.Answers, 64)
	if e.Number >= now.FirstIncomplete {
		kept++
	}
	for number := now.FirstIncomplete; number < now.FirstIncomplete+uint64(2*most+64); number++ {
		if _, is := s.get(doneKey(e.Session, number)); is {
			kept++
		}
	}
	if kept > most {
		return fmt.Errorf("it keeps %d answers of session %d, and may keep %d", kept, e.Session, most)
	}
	return nil
}

// forgets judges which sessions of clients an entry forgets: those that were not seen for longest, as far as they are
// too many or too old, and none with a request that is not synced.
func (s *state) forgets(e *making) error {
	clients := s.clients()
	for i, k := range clients {
		key := sessionKey(k.id)
		if !slices.ContainsFunc(e.Deleted, func(d []byte) bool { return bytes.Equal(d, key) }) {
			continue
		}
		if k.usedAt > e.commit {
			return fmt.Errorf("it forgets session %d, which entry %d has used, and synced is %d", k.id, k.usedAt,
				e.commit)
		}
		late := k.seenAt < clients[len(clients)-1].seenAt-keptFor(e.t)
		if most := sessionsKept(e.t); len(clients)-i <= most && !late {
			return fmt.Errorf("it forgets session %d, and %d of %d were seen later: it may keep %d", k.id,
				len(clients)-i-1, len(clients), most)
		}
	}
	return nil
}
