// Package storage keeps a member's state: one database per member, in which every shard has its own key
// space, and one committer, which makes the batches of all shards durable in groups.
package storage

import (
	"encoding"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

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
	for _, d := range []Durability{Sync, Interval, Memory} {
		if d.String() == text {
			return d, nil
		}
	}
	return 0, fmt.Errorf("durability %q is unknown; use Sync, Interval or Memory", text)
}

// String is the spelling of a manifest.
func (d Durability) String() string {
	switch d {
	case Sync:
		return "Sync"
	case Interval:
		return "Interval"
	case Memory:
		return "Memory"
	}
	return "unknown"
}

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
	bytes() uint64
	close() error
}

// Store is a member's state.
type Store struct {
	options  Options
	engine   engine
	failure  *failure
	observer atomic.Pointer[func(Commit)]
	mutex    sync.Mutex // guards record and view
	record   record
	view     view.View
	closing  sync.Once
	closed   error
}

// Open opens the state of a member, and makes its next boot count durable. It refuses a disk of another
// member or cluster (ErrForeign) and one that another process uses.
func Open(o Options) (*Store, error) {
	if o.Durability == 0 {
		o.Durability = Sync
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = DefaultFlushEvery
	}
	if o.FileSystem == nil {
		o.FileSystem = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Directory == "" && o.Durability != Memory {
		return nil, fmt.Errorf("storage: durability %s needs a directory", o.Durability)
	}
	s := &Store{options: o, failure: newFailure(), record: record{DiskVersion: DiskVersion, Identity: o.Identity}}
	s.record.newDisk()
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("storage %s: %w", o.Directory, err)
	}
	return s, nil
}

func (s *Store) open() error {
	o := &s.options
	if o.Directory == "" {
		s.record.Boot = 1
		s.engine = newMemory(o.Identity.Shards)
		return nil
	}
	if err := makeDirectory(o.FileSystem, o.Directory); err != nil {
		return err
	}
	earlier, err := readRecord(o.FileSystem, o.Directory)
	if err != nil {
		return err
	}
	if earlier != nil {
		if err := earlier.check(o.Identity); err != nil {
			return err
		}
		s.record = *earlier
		if s.record.Disk == "" { // it was made before disks had names
			s.record.newDisk()
		}
	}
	if s.view, err = readView(o.FileSystem, o.Directory, o.Identity.Cluster); err != nil {
		return err
	}
	if o.Durability == Memory {
		if earlier != nil {
			s.record.lose()
		}
		s.engine = newMemory(o.Identity.Shards)
	} else if err := s.openDisk(earlier); err != nil {
		return err
	}
	// The record is written last: until then, nothing that this start did needs to be known by the next.
	s.record.Boot++
	s.record.Clean = false
	s.record.Durability = o.Durability
	if err := writeRecord(o.FileSystem, o.Directory, &s.record); err != nil {
		return errors.Join(err, s.engine.close())
	}
	return nil
}

func (s *Store) openDisk(earlier *record) error {
	o := &s.options
	path := o.FileSystem.PathJoin(o.Directory, "db")
	switch {
	case earlier == nil:
	case earlier.stateLost():
		o.Logger.Warn("the latest stop was not clean: this member's state counts as lost, and is wiped",
			zap.String("directory", o.Directory), zap.Stringer("durability", earlier.Durability))
		if err := errors.Join(o.FileSystem.RemoveAll(path), syncDirectory(o.FileSystem, o.Directory)); err != nil {
			return fmt.Errorf("wipe: %w", err)
		}
		s.record.lose()
	default:
		if names, err := o.FileSystem.List(path); err != nil || len(names) == 0 {
			// Somebody removed the database and left the identity. That is noted before a new database hides
			// it from the start after a crash in between.
			s.record.lose()
			if err := writeRecord(o.FileSystem, o.Directory, &s.record); err != nil {
				return err
			}
		}
	}
	d, err := openDisk(path, o, s.failure, s.observe)
	if err != nil {
		return err
	}
	if earlier == nil && !d.empty() {
		return errors.Join(fmt.Errorf("%w: it holds records but no %s file", ErrForeign, identityFile), d.close())
	}
	s.engine = d
	return nil
}

// Boot counts the starts of this member on this disk, this one included; see Reboot.
func (s *Store) Boot() uint32 { return s.now().Boot }

// Disk names the disk, and never another one: a disk that lost its state gets another name, as an empty one
// has.
func (s *Store) Disk() string { return s.now().Disk }

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
	arrived := make(chan struct{})
	if !s.engine.commit(0, protocol.Batch{}, func(uint64) { close(arrived) }) {
		select {
		case <-arrived:
		case <-s.Done():
			return s.Err()
		}
	}
	s.mutex.Lock()
	s.record.Boot++
	s.mutex.Unlock()
	if s.options.Directory == "" {
		return nil
	}
	record := s.now()
	if err := writeRecord(s.options.FileSystem, s.options.Directory, &record); err != nil {
		s.failure.set(fmt.Errorf("disk failed: %w", err))
		return err
	}
	return nil
}

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
	if err := s.engine.close(); err != nil {
		return fmt.Errorf("storage %s: close: %w", s.options.Directory, err)
	}
	if s.options.Directory == "" {
		return nil
	}
	record := s.now()
	record.Clean = true
	if err := writeRecord(s.options.FileSystem, s.options.Directory, &record); err != nil {
		return fmt.Errorf("storage %s: close: %w", s.options.Directory, err)
	}
	return nil
}
