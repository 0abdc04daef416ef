package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
)

const (
	// A table in memory lets a hot register be overwritten many times before it is written out, and the larger it is,
	// the less often is what is on disk written again when it is merged with that. So it is a part of what records are
	// cached in, within bounds: a start reads all logs, which are as large as all tables in memory.
	memTableOf    = 16
	leastMemTable = 8 << 20
	mostMemTable  = 64 << 20
	// mergedOf is how many tables in memory fit the first level that they are merged into.
	mergedOf = 8
	// memTables may wait to be written out before commits wait for them.
	memTables = 4
	// groupBytes bounds what one commit takes of what is waiting, so that it fits a table.
	groupBytes = 2 << 20
	// prefixBytes is the length of a shard's number in front of its keys.
	prefixBytes = 2
	// sumBytes is the length of the checksum behind each value.
	sumBytes = 8
	// markEvery bounds how old the mark of the latest commit may be after a loss of power.
	markEvery = time.Second
)

// markKey is that of the first record of every commit, which is its mark. No shard has that prefix.
var markKey = []byte{0xff, 0xff, 'm'}

// disk is the engine over a Pebble database.
type disk struct {
	db      *pebble.DB
	options *Options
	failure *failure
	observe func(Commit)
	readers []*diskShard
	seed    uint64 // of the records' checksums
	boot    atomic.Uint32
	latest  atomic.Uint64 // the number of the latest commit; the committer's
	cached  atomic.Int64  // bounds each of the two generations of a shard's cache
	table   table
	mark    *durable.MarkFile

	mutex   sync.Mutex
	waiting []request
	closing bool
	wake    chan struct{} // capacity 1
	stopped chan struct{}

	using    sync.RWMutex // a closed database must not be asked for anything
	closed   bool
	fetching chan struct{} // has room for those that read beside the loops
}

type request struct {
	shard int
	batch protocol.Batch
	done  func(uint64)
}

// newDisk runs a committer on a database whose latest commit has a number.
func newDisk(
	db *pebble.DB, o *Options, f *failure, seed, number uint64, mark *durable.MarkFile, observe func(Commit),
) *disk {
	d := &disk{
		db: db, options: o, failure: f, observe: observe, seed: seed, mark: mark,
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), fetching: make(chan struct{}, fetchesAtOnce),
	}
	d.latest.Store(number)
	d.table.number.Store(1)
	d.grow(o.Identity.Shards)
	go d.run()
	return d
}

