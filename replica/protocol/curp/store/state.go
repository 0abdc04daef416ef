package store

import (
	"bytes"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// Due reports whether the log up to an index, which no later master lacks, is to be applied to the state on disk. The
// log has it meanwhile, on disk too: of many entries together, a session's record and those of answers that its client
// has acknowledged are written once or not at all. What former terms left, and what a copy needs, is not put off.
func (s *Store) Due(index uint64) bool {
	behind := s.Between(s.Own.Applied, index)
	return len(behind) > 0 && (uint64(len(behind)) >= s.KeptEntries() || s.Bytes > s.keptBytes() ||
		behind[0].Term < s.term || s.Own.Through != 0)
}

// ApplyUpTo makes the log up to an index part of the state on disk, and returns the entries that it applied.
func (s *Store) ApplyUpTo(index uint64) []*peerv1.LogEntry {
	entries := s.Between(s.Own.Applied, index)
	if len(entries) == 0 {
		return nil
	}
	type change struct {
		value   []byte
		present bool // false: deleted
		made    bool // by these entries: the disk has no such record
	}
	changes := map[string]change{}
	var keys [][]byte // of the changes, as they came
	for _, e := range entries {
		for _, r := range e.Records {
			c, known := changes[string(r.Key)]
			if !known {
				keys = append(keys, r.Key)
				// An answer is put once. The pages of a copy may have it, though, of a moment behind these entries.
				c.made = r.Key[0] == doneRecord && s.Own.Through == 0
			}
			c.value, c.present = r.Value, true
			changes[string(r.Key)] = c
			s.reach(r.Key, e.Index)
		}
		for _, key := range e.Deleted {
			c, known := changes[string(key)]
			if !known {
				keys = append(keys, key)
			}
			c.value, c.present = nil, false
			changes[string(key)] = c
			s.reach(key, e.Index)
		}
	}
	for _, key := range keys {
		switch c := changes[string(key)]; {
		case c.present:
			s.outbox.Journal.Put(key, c.value)
		case !c.made:
			s.outbox.Journal.Delete(key)
		}
	}
	s.Own.Applied = entries[len(entries)-1].Index
	s.Note()
	return entries
}

// reach notes that the state has a record as an entry made it.
func (s *Store) reach(key []byte, index uint64) {
	if s.ahead[string(key)].index == index {
		delete(s.ahead, string(key))
	}
}

// expect notes what entries make of the state before they are applied: at a master, which executes before that.
func (s *Store) expect(entries ...*peerv1.LogEntry) {
	if s.ahead == nil {
		s.ahead = map[string]unapplied{}
	}
	for _, e := range entries {
		for _, r := range e.Records {
			s.ahead[string(r.Key)] = unapplied{r.Value, true, e.Index}
		}
		for _, key := range e.Deleted {
			s.ahead[string(key)] = unapplied{index: e.Index}
		}
	}
}

// set has an entry set a record of the state.
func (s *Store) set(e *peerv1.LogEntry, key []byte, m marshaler) {
	e.Records = append(e.Records, &peerv1.Record{Key: key, Value: s.encode(m)})
}

// remove has an entry delete a record of the state.
func remove(e *peerv1.LogEntry, key []byte) { e.Deleted = append(e.Deleted, key) }

// Ahead reports whether the newest record of a key's register is that of an entry which is not applied.
func (s *Store) Ahead(key []byte) bool {
	_, ahead := s.ahead[string(registerKey(key))]
	return ahead
}

// newest is a record of the state: at a master as it has executed the log, at others as they have applied it.
func (s *Store) newest(key []byte) ([]byte, bool) {
	if a, ok := s.ahead[string(key)]; ok {
		return a.raw, a.present
	}
	return s.outbox.Journal.Get(key)
}

// Wipe drops the state and the log, to begin anew with a copy of another member's.
func (s *Store) Wipe() {
	var keys [][]byte
	s.outbox.Journal.Scan(nil, func(key, _ []byte) bool {
		if key[0] != ownRecord && !ofDisk(key) {
			keys = append(keys, bytes.Clone(key))
		}
		return true
	})
	for _, key := range keys {
		s.outbox.Journal.Delete(key)
	}
	s.Log = Log{}
	s.Commit = 0
	s.Own.Applied, s.Own.Commit, s.Own.WholeTerm, s.Own.WholeIndex = 0, 0, 0, 0
	s.Note()
}

// Page lists records of the state behind a key, of about so many bytes; nil stands for the beginning. It reports
// whether they are the last ones.
func (s *Store) Page(after []byte, most int) (records []*peerv1.Record, done bool) {
	if len(after) == 0 {
		after = BeforeState
	}
	return page(s.outbox.Journal, after, most)
}

// page lists records of a journal, as Page does.
func page(j *protocol.Journal, after []byte, most int) (records []*peerv1.Record, done bool) {
	size := 0
	done = true
	j.Scan(after, func(key, value []byte) bool {
		done = size <= most
		if done {
			size += len(key) + len(value)
			records = append(records, &peerv1.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		}
		return done
	})
	return records, done
}

// Adopt puts records of another member's state into this one, and returns how many bytes they are.
func (s *Store) Adopt(records []*peerv1.Record) (size int) {
	for _, r := range records {
		s.outbox.Journal.Put(r.Key, r.Value)
		size += len(r.Key) + len(r.Value)
	}
	return size
}

// load is the register of a key in a version of the state. An absent one has no carstamp.
func (s *Store) load(records func([]byte) ([]byte, bool), key []byte) register.Versioned {
	raw, _ := records(registerKey(key)) // no bytes are an absent value
	var record peerv1.RegisterRecord
	if err := decode(&record, raw); err != nil {
		s.outbox.Damaged(key, err)
		return register.Versioned{}
	}
	return wire.OfRecord(&record)
}

// Read is the register as a reader is told of it: at a master as it has executed the log, at others as they have
// applied it. An absent value has the place in the log at which it was found absent.
func (s *Store) Read(key []byte, at uint64) *peerv1.Answer {
	return answerOf(s.load(s.newest, key), at)
}

// ReadApplied is Read of the state that is on disk, which no failure takes back.
func (s *Store) ReadApplied(key []byte, at uint64) *peerv1.Answer {
	return answerOf(s.load(s.outbox.Journal.Get, key), at)
}

func answerOf(v register.Versioned, at uint64) *peerv1.Answer {
	if v.Value.Present() {
		at = v.Carstamp.Timestamp
	}
	return &peerv1.Answer{Present: v.Value.Present(), Value: v.Value, Timestamp: at}
}
