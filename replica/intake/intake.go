// Package intake keeps what comes to a protocol until the records that it will read for it are in memory, so that an
// input whose records are not does not have all others wait for the disk. To the protocol such an input has come later;
// those that wait for one record keep their order.
package intake

import (
	"maps"
	"slices"
)

// Queue has inputs that wait, each for one record at a time. The zero Queue is empty.
type Queue[T any] struct {
	waiting map[string][]T // by the record
	length  int
	record  []byte // scratch
}

// Missing is the first record that has to be waited for, of those whose keys begin with one byte of kinds each, and go
// on with a register's key (protocol.Keyed): known does not know it, or others wait for it. The bytes are valid until
// the next call. Nil: there is none.
func (q *Queue[T]) Missing(kinds string, key []byte, known func(record []byte) bool) []byte {
	for i := range len(kinds) {
		q.record = append(append(q.record[:0], kinds[i]), key...)
		if _, awaited := q.waiting[string(q.record)]; awaited || !known(q.record) {
			return q.record
		}
	}
	return nil
}

// Keep has an input wait for a record. First is true if no other one waits for it: somebody has to fetch it.
func (q *Queue[T]) Keep(record []byte, input T) (first bool) {
	if q.waiting == nil {
		q.waiting = map[string][]T{}
	}
	before, awaited := q.waiting[string(record)]
	q.waiting[string(record)] = append(before, input)
	q.length++
	return !awaited
}

// Take returns those that waited for a record, in the order in which they came. Each may miss another one now.
func (q *Queue[T]) Take(record string) []T {
	taken := q.waiting[record]
	delete(q.waiting, record)
	q.length -= len(taken)
	return taken
}

// Len is how many inputs wait.
func (q *Queue[T]) Len() int { return q.length }

// TakeAll returns all that wait, by their records, and those of one record in the order in which they came.
func (q *Queue[T]) TakeAll() (all []T) {
	for _, record := range slices.Sorted(maps.Keys(q.waiting)) {
		all = append(all, q.waiting[record]...)
	}
	q.waiting, q.length = nil, 0
	return all
}
