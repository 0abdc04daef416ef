package storage

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// zeroStep is by how many bytes a log is filled with zeroes in front of what is written. A larger one is written less
// often; a commit waits while one is.
const zeroStep = 256 << 10

// zeroed is a file system that fills logs with zeroes in front of what is appended to them. An fdatasync of a file that
// grew, or in which blocks are written for the first time, writes what the file system notes of that too, which is a
// commit of its journal if it has one; that of a file that is written over does not. The database allocates the blocks
// of a log, which spares neither, and writes over old logs, which are there only some time after a start: it takes what
// was a log of the same start and is in tables by now.
//
// The zeroes behind the end are what is in such an old log, too: something that is no chunk of this one.
type zeroed struct{ vfs.FS }

func (z zeroed) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := z.FS.Create(name, category)
	if _, _, isLog := wal.ParseLogFilename(z.PathBase(name)); err != nil || !isLog {
		return file, err
	}
	return &zeroedLog{File: file}, nil
}

func (z zeroed) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := z.FS.ReuseForWrite(old, name, category)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &zeroedLog{File: file, filled: info.Size()}, nil
}

// zeroedLog is a log that is written from its beginning on.
type zeroedLog struct {
	vfs.File
	end    int64 // of what was written
	filled int64 // up to here something was written, or zeroes
}

var zeroes [zeroStep]byte

func (l *zeroedLog) Write(p []byte) (int, error) {
	n, err := l.File.Write(p)
	if l.end += int64(n); err != nil || l.end <= l.filled {
		return n, err
	}
	l.filled = (l.end/zeroStep + 1) * zeroStep
	// A disk that has no room for zeroes may have room for what comes next.
	_, _ = l.File.WriteAt(zeroes[:l.filled-l.end], l.end)
	return n, nil
}
