package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// The database panics over what is damaged in a file of values, also in goroutines of its own, which nobody can catch:
// the process would end, and so would each one after it, without a note of why. So what it reads of such a file is
// checked before it has it.

const (
	valuesExtension = ".blob"
	// valuesEnd is how long the end of a file of values is, which says where the rest is.
	valuesEnd = 38
	crcBytes  = 4
)

// valuesChecked is a file system that hands on nothing of a file of values but what was written.
type valuesChecked struct{ vfs.FS }

func (v valuesChecked) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := v.FS.Open(name, options...)
	if err != nil || path.Ext(name) != valuesExtension {
		return f, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < valuesEnd {
		err = fmt.Errorf("%s is %w: it has %d bytes", name, durable.ErrDamaged, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return valuesFile{f, name}, nil
}

type valuesFile struct {
	vfs.File
	name string
}

// ReadAt reads one block, or the end of the file: the database asks for nothing else.
func (f valuesFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	if err == nil && !isWhole(p) || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s is %w: the %d bytes from byte %d on are not what was written", f.name,
			durable.ErrDamaged, len(p), at)
	}
	return n, err
}

// isWhole reports whether a block has its checksum behind it, or the end of a file has its own in front.
func isWhole(p []byte) bool {
	at := len(p) - crcBytes
	return at > 0 && (binary.LittleEndian.Uint32(p[at:]) == checksum(p[:at]) ||
		binary.LittleEndian.Uint32(p) == checksum(p[crcBytes:]))
}
