package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// The log is a row of commits, behind the mark of the one before the first. A commit is what one fsync covers: a head
// of its length, its checksum and its number, and then records, each behind its length as a varint. Commits are
// numbered from 1 over the life of the disk, whatever was written anew, so that one which is left over from elsewhere
// is no part of the row. Checksums begin with the disk's name: a log of another one is not read.
const (
	headBytes = 4 + 4 + 8
	// maxCommit bounds a commit, so that a length that is garbage is recognised.
	maxCommit = 64 << 20
	// rewriteBytes is where a rewrite begins the next commit.
	rewriteBytes = 1 << 20
	newSuffix    = ".new" // of a log that is being written, and will replace the one without
	// markEvery bounds how old the mark may be after a loss of power, while commits come.
	markEvery = time.Second
)

// zeroes is what the log is filled with, as many at a time: commits are small, and a log begins anew with each start.
var zeroes [64 << 10]byte

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
func (c *Commit) seal(number, seed uint64) ([]byte, error) {
	if len(c.data)-headBytes > maxCommit {
		return nil, fmt.Errorf("a commit of %d bytes is larger than %d", len(c.data), maxCommit)
	}
	binary.LittleEndian.PutUint32(c.data, uint32(len(c.data)-headBytes))
	binary.LittleEndian.PutUint64(c.data[8:], number)
	binary.LittleEndian.PutUint32(c.data[4:], checksum(c.data, seed))
	return c.data, nil
}

// checksum covers all but itself.
func checksum(commit []byte, seed uint64) uint32 {
	return crc32.Update(crc32.Update(uint32(seed), castagnoli, commit[:4]), castagnoli, commit[8:])
}

// parse finds the commit at the beginning of data, or returns nil.
func parse(data []byte, seed uint64) (records []byte, number uint64) {
	if len(data) < headBytes {
		return nil, 0
	}
	length := int64(binary.LittleEndian.Uint32(data))
	if length == 0 || length > maxCommit || length > int64(len(data)-headBytes) {
		return nil, 0
	}
	commit := data[:headBytes+length]
	if checksum(commit, seed) != binary.LittleEndian.Uint32(commit[4:]) {
		return nil, 0
	}
	return commit[headBytes:], binary.LittleEndian.Uint64(commit[8:])
}

// log is the file.
type log struct {
	fs        vfs.FS
	directory string
	seed      uint64
	mark      *durable.MarkFile // nil before the first rewrite
	marked    time.Time         // when it was synced
	file      vfs.File          // nil before the first rewrite
	size      int64             // of what was written, without the zeroes behind it
	number    uint64            // of the latest commit
	err       error             // the first one; nothing is written after it
}

// read hands out the records of all commits. The last one is dropped if a crash tore it: nobody was told of it, or the
// mark tells. Its error wraps durable.ErrDamaged if something that was durable is missing.
func (l *log) read(restore func([]byte) error) error {
	path := l.fs.PathJoin(l.directory, logFile)
	data, err := durable.Read(l.fs, path)
	if err != nil {
		return err
	}
	if data == nil {
		return fmt.Errorf("%s is missing: the disk is %w", path, durable.ErrDamaged)
	}
	noted, err := durable.ReadMark(l.fs, l.directory, markFile, l.seed)
	if err != nil {
		return err
	}
	if l.number, err = scan(data, l.seed, restore); err != nil {
		return fmt.Errorf("%s is %w: %w", path, durable.ErrDamaged, err)
	}
	if l.number < noted.Number {
		return fmt.Errorf("%s is %w: it ends with commit %d, and commit %d was durable", path, durable.ErrDamaged,
			l.number, noted.Number)
	}
	return nil
}

