package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/georegister/georegister/replica/protocol"
)

const (
	// memTableBytes lets a hot register be overwritten many times before it is written out. Larger tables cost
	// more than they save: an insertion searches the table, and misses the processor's caches.
	memTableBytes = 8 << 20
	// memTables may wait to be written out before commits wait for them.
	memTables  = 4
	cacheBytes = 32 << 20
	// groupBytes bounds what one commit takes of what is waiting, so that it fits a table.
	groupBytes = 2 << 20
	// prefixBytes is the length of a shard's number in front of its keys.
	prefixBytes = 2
)

// disk is the engine over a Pebble database.
type disk struct {
	db      *pebble.DB
	options *Options
	failure *failure
	observe func(Commit)
	readers []*diskShard

	mutex   sync.Mutex
	waiting []request
	closing bool
	wake    chan struct{} // capacity 1
	stopped chan struct{}

	using  sync.RWMutex // a closed database must not be asked for its size
	closed bool
}

type request struct {
	shard int
	batch protocol.Batch
	done  func(uint64)
}

func openDisk(path string, o *Options, f *failure, observe func(Commit)) (*disk, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	db, err := pebble.Open(path, &pebble.Options{
		FS:                          o.FileSystem,
		Cache:                       cache,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: memTables,
		FormatMajorVersion:          pebble.FormatValueSeparation,
		// Most keys that are asked for and not in memory don't exist: filters spare the search.
		Levels: filters(),
		Logger: newDatabaseLog(o.Logger, f),
		EventListener: &pebble.EventListener{
			// The database would try a failed flush again and again; here a disk that failed once
			// (or is full) is not trusted.
			BackgroundError: func(err error) { f.set(fmt.Errorf("disk failed: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				f.set(fmt.Errorf("disk is damaged: %s: %w", info.Path, info.Details))
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := &disk{db: db, options: o, failure: f, observe: observe, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	d.grow(o.Identity.Shards)
	go d.run()
	return d, nil
}

func (d *disk) grow(shards int) {
	d.mutex.Lock() // the committer may be at work for what is done with, such as an empty batch
	defer d.mutex.Unlock()
	for i := len(d.readers); i < shards; i++ {
		d.readers = append(d.readers, &diskShard{
			disk: d, prefix: binary.BigEndian.AppendUint16(nil, uint16(i)),
			cache: newCache(cachedBytes / d.options.Identity.Shards),
		})
	}
}

func filters() (levels [7]pebble.LevelOptions) {
	for i := range levels {
		levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return levels
}

// empty reports whether the database has no record.
func (d *disk) empty() bool {
	iterator, err := d.db.NewIter(nil)
	if err != nil {
		return false
	}
	defer func() { _ = iterator.Close() }()
	return !iterator.First()
}

func (d *disk) shard(i int) protocol.Reader { return d.readers[i] }

func (d *disk) bytes() uint64 {
	d.using.RLock()
	defer d.using.RUnlock()
	if d.closed || d.failure.reason() != nil {
		return 0
	}
	return d.db.Metrics().DiskSpaceUsage()
}

func (d *disk) commit(shard int, batch protocol.Batch, done func(uint64)) bool {
	d.readers[shard].cache.note(batch)
	d.mutex.Lock()
	d.waiting = append(d.waiting, request{shard, batch, done})
	d.mutex.Unlock()
	d.signal()
	return false
}

func (d *disk) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run is the committer: while one group is being made durable, the next one gathers.
func (d *disk) run() {
	defer close(d.stopped)
	defer func() {
		// The database panics where its log can't be written at all. The database is left as it is then.
		if reason := recover(); reason != nil {
			d.failure.set(fmt.Errorf("disk failed: %v", reason))
		}
	}()
	var flush <-chan time.Time
	if d.options.Durability == Interval {
		ticker := time.NewTicker(d.options.FlushEvery)
		defer ticker.Stop()
		flush = ticker.C
	}
	unsynced := false
	var taken []request
	for {
		select {
		case <-d.wake:
		case <-flush:
			if unsynced && !d.sync() {
				return
			}
			unsynced = false
		}
		d.mutex.Lock()
		taken, d.waiting = d.waiting, taken[:0]
		closing := d.closing
		d.mutex.Unlock()
		for rest := taken; len(rest) > 0; {
			n, ok := d.write(rest)
			if !ok {
				return
			}
			rest = rest[n:]
			unsynced = true
		}
		clear(taken)
		if closing {
			d.sync()
			return
		}
	}
}

// write commits the first of the requests as one group, and reports how many and whether it went well.
func (d *disk) write(requests []request) (n int, ok bool) {
	start := time.Now()
	batch := d.db.NewBatch()
	size := 0
	for n < len(requests) && (n == 0 || size < groupBytes) {
		for _, u := range requests[n].batch.Mutations {
			if err := d.readers[requests[n].shard].write(batch, u); err != nil {
				d.failure.set(fmt.Errorf("disk failed: %w", err))
				return n, false
			}
			size += len(u.Key) + len(u.Value)
		}
		n++
	}
	mode := pebble.Sync
	if d.options.Durability == Interval {
		mode = pebble.NoSync
	}
	if err := d.commitBatch(batch, mode); err != nil {
		d.failure.set(fmt.Errorf("disk failed: %w", err))
		return n, false
	}
	d.observe(Commit{Batches: n, Bytes: size, Took: time.Since(start)})
	for i := range requests[:n] {
		requests[i].done(requests[i].batch.Sequence)
	}
	return n, true
}

func (d *disk) commitBatch(batch *pebble.Batch, mode *pebble.WriteOptions) error {
	if err := batch.Commit(mode); err != nil {
		return err
	}
	if err := d.failure.reason(); err != nil {
		return err // something else failed meanwhile; nothing is acknowledged from here on
	}
	return batch.Close()
}

// sync makes durable what was written without.
func (d *disk) sync() bool {
	if err := d.db.LogData(nil, pebble.Sync); err != nil {
		d.failure.set(fmt.Errorf("disk failed: %w", err))
	}
	return d.failure.reason() == nil
}

func (d *disk) close() error {
	d.mutex.Lock()
	d.closing = true
	d.mutex.Unlock()
	d.signal()
	select {
	case <-d.stopped:
	case <-d.failure.done: // the committer may be parked in a failed commit
	}
	if err := d.failure.reason(); err != nil {
		return err
	}
	d.using.Lock()
	defer d.using.Unlock()
	d.closed = true
	return d.db.Close()
}

// diskShard is a shard's part of the key space: its number, then the shard's own keys.
type diskShard struct {
	disk   *disk
	prefix []byte
	// What follows belongs to the goroutine that reads and commits.
	cache *cache
	key   []byte // scratch
}

func (s *diskShard) write(batch *pebble.Batch, u protocol.Mutation) error {
	if u.Value == nil {
		op := batch.DeleteDeferred(prefixBytes + len(u.Key))
		copy(op.Key, s.prefix)
		copy(op.Key[prefixBytes:], u.Key)
		return op.Finish()
	}
	op := batch.SetDeferred(prefixBytes+len(u.Key), len(u.Value))
	copy(op.Key, s.prefix)
	copy(op.Key[prefixBytes:], u.Key)
	copy(op.Value, u.Value)
	return op.Finish()
}

// Get implements protocol.Reader. The value stays valid: a protocol may keep it.
func (s *diskShard) Get(key []byte) ([]byte, bool) {
	value, known := s.cache.get(key)
	if !known {
		value = s.read(key)
		s.cache.put(key, value)
	}
	return value, value != nil
}

// read returns a copy of the record in the database, or nil.
func (s *diskShard) read(key []byte) []byte {
	s.key = append(append(s.key[:0], s.prefix...), key...)
	value, closer, err := s.disk.db.Get(s.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		s.fail(err)
	}
	// Never nil, even when it is empty.
	value = append(make([]byte, 0, len(value)), value...)
	if err := closer.Close(); err != nil {
		s.fail(err)
	}
	return value
}

// Load finds records that Get is about to be asked for, in one pass where their keys ascend: to search for each of many
// takes most of the time of a transfer of state. None of them may be in a batch that is not durable yet.
func (s *diskShard) Load(keys [][]byte) {
	iterator, err := s.disk.db.NewIter(&pebble.IterOptions{LowerBound: s.prefix, UpperBound: s.end()})
	if err != nil {
		s.fail(err)
	}
	defer func() { _ = iterator.Close() }()
	more, sought := true, false // there are records at or behind the latest key; the iterator is at the first of them
	for i, key := range keys {
		if i > 0 && bytes.Compare(keys[i-1], key) > 0 {
			more, sought = true, false // they come from a peer
		}
		if _, known := s.cache.get(key); known {
			continue
		}
		s.key = append(append(s.key[:0], s.prefix...), key...)
		if more && (!sought || bytes.Compare(iterator.Key(), s.key) < 0) {
			more, sought = iterator.SeekGE(s.key), true
		}
		var value []byte
		if more && bytes.Equal(iterator.Key(), s.key) {
			value = append(make([]byte, 0, len(iterator.Value())), iterator.Value()...) // never nil, as in read
		}
		s.cache.put(key, value)
	}
	if err := iterator.Error(); err != nil {
		s.fail(err)
	}
}

// Scan implements protocol.Reader.
func (s *diskShard) Scan(after []byte, visit func(key, value []byte) bool) {
	lower := slices.Concat(s.prefix, after)
	if after != nil {
		lower = append(lower, 0)
	}
	iterator, err := s.disk.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: s.end()})
	if err != nil {
		s.fail(err)
	}
	defer func() { _ = iterator.Close() }()
	for ok := iterator.First(); ok; ok = iterator.Next() {
		if !visit(iterator.Key()[prefixBytes:], iterator.Value()) {
			return
		}
	}
	if err := iterator.Error(); err != nil {
		s.fail(err)
	}
}

// end is the first key behind the shard's.
func (s *diskShard) end() []byte {
	return binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(s.prefix)+1)
}

// Remaining estimates the bytes on disk of the records behind a key, cheaply: from the indexes of the tables. It leaves
// out what is not in tables yet, at most memTables times memTableBytes, and counts what is overwritten and not
// compacted yet.
func (s *diskShard) Remaining(after []byte) uint64 {
	bytes, err := s.disk.db.EstimateDiskUsage(slices.Concat(s.prefix, after), s.end())
	if err != nil {
		s.fail(err)
	}
	return bytes
}

// fail stops the reader's goroutine: an answer made up for an unreadable record could break a promise.
func (s *diskShard) fail(err error) {
	err = fmt.Errorf("disk failed: read: %w", err)
	s.disk.failure.set(err)
	panic(err)
}
