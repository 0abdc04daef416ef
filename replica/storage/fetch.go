package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
)

const (
	// fetchesAtOnce bounds the goroutines of a disk that read records: more would not make a disk faster.
	fetchesAtOnce = 64
	// fetchRecords is how many records one of them reads before it says so.
	fetchRecords = 16
)

var _ protocol.Fetcher = (*diskShard)(nil)

// fetches are the records that a shard brings into its cache beside its loop.
type fetches struct {
	mutex   sync.Mutex
	fetched []entry // not collected yet

	// What follows belongs to the goroutine that reads and commits.
	overtaken map[string]bool // by key, of those under way: it was written meanwhile
}

// note says what a batch writes: what is being read of that is older.
func (f *fetches) note(batch protocol.Batch) {
	if len(f.overtaken) == 0 {
		return
	}
	for _, u := range batch.Mutations {
		if _, underWay := f.overtaken[string(u.Key)]; underWay {
			f.overtaken[string(u.Key)] = true
		}
	}
}

// Known implements protocol.Fetcher.
func (s *diskShard) Known(key []byte) bool {
	_, known := s.cache.get(key)
	return known
}

// Fetch implements protocol.Fetcher.
func (s *diskShard) Fetch(keys []string, collect func()) {
	if s.overtaken == nil {
		s.overtaken = map[string]bool{}
	}
	var missing []string
	for _, key := range keys {
		if _, underWay := s.overtaken[key]; !underWay { // else for a loop before this one, of the view before
			s.overtaken[key] = false
			missing = append(missing, key)
		}
	}
	for part := range slices.Chunk(missing, fetchRecords) {
		go s.fetch(part, collect)
	}
}

// fetch reads records, unless the store is closed or fails: then nobody waits for them any more.
func (s *diskShard) fetch(keys []string, collect func()) {
	d := s.disk
	d.fetching <- struct{}{}
	defer func() { <-d.fetching }()
	d.using.RLock()
	defer d.using.RUnlock()
	if d.closed || d.failure.reason() != nil {
		return
	}
	read := make([]entry, len(keys))
	for i, key := range keys {
		value, err := d.find(append(append([]byte{}, s.prefix...), key...))
		if err != nil {
			d.failure.set(fmt.Errorf("disk failed: read: %w", err))
			return
		}
		read[i] = entry{key: key, value: value}
	}
	s.mutex.Lock()
	s.fetched = append(s.fetched, read...)
	s.mutex.Unlock()
	collect()
}

// Collect implements protocol.Fetcher. What was written meanwhile the cache has, or had: then it is read again.
func (s *diskShard) Collect() (keys []string) {
	s.mutex.Lock()
	fetched := s.fetched
	s.fetched = nil
	s.mutex.Unlock()
	for _, e := range fetched {
		if !s.overtaken[e.key] {
			s.cache.put([]byte(e.key), e.value)
		}
		delete(s.overtaken, e.key)
		keys = append(keys, e.key)
	}
	return keys
}

// find returns a copy of a record in the database by its whole key, or nil.
func (d *disk) find(key []byte) (value []byte, err error) {
	defer foundDamaged(&err)
	stored, closer, err := d.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Never nil, even when it is empty.
	stored = append(make([]byte, 0, len(stored)), stored...)
	if err := closer.Close(); err != nil {
		return nil, err // the value is in a file of values, which could not be read: Get has not said so
	}
	return d.checked(key, stored)
}

// foundDamaged has an error say that the database panicked over what it read: it takes that for what it wrote.
func foundDamaged(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: %v", durable.ErrDamaged, reason)
	}
}
