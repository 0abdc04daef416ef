package storage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/georegister/georegister/replica/durable"
)

// format is that of the databases that this program writes.
const format = pebble.FormatValueSeparation

const (
	// A value of separatedBytes or more is written into a file of values when its table in memory is written out. What
	// is merged from then on is keys, and where their values are: with more data than memory, most of what merging
	// writes would be values that did not change.
	separatedBytes = 256
	// valueFiles bounds in how many files of values those of neighbouring keys are: a merge that would leave them in
	// more writes the values anew, in the order of their keys.
	valueFiles = 10
	// overwrittenValues is the part of all values in files that may be overwritten ones; above that, files that have
	// most of them are written anew without them, unless they are younger than rewriteAfter: much of a young one may
	// be overwritten soon.
	overwrittenValues = 0.25
	rewriteAfter      = time.Minute
)

// openDatabase opens a database; what fails then or later is told to f.
func openDatabase(path string, o *Options, f *failure, adapt func(*pebble.Options)) (*pebble.DB, error) {
	// The database takes the room of tables in memory from its cache. There are two at most times: one is written to,
	// and one is written out, or kept to be used again.
	cache := pebble.NewCache(o.Cache/blocksOf + 2*memTable(o.Cache))
	defer cache.Unref()
	options := &pebble.Options{
		FS:                          o.FileSystem,
		Cache:                       cache,
		MemTableSize:                uint64(memTable(o.Cache)),
		LBaseMaxBytes:               mergedOf * memTable(o.Cache),
		MemTableStopWritesThreshold: memTables,
		FormatMajorVersion:          format,
		// Most keys that are asked for and not in memory don't exist: filters spare the search.
		Levels: filters(),
		Logger: newDatabaseLog(o.Logger, f),
		EventListener: &pebble.EventListener{
			// The database would try a failed flush again and again; here a disk that failed once
			// (or is full) is not trusted.
			BackgroundError: func(err error) { f.set(fmt.Errorf("disk failed: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				f.set(fmt.Errorf("the disk is %w: %s: %w", durable.ErrDamaged, info.Path, info.Details))
			},
			// This one the database tells of in no other way.
			BlobFileRewriteEnd: func(info pebble.BlobFileRewriteInfo) {
				if info.Err != nil && !errors.Is(info.Err, pebble.ErrCancelledCompaction) {
					f.set(fmt.Errorf("disk failed: write values anew: %w", info.Err))
				}
			},
		},
	}
	options.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: separatedBytes, MaxBlobReferenceDepth: valueFiles,
			TargetGarbageRatio: overwrittenValues, RewriteMinimumAge: rewriteAfter,
		}
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return compression })
	adapt(options)
	machine := &watched{FS: options.FS}
	options.FS = valuesChecked{machine}
	if o.Durability == Sync {
		options.FS = zeroed{options.FS}
	}
	type result struct {
		db  *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() {
		defer func() {
			switch reason, refused := recover(), machine.refused(); {
			case reason == nil:
			case refused != nil:
				opened <- result{err: fmt.Errorf("%w, and then: %v", refused, reason)}
			default: // it takes what it reads for what it wrote
				opened <- result{err: fmt.Errorf("%w: %v", durable.ErrDamaged, reason)}
			}
		}()
		db, err := pebble.Open(path, options)
		opened <- result{db, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, fmt.Errorf("open database: %w", r.err)
		}
		return r.db, nil
	case <-f.done: // it may never return
		return nil, fmt.Errorf("open database: %w", f.reason())
	}
}

// memTable is the size of a table in memory, of a store with so many bytes of cache.
func memTable(cache int64) int64 { return min(max(cache/memTableOf, leastMemTable), mostMemTable) }

// compression is tried on some blocks, and left out of the others where it wins little, as with random values: to try
// each one costs a tenth of what reads and merges of tables do. Indexes are read more often than anything else.
var compression = func() pebble.DBCompressionSettings {
	profile := *sstable.SnappyCompression
	profile.Name = "AdaptiveSnappy"
	profile.OtherBlocks = sstable.NoCompression.OtherBlocks
	profile.AdaptiveReductionCutoffPercent = profile.MinReductionPercent
	return pebble.UniformDBCompressionSettings(&profile)
}()

func filters() (levels [7]pebble.LevelOptions) {
	for i := range levels {
		levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return levels
}

// checkFormat refuses a database of a later program: it is whole, but nothing that could be read here.
func checkFormat(fs vfs.FS, path string) error {
	names, err := fs.List(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, "marker.format-version.")
		if !ok {
			continue
		}
		_, version, _ := strings.Cut(rest, ".")
		if n, err := strconv.ParseUint(version, 10, 32); err == nil && n > uint64(format) {
			return fmt.Errorf("the database is of format %d, and this program reads those up to %d; start it with "+
				"the program that wrote it",
				n, uint64(format))
		}
	}
	return nil
}

// withoutLogs shows a database without its logs.
type withoutLogs struct{ vfs.FS }

func (f withoutLogs) List(path string) ([]string, error) {
	all, err := f.FS.List(path)
	return slices.DeleteFunc(all, func(name string) bool {
		_, _, isLog := wal.ParseLogFilename(name)
		return isLog
	}), err
}

// markInTables reads the mark of the latest commit that the tables hold, whatever the logs have.
func markInTables(path string, o *Options, seed uint64) (m durable.Mark, err error) {
	f := newFailure(func(error) {}) // who asks does that
	db, err := openDatabase(path, o, f, func(p *pebble.Options) {
		p.FS, p.ReadOnly, p.ErrorIfNotExists = withoutLogs{o.FileSystem}, true, true
	})
	if err != nil {
		return m, err
	}
	m, err = readMark(db, seed)
	return m, errors.Join(err, f.reason(), db.Close())
}

// readMark reads the mark of a database's latest commit; it is zero if there is none.
func readMark(db *pebble.DB, seed uint64) (durable.Mark, error) {
	value, closer, err := db.Get(markKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return durable.Mark{}, nil
	}
	if err != nil {
		return durable.Mark{}, err
	}
	m, ok := durable.ParseMark(value, seed)
	if err := closer.Close(); err != nil {
		return durable.Mark{}, err
	}
	if !ok {
		return durable.Mark{}, fmt.Errorf("the database is not this disk's, or %w", durable.ErrDamaged)
	}
	return m, nil
}
