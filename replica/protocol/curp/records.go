package curp

import (
	"encoding/binary"
	"strconv"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// The journal's keys. The state, which is replicated: 'r' + key holds a RegisterRecord, 's' + session a
// PartitionSession, 'd' + session + number the Answer of a request, 'h' the SessionHorizon. The member's own: 'L' +
// index holds a LogEntry, 'P' the PartitionRecord; and of its disk: 'C' how many batches it has had, 'K' the
// PositionRecord.
const (
	countRecord    = 'C'
	heardRecord    = 'K'
	logRecord      = 'L'
	ownRecord      = 'P'
	doneRecord     = 'd'
	horizonRecord  = 'h'
	registerRecord = 'r'
	sessionRecord  = 's'
)

// beforeState comes before all keys of the state, and after the member's own.
var beforeState = []byte{'a'}

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{logRecord}, index) }

func ownKey() []byte { return []byte{ownRecord} }

func registerKey(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), registerRecord), key...)
}

func sessionKey(session uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{sessionRecord}, session)
}

func doneKey(session, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{doneRecord}, session), number)
}

type marshaler interface{ MarshalVT() ([]byte, error) }

// put sets a record of this member alone.
func (st *state) put(key []byte, m marshaler) []byte {
	raw, err := m.MarshalVT()
	if err != nil {
		st.outbox.Fault("encode a record: %w", err)
		return nil
	}
	st.journal.Put(key, raw)
	return raw
}

// unapplied is a record of the state as a master has executed it, and as the state does not have it yet: that has the
// log up to own.Applied, which no later master lacks.
type unapplied struct {
	raw   []byte // nil: deleted
	index uint64 // of the entry
}

// set has an entry set a record of the state.
func (st *state) set(e *peerv1.LogEntry, key []byte, m marshaler) {
	raw, err := m.MarshalVT()
	if err != nil {
		st.outbox.Fault("encode a record: %w", err)
	}
	if raw == nil {
		raw = []byte{}
	}
	e.Records = append(e.Records, &peerv1.Record{Key: key, Value: raw})
	st.ahead[string(key)] = unapplied{raw, e.Index}
}

// remove has an entry delete a record of the state.
func (st *state) remove(e *peerv1.LogEntry, key []byte) {
	e.Deleted = append(e.Deleted, key)
	st.ahead[string(key)] = unapplied{nil, e.Index}
}

// expect notes what an entry that is not applied yet makes of the state.
func (st *state) expect(e *peerv1.LogEntry) {
	for _, r := range e.Records {
		st.ahead[string(r.Key)] = unapplied{append([]byte{}, r.Value...), e.Index}
	}
	for _, key := range e.Deleted {
		st.ahead[string(key)] = unapplied{nil, e.Index}
	}
}

// apply makes an entry part of the state.
func (st *state) apply(e *peerv1.LogEntry) {
	for _, r := range e.Records {
		st.journal.Put(r.Key, r.Value)
		st.reach(r.Key, e.Index)
	}
	for _, key := range e.Deleted {
		st.journal.Delete(key)
		st.reach(key, e.Index)
	}
	st.own.Applied = e.Index
}

// reach notes that the state has a record as an entry made it.
func (st *state) reach(key []byte, index uint64) {
	if st.ahead[string(key)].index == index {
		delete(st.ahead, string(key))
	}
}

// newest is a record of the state: at a master as it has executed the log, at others as they have applied it.
func (st *state) newest(key []byte) ([]byte, bool) {
	if a, ok := st.ahead[string(key)]; ok {
		return a.raw, a.raw != nil
	}
	return st.journal.Get(key)
}

// load is the register of a key. An absent one has no carstamp.
func (st *state) load(key []byte) register.Versioned {
	raw, ok := st.newest(registerKey(key))
	if !ok {
		return register.Versioned{}
	}
	return st.decode(key, raw)
}

// decode reads a register's record.
func (st *state) decode(key, raw []byte) register.Versioned {
	var record peerv1.RegisterRecord
	if err := record.UnmarshalVTUnsafe(raw); err != nil { // records never change, so the value may alias one
		st.outbox.Fault("the register of %q on disk is damaged: %w", key, err)
		return register.Versioned{}
	}
	if err := bounds.Record(&record); err != nil {
		st.outbox.Fault("the register of %q on disk is damaged: %w", key, err)
		return register.Versioned{}
	}
	return register.Versioned{Carstamp: register.Carstamp{Timestamp: record.Timestamp}, Value: stamp.Value(record.Present, record.Value)}
}

// loadOwn reads what this member knows of its part; false if its disk says nothing.
func (st *state) loadOwn() (bool, error) {
	own, err := readOwn(st.journal)
	if err != nil {
		return false, err
	}
	if st.own = own; own == nil {
		st.own = &peerv1.PartitionRecord{}
	}
	return own != nil, nil
}

// save puts what this member knows of its part into the journal, if there is news.
func (st *state) save() {
	if !st.unsaved {
		return
	}
	st.unsaved = false
	st.own.Floor, st.own.History = st.log.floor, st.log.history
	st.put(ownKey(), st.own)
}

// wipe drops the state and the log, to begin anew with a copy of another member's.
func (st *state) wipe() {
	var keys [][]byte
	collect := func(key, _ []byte) bool {
		if key[0] != ownRecord && !keeps(key) {
			keys = append(keys, append([]byte{}, key...))
		}
		return true
	}
	st.journal.Scan(nil, collect)
	for _, key := range keys {
		st.journal.Delete(key)
	}
	st.log = log{}
	st.own.Applied, st.own.Commit = 0, 0
	st.own.WholeTerm, st.own.WholeIndex = 0, 0
	st.unsaved = true
}

// digestOf is the digest of a view as messages carry it.
func digestOf(v view.View) uint64 {
	n, err := strconv.ParseUint(v.Digest(), 16, 64)
	if err != nil {
		panic(err) // of 16 hexadecimal digits
	}
	return n
}

// become notes up to where the log has all that was to be recovered from the terms before one.
func (st *state) become(term, index uint64) {
	st.own.WholeTerm, st.own.WholeIndex = term, index
	st.own.NotedTerm = max(st.own.NotedTerm, term)
	st.unsaved = true
}
