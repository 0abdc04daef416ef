package storage

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/georegister/georegister/replica/durable"
)

// zeroes is what logs are filled with, as many at a time.
var zeroes [256 << 10]byte

// zeroed is a file system that fills logs with zeroes in front of what is appended to them (durable.FillAhead). The
// database allocates the blocks of a log, which does not spare what zeroes do, and writes over old logs, which are
// there only some time after a start: it takes what was a log of the same start and is in tables by now.
//
// The zeroes behind the end are what is in such an old log, too: something that is no chunk of this one.
type zeroed struct{ vfs.FS }

func (z zeroed) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := z.FS.Create(name, category)
	if _, _, isLog := wal.ParseLogFilename(z.PathBase(name)); err != nil || !isLog {
		return file, err
	}
	return durable.FillAhead(file, 0, zeroes[:]), nil
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
	return durable.FillAhead(file, info.Size(), zeroes[:]), nil
}
