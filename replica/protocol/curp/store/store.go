// Package store is one member's copy of a partition of CURP, on its disk and in memory: the log, the state that the log
// makes of registers and of what RIFL remembers, and the record of the member's part. It orders and executes requests,
// and knows no role, no time and no peer.
//
// From the top: execute.go runs a request at a master and makes an entry of the log of it; session.go remembers answers
// (RIFL, section 4.8 of the paper); store.go is the log and the record of the part on disk, and state.go the state;
// log.go is the log in memory; record.go the keys and the codec of records. divide.go splits the copy of one partition
// into two, and check.go refuses what no copy has.
package store

import (
	"bytes"
	"cmp"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
)

// Bounds, unless the tuning has others, on the entries that are not applied yet (Due), and on those that are kept
// although no member is known to need them: a learner that becomes a backup when the master is lost may be a little
// behind the backup that becomes the master, and should not have to copy everything.
const (
	keptEntries = 512
	keptBytes   = 4 << 20
)

// Store is one member's copy of a partition.
type Store struct {
	Log
	Own    *peerv1.PartitionRecord // the member's part; who changes it calls Note
	Commit uint64                  // all backups hold the log up to this index

	term    uint64 // of the view: that of new entries
	config  *protocol.Config
	outbox  *base.Outbox // its journal, and its faults
	unsaved bool         // Own differs from the record on disk

	ahead map[string]unapplied // at a master: records of the state, by key, as entries made them that are not applied
}

// unapplied is a record of the state as a master has executed it. The state on disk is older: it has the log up to
// Own.Applied, which no later master lacks.
type unapplied struct {
	raw     []byte
	present bool   // false: deleted
	index   uint64 // of the entry
}

// New reads the record of the member's part in a term, and reports whether the disk has one. Load reads the log.
func New(term uint64, config *protocol.Config, outbox *base.Outbox) (s *Store, known bool, err error) {
	s = &Store{term: term, config: config, outbox: outbox}
	s.Own, err = readOwn(outbox.Journal)
	if known = s.Own != nil; !known {
		s.Own = &peerv1.PartitionRecord{}
	}
	return s, known, err
}

// Load reads the entries of the log that are on disk.
func (s *Store) Load() {
	s.Floor, s.History = s.Own.Floor, s.Own.History
	for _, raw := range s.outbox.Journal.Kind([]byte{logRecord}) {
		e := &peerv1.LogEntry{}
		if err := decode(e, bytes.Clone(raw)); err != nil {
			s.outbox.Fault("an entry of the log on disk is damaged: %w", err)
			return
		}
		if e.Index != s.Last()+1 {
			s.outbox.Fault("entry %d of the log on disk follows entry %d", e.Index, s.Last())
			return
		}
		s.add(e)
	}
}

// Note has the next Save put the record of the member's part.
func (s *Store) Note() { s.unsaved = true }

// Save puts the record of the member's part into the journal, if it has changed.
func (s *Store) Save() {
	if s.unsaved {
		s.unsaved = false
		s.Own.Floor, s.Own.History = s.Floor, s.History
		s.put(ownKey(), s.Own)
	}
}

// Durable reports whether the disk has all of the copy, and of the record of the member's part.
func (s *Store) Durable() bool { return !s.unsaved && s.outbox.Journal.Clean() }

// NoteRecovered notes up to which index the log has all that was to be recovered from the terms before one.
func (s *Store) NoteRecovered(term, index uint64) {
	s.Own.WholeTerm, s.Own.WholeIndex = term, index
	s.Own.NotedTerm = max(s.Own.NotedTerm, term)
	s.Note()
}

type marshaler interface{ MarshalVT() ([]byte, error) }

func (s *Store) encode(m marshaler) []byte { return s.outbox.Encode(m, "a record", nil) }

// put sets a record of this member alone.
func (s *Store) put(key []byte, m marshaler) { s.outbox.Journal.Put(key, s.encode(m)) }

// Append adds an entry to the log and the disk.
func (s *Store) Append(e *peerv1.LogEntry) {
	s.add(e)
	s.put(logKey(e.Index), e)
	s.Note()
}

// Truncate drops the entries behind an index from the log and the disk.
func (s *Store) Truncate(index uint64) {
	for _, e := range s.Behind(index) {
		s.outbox.Journal.Delete(logKey(e.Index))
	}
	s.cut(index)
	if s.Own.WholeIndex > index {
		s.Own.WholeTerm, s.Own.WholeIndex = 0, 0 // the master of a later term has not got it from that one
	}
	s.Note()
}

// Trim forgets entries up to an index that no member needs, and that are applied, but for some (KeptEntries).
func (s *Store) Trim(index uint64) {
	index = min(index, s.Own.Applied)
	n := 0
	for _, e := range s.entries {
		if e.Index > index || s.Last()-e.Index < s.KeptEntries() && s.Bytes <= s.keptBytes() {
			break
		}
		s.Bytes -= e.SizeVT()
		s.outbox.Journal.Delete(logKey(e.Index))
		n++
	}
	if n > 0 {
		s.shift(n)
		s.Note()
	}
}

// KeptEntries is how many entries are kept although no member is known to need them.
func (s *Store) KeptEntries() uint64 {
	return uint64(min(cmp.Or(s.config.Tuning.LogEntries, keptEntries), s.config.Sync.Kept))
}

func (s *Store) keptBytes() int { return cmp.Or(s.config.Tuning.LogBytes, keptBytes) }