// scan hands out the records of a log, and returns the number of the latest commit.
func scan(data []byte, seed uint64, restore func([]byte) error) (uint64, error) {
	if len(data) < durable.MarkBytes {
		return 0, errors.New("its beginning is missing")
	}
	before, ok := durable.ParseMark(data[:durable.MarkBytes], seed)
	if !ok {
		return 0, errors.New("its beginning is not this disk's")
	}
	latest := before.Number
	for at := durable.MarkBytes; at < len(data); latest++ {
		records, number := parse(data[at:], seed)
		if records == nil || number != latest+1 {
			return latest, checkTorn(data[at:], at, latest+1, seed)
		}
		at += headBytes + len(records)
		for len(records) > 0 {
			length, n := binary.Uvarint(records)
			if n <= 0 || length > uint64(len(records)-n) {
				return 0, fmt.Errorf("commit %d has no whole records", number)
			}
			if err := restore(records[n : n+int(length)]); err != nil {
				return 0, fmt.Errorf("commit %d: %w", number, err)
			}
			records = records[n+int(length):]
		}
	}
	return latest, nil
}

// checkTorn returns an error if a later commit follows what is not a whole one: a commit begins only when the one
// before is durable, so that one was whole once.
func checkTorn(rest []byte, at int, expected, seed uint64) error {
	for i := 1; i+headBytes < len(rest); i++ {
		number := binary.LittleEndian.Uint64(rest[i+8:])
		if number < expected || number > expected+uint64(len(rest)/headBytes) {
			continue // cheaper than a checksum at every byte
		}
		if records, _ := parse(rest[i:], seed); records != nil {
			return fmt.Errorf("commit %d at byte %d is damaged, and commit %d follows at byte %d",
				expected, at, number, at+i)
		}
	}
	return nil
}

// Append makes a commit durable: all of it, or, if a crash comes first, nothing of it. After an error the disk can't be
// trusted any more, and every further call returns that error.
func (l *log) Append(c *Commit) error {
	if l.err != nil || c.Size() == 0 {
		return l.err
	}
	err := l.write(l.file, c)
	if err == nil {
		err = l.file.SyncData()
	}
	if err == nil {
		err = l.mark.Write(durable.Mark{Number: l.number})
	}
	if err == nil && time.Since(l.marked) > markEvery {
		err = l.syncMark()
	}
	return l.fail(err)
}

func (l *log) syncMark() error {
	l.marked = time.Now()
	return l.mark.Sync()
}

// fail remembers the first error. What the disk holds after a failed write or fsync is anyone's guess, so nothing is
// tried again.
func (l *log) fail(err error) error {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("the witness's disk failed: %w", err)
	}
	return l.err
}

func (l *log) write(file vfs.File, c *Commit) error {
	l.number++
	data, err := c.seal(l.number, l.seed)
	if err != nil {
		return err
	}
	l.size += int64(len(data))
	_, err = file.Write(data)
	return err
}

// Rewrite replaces all records by those of a snapshot, which are durable when it returns. Errors are as those of
// Append.
func (l *log) Rewrite(records [][]byte) error {
	if l.err != nil {
		return l.err
	}
	return l.fail(l.replace(records))
}

// replace makes another file the log, at once.
func (l *log) replace(records [][]byte) error {
	path := l.fs.PathJoin(l.directory, logFile)
	file, err := l.fs.Create(path+newSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if l.file != nil {
		err = l.file.Close()
	}
	file = durable.FillAhead(file, 0, zeroes[:])
	l.file, l.size = file, durable.MarkBytes // closed in any case
	if err == nil {
		_, err = file.Write(durable.Mark{Number: l.number}.Append(nil, l.seed))
	}
	var c Commit
	for _, record := range records {
		c.Add(record)
		if err == nil && c.Size() >= rewriteBytes {
			err = l.write(file, &c)
			c.Reset()
		}
	}
	if err == nil && c.Size() > 0 {
		err = l.write(file, &c)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = l.fs.Rename(path+newSuffix, path)
	}
	if err == nil {
		err = durable.Sync(l.fs, l.directory)
	}
	mark := durable.Mark{Number: l.number}
	switch {
	case err != nil:
		return err
	case l.mark == nil:
		l.mark, err = durable.CreateMark(l.fs, l.directory, markFile, l.seed, mark)
	default:
		err = l.mark.Write(mark)
	}
	if err == nil {
		err = l.syncMark()
	}
	return err
}

// Size is that of the log, in bytes, without the zeroes behind it.
func (l *log) Size() int64 { return l.size }

func (l *log) close() error {
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	if l.mark != nil {
		errs = append(errs, l.mark.Close())
	}
	l.file, l.mark = nil, nil
	return errors.Join(errs...)
}
