// Package storage keeps a member's state: one database per member, in which every shard has its own key
// space, and one committer, which makes the batches of all shards durable in groups.
package storage

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// Durability says when a batch counts as persisted.
type Durability uint8

// The levels of durability.
const (
	// Sync: after an fsync. Nothing that was acknowledged is lost in a crash.
	Sync Durability = iota + 1
	// Interval: after it is handed to the write-ahead log; an fsync follows within Options.FlushEvery.
	// An unclean stop counts as a lost disk.
	Interval
	// Memory: at once; nothing but the identity is on disk. Any stop counts as a lost disk.
	Memory
)

var (
	_ encoding.TextMarshaler   = Sync
	_ encoding.TextUnmarshaler = (*Durability)(nil)
)

// ParseDurability reads the spelling of a manifest: Sync, Interval or Memory.
func ParseDurability(text string) (Durability, error) {
	for d := Sync; d <= Memory; d++ {
		if durabilities[d] == text {
			return d, nil
		}
	}
	return 0, fmt.Errorf("durability %q is unknown; use Sync, Interval or Memory", text)
}

// String is the spelling of a manifest.
func (d Durability) String() string { return cmp.Or(durabilities[d], "unknown") }

var durabilities = map[Durability]string{Sync: "Sync", Interval: "Interval", Memory: "Memory"}

// MarshalText writes the spelling of a manifest.
func (d Durability) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the spelling of a manifest.
func (d *Durability) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDurability(string(text))
	return err
}

// DefaultFlushEvery bounds what Interval loses when the machine stops.
const DefaultFlushEvery = 50 * time.Millisecond

// Options say what to open, and how.
type Options struct {
	// Directory is the member's own. With Memory it may be empty: then not even the identity is kept, and
	// the caller must know which starts are restarts.
	Directory  string
	Identity   Identity
	Durability Durability    // zero: Sync
	FlushEvery time.Duration // Interval only; zero: DefaultFlushEvery
	Cache      int64         // bytes of memory in which records of the disk are kept; zero: DefaultCache
	FileSystem vfs.FS        // nil: the operating system's
	Logger     *zap.Logger   // nil: none
}

// Commit is the work of one turn of the committer.
type Commit struct {
	Batches int           // of shards
	Bytes   int           // keys and values
	Took    time.Duration // until it was persisted, fsync included if there was one
}

// engine is where records live: a database on disk, or memory.
type engine interface {
	shard(i int) protocol.Reader
	grow(shards int)
	// commit persists a batch of a shard, before it returns (then it is true), or later.
	commit(shard int, batch protocol.Batch, done func(sequence uint64)) bool
	setBoot(boot uint32) // of the commits that follow
	number() uint64      // of the latest commit
	bytes() uint64
	close() error
}

// Store is a member's state.
type Store struct {
	options  Options
	engine   engine
	failure  *failure
	observer atomic.Pointer[func(Commit)]
	noting   sync.Mutex // serialises what is written of the record
	mutex    sync.Mutex // guards record and view
	record   record
	view     view.View
	lock     io.Closer // of the directory; nil without one
	closing  sync.Once
	closed   error
}

// Open opens the state of a member, and makes its next boot count durable. It refuses a disk of another member or
// cluster (ErrForeign), of another version, and one that another process uses. A disk that provably does not hold what
// was durable on it is set aside: the member begins with an empty one, which is Lost, and Loss says why.
func Open(o Options) (*Store, error) {
	o.Durability = cmp.Or(o.Durability, Sync)
	o.Cache = cmp.Or(max(o.Cache, 0), DefaultCache)
	o.FlushEvery = cmp.Or(max(o.FlushEvery, 0), DefaultFlushEvery)
	o.FileSystem, o.Logger = cmp.Or(o.FileSystem, vfs.Default), cmp.Or(o.Logger, zap.NewNop())
	if o.Directory == "" && o.Durability != Memory {
		return nil, fmt.Errorf("storage: durability %s needs a directory", o.Durability)
	}
	s := &Store{options: o, record: record{Identity: o.Identity, Disk: durable.NewName()}}
	s.failure = newFailure(s.noteDamage)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("storage %s: %w", o.Directory, err)
	}
	return s, nil
}

// Boot counts the starts of this member on this disk, this one included; see Reboot.
func (s *Store) Boot() uint32 { return s.now().Boot }

// Disk names the disk, and never another one: a disk that lost its state gets another name, as an empty one
// has.
func (s *Store) Disk() string { return s.now().Disk }

// Durability says when a batch of this store counts as persisted.
func (s *Store) Durability() Durability { return s.options.Durability }

