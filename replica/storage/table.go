package storage

import "sync/atomic"

// recordBytes is about what a table in memory needs for a record beside its key and value.
const recordBytes = 48

// table tells when the database's table in memory is better written out before it is full. A large table serves many
// keys: it is merged with what is on disk less often. Few keys gain nothing from it, since most of its records are
// overwritten in the table itself, and an insertion takes the longer the more records it searches.
type table struct {
	number  atomic.Uint32 // of this table, from 1: what was written last under another number is not in it
	repeats atomic.Int64  // of its records, those whose key it had already

	// What follows belongs to the committer.
	records, bytes int64
}

// add counts a commit, and reports whether the table should be written out now: it would fill the smallest one, and
// three records of four are overwritten. A table of that size which is not is the beginning of one of most bytes.
func (t *table) add(records, bytes int, most int64) (early bool) {
	t.records += int64(records)
	t.bytes += int64(bytes + records*recordBytes)
	early = t.bytes >= leastMemTable && t.repeats.Load() >= t.records/4*3
	if early || t.bytes >= most {
		t.number.Add(1)
		t.repeats.Store(0)
		t.records, t.bytes = 0, 0
	}
	return early
}
