package durable

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Mark says how far a disk has come: which start of its process made which commit durable, counted from 1. Later marks
// are higher in both.
type Mark struct {
	Boot   uint32
	Number uint64
}

// MarkBytes is the length of an encoded mark.
const MarkBytes = 4 + 8 + 8

// Seed makes checksums of one owner wrong for every other.
func Seed(owner string) uint64 { return xxhash.Sum64String(owner) }

// Checksum covers a key and a value, and where the one ends and the other begins.
func Checksum(seed uint64, key, value []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed + uint64(len(key)))
	_, _ = d.Write(key) // never fails
	_, _ = d.Write(value)
	return d.Sum64()
}

// Append adds the encoded mark, with a checksum, to b.
func (m Mark) Append(b []byte, seed uint64) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, m.Boot)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	return binary.BigEndian.AppendUint64(b, Checksum(seed, nil, b[start:]))
}

// ParseMark returns false if the data is not a mark of the seed's owner.
func ParseMark(data []byte, seed uint64) (Mark, bool) {
	if len(data) != MarkBytes || Checksum(seed, nil, data[:12]) != binary.BigEndian.Uint64(data[12:]) {
		return Mark{}, false
	}
	return Mark{binary.BigEndian.Uint32(data), binary.BigEndian.Uint64(data[4:])}, true
}

// MarkFile keeps the mark of the latest commit that was reported as durable. It is written over in place, without an
// fsync of its own: when only the process dies, the kernel keeps it, so that it tells exactly what was reported. After
// a loss of power it may be older, and never newer, since it follows the fsync of what it tells of. It lies in one
// sector, which a disk writes whole or not at all.
type MarkFile struct {
	file vfs.File
	seed uint64
	data []byte // scratch
}

// CreateMark makes a mark file anew, and returns when it is durable.
func CreateMark(fs vfs.FS, directory, name string, seed uint64, m Mark) (*MarkFile, error) {
	if err := Replace(fs, directory, name, m.Append(nil, seed)); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	file, err := fs.OpenReadWrite(fs.PathJoin(directory, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &MarkFile{file: file, seed: seed}, nil
}

// ReadMark reads a mark file. Its error wraps ErrDamaged if there is none, or it is not what its owner wrote.
func ReadMark(fs vfs.FS, directory, name string, seed uint64) (Mark, error) {
	path := fs.PathJoin(directory, name)
	data, err := Read(fs, path)
	if err != nil {
		return Mark{}, err
	}
	m, ok := ParseMark(data, seed)
	switch {
	case data == nil:
		return Mark{}, fmt.Errorf("%s is missing: the disk is %w", path, ErrDamaged)
	case !ok:
		return Mark{}, fmt.Errorf("%s is %w: its checksum is wrong", path, ErrDamaged)
	}
	return m, nil
}

// Write replaces the mark, for whoever looks after the process has died.
func (f *MarkFile) Write(m Mark) error {
	f.data = m.Append(f.data[:0], f.seed)
	_, err := f.file.WriteAt(f.data, 0)
	return err
}

// Sync makes the mark durable.
func (f *MarkFile) Sync() error { return f.file.SyncData() }

// Close makes the mark durable and closes the file.
func (f *MarkFile) Close() error { return errors.Join(f.Sync(), f.file.Close()) }