// Lost reports that an earlier state of this member was lost, now or before: it must join again, whatever
// else says that it may vote.
func (s *Store) Lost() bool { return s.now().Lost }

// now is a copy of the record.
func (s *Store) now() record {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.record
}

// Shard is the state of one shard. It is used by one goroutine at a time, the one that commits to the shard.
// It panics if the disk can't be read; Err says why.
func (s *Store) Shard(i int) protocol.Reader { return s.engine.shard(i) }

// Grow has the store be of this many shards, if they are more. Nobody may use it meanwhile.
func (s *Store) Grow(shards int) { s.engine.grow(shards) }

// Commit persists a batch of a shard. It returns true if that is done already; else done is called with the
// batch's sequence when it is, in the order of the shard's commits, from the committer's goroutine; it must
// not block. After a failure nothing is reported any more.
func (s *Store) Commit(shard int, batch protocol.Batch, done func(sequence uint64)) bool {
	return s.engine.commit(shard, batch, done)
}

// Persist is Commit that returns once the batch is persisted, or the disk has failed.
func (s *Store) Persist(shard int, batch protocol.Batch) error {
	persisted := make(chan struct{})
	if s.Commit(shard, batch, func(uint64) { close(persisted) }) {
		return nil
	}
	select {
	case <-persisted:
		return nil
	case <-s.Done():
		return s.Err()
	}
}

// Reboot readies the store for protocols that start again in this process, on all that was committed: it
// counts one more boot, durably, when whoever used the store has ended. Nobody may use it meanwhile.
func (s *Store) Reboot() error {
	if err := s.reboot(); err != nil {
		return fmt.Errorf("storage %s: count another boot: %w", s.options.Directory, err)
	}
	return nil
}

func (s *Store) reboot() error {
	// What is still on its way to the disk could not be read back yet.
	if err := s.Persist(0, protocol.Batch{}); err != nil {
		return err
	}
	err := s.boot()
	if err != nil {
		s.failure.set(fmt.Errorf("disk failed: %w", err))
	}
	return err
}

// boot counts a boot, durably, on the record and on the engine: a record that was put back from before is found out.
func (s *Store) boot() error {
	if before := s.now(); before.checkBoot() != nil {
		return before.checkBoot()
	}
	if err := s.note(func(r *record) {
		r.Boot++
		r.Clean, r.Durability, r.Commit = false, s.options.Durability, s.engine.number()
	}); err != nil {
		return err
	}
	return s.begin()
}

// begin makes it durable that what follows belongs to the boot of the record. Nothing else is under way.
func (s *Store) begin() error {
	s.engine.setBoot(s.Boot())
	return s.Persist(0, protocol.Batch{})
}

// note changes the record, durably if there is a directory.
func (s *Store) note(change func(*record)) error {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mutex.Lock()
	change(&s.record)
	record := s.record
	s.mutex.Unlock()
	if s.options.Directory == "" {
		return nil
	}
	return writeRecord(s.options.FileSystem, s.options.Directory, &record)
}

// Condemn ends the store, and has the next start take the disk for lost: others know that it does not hold what it
// held.
func (s *Store) Condemn(cause error) { s.failure.set(fmt.Errorf("%w: %w", durable.ErrDamaged, cause)) }

// Observe has the function told of each commit from now on, from the committer's goroutine; nil: nobody.
func (s *Store) Observe(observe func(Commit)) { s.observer.Store(&observe) }

func (s *Store) observe(c Commit) {
	if observe := s.observer.Load(); observe != nil && *observe != nil {
		(*observe)(c)
	}
}

// Bytes is the size of the state on disk, or in memory; 0 once the store is closed or failed.
func (s *Store) Bytes() uint64 { return s.engine.bytes() }

// Done is closed when the disk failed; Err says why. A failed store never reports a batch as persisted again.
func (s *Store) Done() <-chan struct{} { return s.failure.done }

// Err is the reason of the failure, or nil.
func (s *Store) Err() error { return s.failure.reason() }

// Close persists what was committed and marks the stop as clean. After a failure it only lets go: the
// database stays locked until the process ends, since nothing may touch it any more.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Store) close() error {
	if err := s.Err(); err != nil {
		return err
	}
	err := s.engine.close()
	if err == nil {
		err = s.note(func(r *record) { r.Clean, r.Commit = true, s.engine.number() })
	}
	if err = errors.Join(err, s.unlock()); err != nil {
		return fmt.Errorf("storage %s: close: %w", s.options.Directory, err)
	}
	return nil
}

func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}