func (d *disk) grow(shards int) {
	d.mutex.Lock() // the committer may be at work for what is done with, such as an empty batch
	defer d.mutex.Unlock()
	for i := len(d.readers); i < shards; i++ {
		d.readers = append(d.readers, &diskShard{
			disk: d, prefix: binary.BigEndian.AppendUint16(nil, uint16(i)),
			cache: newCache(&d.cached),
		})
	}
	records := d.options.Cache - d.options.Cache/blocksOf
	d.cached.Store(records / 2 / int64(max(len(d.readers), 1)))
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
	d.table.repeats.Add(int64(d.readers[shard].cache.note(batch, d.table.number.Load())))
	d.readers[shard].note(batch)
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

// run is the committer: while one group is being made durable, the next one gathers. Where the processors are busy, the
// other shards of a group would have it wait for a group of their own: so who is ready to run comes first.
func (d *disk) run() {
	defer close(d.stopped)
	defer func() {
		// The database panics where its log can't be written at all. The database is left as it is then.
		if reason := recover(); reason != nil {
			d.failure.set(fmt.Errorf("disk failed: %v", reason))
		}
	}()
	flushEvery, flush := markEvery, d.syncMark
	if d.options.Durability == Interval {
		flushEvery, flush = d.options.FlushEvery, d.sync
	}
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	unsynced := false
	var taken []request
	for {
		select {
		case <-d.wake:
			runtime.Gosched()
		case <-ticker.C:
			if unsynced && !flush() {
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
	batch, err := d.newBatch()
	records, size := 0, 0
	for err == nil && n < len(requests) && (n == 0 || size < groupBytes) {
		for _, u := range requests[n].batch.Mutations {
			if err = d.readers[requests[n].shard].write(batch, u); err != nil {
				break
			}
			size += len(u.Key) + len(u.Value)
		}
		records += len(requests[n].batch.Mutations)
		n++
	}
	if err == nil {
		err = d.commitBatch(batch, d.options.Durability == Sync)
	}
	if !d.check(err) {
		return n, false
	}
	d.observe(Commit{Batches: n, Bytes: size, Took: time.Since(start)})
	for i := range requests[:n] {
		requests[i].done(requests[i].batch.Sequence)
	}
	if d.table.add(records, size, memTable(d.options.Cache)) {
		_, err = d.db.AsyncFlush()
	}
	return n, d.check(err)
}

// newBatch begins a commit with its mark.
func (d *disk) newBatch() (*pebble.Batch, error) {
	batch := d.db.NewBatch()
	m := durable.Mark{Boot: d.boot.Load(), Number: d.latest.Load() + 1}
	return batch, batch.Set(markKey, m.Append(nil, d.seed), nil)
}

// commitBatch ends a commit. If it is to be synced, its mark outlives the process before anybody is told of it.
func (d *disk) commitBatch(batch *pebble.Batch, sync bool) error {
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
	}
	if err := batch.Commit(mode); err != nil {
		return err
	}
	if err := d.failure.reason(); err != nil {
		return err // something else failed meanwhile; nothing is acknowledged from here on
	}
	d.latest.Add(1)
	if sync {
		if err := d.mark.Write(d.now()); err != nil {
			return err
		}
	}
	return batch.Close()
}

// now is the mark of the latest commit.
func (d *disk) now() durable.Mark { return durable.Mark{Boot: d.boot.Load(), Number: d.latest.Load()} }

// sync makes durable what was written without, by a commit of its own.
func (d *disk) sync() bool {
	batch, err := d.newBatch()
	if err == nil {
		err = d.commitBatch(batch, true)
	}
	return d.check(err)
}

// syncMark makes the mark durable, so that a loss of power does not make it older than that.
func (d *disk) syncMark() bool { return d.check(d.mark.Sync()) }

// check reports whether the disk can be trusted after an attempt that ended with err. If not, it has failed.
func (d *disk) check(err error) bool {
	if err != nil {
		d.failure.set(fmt.Errorf("disk failed: %w", err))
	}
	return d.failure.reason() == nil
}

func (d *disk) setBoot(boot uint32) { d.boot.Store(boot) }

func (d *disk) number() uint64 { return d.latest.Load() }

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
	return errors.Join(d.db.Close(), d.mark.Close())
}

// diskShard is a shard's part of the key space: its number, then the shard's own keys.
type diskShard struct {
	disk   *disk
	prefix []byte
	// What follows belongs to the goroutine that reads and commits.
	cache *cache
	key   []byte // scratch
	fetches
}

func (s *diskShard) write(batch *pebble.Batch, u protocol.Mutation) error {
	if u.Value == nil {
		op := batch.DeleteDeferred(prefixBytes + len(u.Key))
		copy(op.Key, s.prefix)
		copy(op.Key[prefixBytes:], u.Key)
		return op.Finish()
	}
	op := batch.SetDeferred(prefixBytes+len(u.Key), len(u.Value)+sumBytes)
	copy(op.Key, s.prefix)
	copy(op.Key[prefixBytes:], u.Key)
	copy(op.Value, u.Value)
	binary.BigEndian.PutUint64(op.Value[len(u.Value):], durable.Checksum(s.disk.seed, op.Key, u.Value))
	return op.Finish()
}

// checked returns the value of a record, which is not a copy: what is not this disk's under that key is damage.
func (d *disk) checked(key, stored []byte) ([]byte, error) {
	n := len(stored) - sumBytes
	if n < 0 || durable.Checksum(d.seed, key, stored[:n]) != binary.BigEndian.Uint64(stored[n:]) {
		return nil, fmt.Errorf("the record %x is %w: its checksum is wrong", key, durable.ErrDamaged)
	}
	return stored[:n], nil
}

// value is that of the record where an iterator is, not a copy.
func (s *diskShard) value(iterator *pebble.Iterator) []byte {
	stored, err := storedValue(iterator)
	s.check(err)
	value, err := s.disk.checked(iterator.Key(), stored)
	s.check(err)
	return value
}

func storedValue(iterator *pebble.Iterator) (value []byte, err error) {
	defer foundDamaged(&err)
	return iterator.ValueAndErr()
}

var (
	_ protocol.Reader = (*diskShard)(nil)
	_ protocol.Loader = (*diskShard)(nil)
	_ protocol.Sizer  = (*diskShard)(nil)
)

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
	value, err := s.disk.find(s.key)
	s.check(err)
	return value
}

// Load implements protocol.Loader: to search for each of many records takes most of the time of a transfer of state.
func (s *diskShard) Load(keys [][]byte) {
	s.iterate(s.prefix, func(iterator *pebble.Iterator) { s.load(keys, iterator) })
}

func (s *diskShard) load(keys [][]byte, iterator *pebble.Iterator) {
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
			stored := s.value(iterator)
			value = append(make([]byte, 0, len(stored)), stored...) // never nil, as in read
		}
		s.cache.put(key, value)
	}
}

// iterate hands on an iterator over the shard's keys from lower on.
func (s *diskShard) iterate(lower []byte, use func(*pebble.Iterator)) {
	iterator, err := s.disk.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: s.end()})
	s.check(err)
	defer func() { _ = iterator.Close() }()
	use(iterator)
	s.check(iterator.Error())
}

// Scan implements protocol.Reader.
func (s *diskShard) Scan(after []byte, visit func(key, value []byte) bool) {
	lower := slices.Concat(s.prefix, after)
	if after != nil {
		lower = append(lower, 0)
	}
	s.iterate(lower, func(iterator *pebble.Iterator) {
		more := iterator.First()
		for more && visit(iterator.Key()[prefixBytes:], s.value(iterator)) {
			more = iterator.Next()
		}
	})
}

// end is the first key behind the shard's.
func (s *diskShard) end() []byte {
	return binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(s.prefix)+1)
}

// Remaining implements protocol.Sizer from the indexes of the tables, as exactly as one of their blocks, which may
// have the keys of some hundred values. It leaves out what is not in tables yet, at most memTables times memTable, and
// counts what is overwritten and not compacted yet.
func (s *diskShard) Remaining(after []byte) uint64 {
	bytes, err := s.disk.db.EstimateDiskUsage(slices.Concat(s.prefix, after), s.end())
	s.check(err)
	return bytes
}

// check stops the reader's goroutine after an error: an answer made up for an unreadable record could break a promise.
func (s *diskShard) check(err error) {
	if err == nil {
		return
	}
	err = fmt.Errorf("disk failed: read: %w", err)
	s.disk.failure.set(err)
	panic(err)
}
