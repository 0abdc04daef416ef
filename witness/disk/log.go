package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The log is a row of commits. A commit is what one fsync covers: a head of its length, its checksum and its number, and
// then records, each behind its length as a varint. Commits are numbered from 1, so that one which is left over from
// elsewhere is no part of the row.
const (
	headBytes = 4 + 4 + 8
	// maxCommit bounds a commit, so that a length that is garbage is recognised.
	maxCommit = 64 << 20
	// rewriteBytes is where a rewrite begins the next commit.
	rewriteBytes = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Commit collects records that become durable together.
type Commit struct {
	data []byte // the head, which is filled in at last, and the records
}

// Add copies a record into the commit.
func (c *Commit) Add(record []byte) {
	if len(c.data) == 0 {
		c.data = append(c.data, make([]byte, headBytes)...)
	}
	c.data = binary.AppendUvarint(c.data, uint64(len(record)))
	c.data = append(c.data, record...)
}

// Size is that of the commit on disk, in bytes; 0 if it is empty.
func (c *Commit) Size() int { return len(c.data) }

// Reset empties the commit and keeps its memory.
func (c *Commit) Reset() { c.data = c.data[:0] }

// seal fills in the head.
func (c *Commit) seal(number uint64) ([]byte, error) {
	if len(c.data)-headBytes > maxCommit {
		return nil, fmt.Errorf("a commit of %d bytes is larger than %d", len(c.data), maxCommit)
	}
	binary.LittleEndian.PutUint32(c.data, uint32(len(c.data)-headBytes))
	binary.LittleEndian.PutUint64(c.data[8:], number)
	binary.LittleEndian.PutUint32(c.data[4:], checksum(c.data))
	return c.data, nil
}

// checksum covers all but itself.
func checksum(commit []byte) uint32 {
	return crc32.Update(crc32.Checksum(commit[:4], castagnoli), castagnoli, commit[8:])
}

// parse finds the commit at the beginning of data, or returns nil.
func parse(data []byte) (records []byte, number uint64) {
	if len(data) < headBytes {
		return nil, 0
	}
	length := int64(binary.LittleEndian.Uint32(data))
	if length == 0 || length > maxCommit || length > int64(len(data)-headBytes) {
		return nil, 0
	}
	commit := data[:headBytes+length]
	if checksum(commit) != binary.LittleEndian.Uint32(commit[4:]) {
		return nil, 0
	}
	return commit[headBytes:], binary.LittleEndian.Uint64(commit[8:])
}

// log is the file.
type log struct {
	fs        vfs.FS
	directory string
	file      vfs.File // nil before the first rewrite
	size      int64
	number    uint64 // of the latest commit
	err       error  // the first one; nothing is written after it
}

// read hands out the records of all commits. The last one is dropped if a crash tore it: nobody was told of it.
func (l *log) read(restore func([]byte) error) error {
	path := l.fs.PathJoin(l.directory, logFile)
	file, err := l.fs.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	data, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := scan(data, restore); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return nil
}

// scan hands out the records of a log.
func scan(data []byte, restore func([]byte) error) error {
	next := uint64(1)
	for at := 0; at < len(data); next++ {
		records, number := parse(data[at:])
		if records == nil || number != next {
			return checkTorn(data[at:], at, next)
		}
		at += headBytes + len(records)
		for len(records) > 0 {
			length, n := binary.Uvarint(records)
			if n <= 0 || length > uint64(len(records)-n) {
				return fmt.Errorf("commit %d has no whole records", number)
			}
			if err := restore(records[n : n+int(length)]); err != nil {
				return fmt.Errorf("commit %d: %w", number, err)
			}
			records = records[n+int(length):]
		}
	}
	return nil
}

// checkTorn returns an error if a later commit follows what is not a whole one: a commit begins only when the one before is
// durable, so that one was whole once.
func checkTorn(rest []byte, at int, expected uint64) error {
	for i := 1; i+headBytes < len(rest); i++ {
		number := binary.LittleEndian.Uint64(rest[i+8:])
		if number <= expected || number > expected+uint64(len(rest)/headBytes) {
			continue // cheaper than a checksum at every byte
		}
		if records, _ := parse(rest[i:]); records != nil {
			return fmt.Errorf("commit %d at byte %d is damaged, and commit %d follows at byte %d", expected, at, number, at+i)
		}
	}
	return nil
}

// append writes a commit and returns when it is durable.
func (l *log) append(c *Commit) error {
	if l.err != nil || c.Size() == 0 {
		return l.err
	}
	if l.file == nil {
		return errors.New("the log was not loaded")
	}
	err := l.write(l.file, c)
	if err == nil {
		err = l.file.SyncData()
	}
	return l.fail(err)
}

// fail remembers the first error. What the disk holds after a failed write or fsync is anyone's guess, so nothing is tried
// again.
func (l *log) fail(err error) error {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("the witness's disk failed: %w", err)
	}
	return l.err
}

func (l *log) write(file vfs.File, c *Commit) error {
	l.number++
	data, err := c.seal(l.number)
	if err != nil {
		return err
	}
	l.size += int64(len(data))
	_, err = file.Write(data)
	return err
}

// rewrite makes another file the log, at once.
func (l *log) rewrite(records iter.Seq[[]byte]) error {
	if l.err != nil {
		return l.err
	}
	return l.fail(l.replace(records))
}

func (l *log) replace(records iter.Seq[[]byte]) error {
	path := l.fs.PathJoin(l.directory, logFile)
	file, err := l.fs.Create(path+newSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	old := l.file
	l.file, l.size, l.number = file, 0, 0 // closed in any case
	if old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	var c Commit
	for record := range records {
		if c.Add(record); c.Size() >= rewriteBytes {
			if err := l.write(file, &c); err != nil {
				return err
			}
			c.Reset()
		}
	}
	if c.Size() > 0 {
		if err := l.write(file, &c); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := l.fs.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return syncDirectory(l.fs, l.directory)
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
