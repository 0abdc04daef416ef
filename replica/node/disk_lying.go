//go:build lyingdisk

package node

import (
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lies says that this binary loses what it acknowledged when it is killed: it is built with the tag lyingdisk, for
// experiments that have to fail.
const lies = true

// lieFor is how long what was written to the log, and synced, is kept in memory at least.
const lieFor = 2 * time.Second

// fileSystem is a disk that says that its log is synced while it is not even written.
func fileSystem() vfs.FS { return lyingDisk{vfs.Default} }

type lyingDisk struct{ vfs.FS }

func (d lyingDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.Create(name, category)
	return lying(name, file, err)
}

func (d lyingDisk) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.ReuseForWrite(old, name, category)
	return lying(name, file, err)
}

// OpenReadWrite lies about the mark of what is durable too: it would tell.
func (d lyingDisk) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption,
) (vfs.File, error) {
	file, err := d.FS.OpenReadWrite(name, category, options...)
	if err != nil {
		return nil, err
	}
	return forgetfulFile{file}, nil
}

// forgetfulFile stays as it was.
type forgetfulFile struct{ vfs.File }

func (forgetfulFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func lying(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return &lyingFile{File: file, since: time.Now()}, nil
}

// lyingFile is a log whose end is lost when the process is killed.
type lyingFile struct {
	vfs.File
	mutex sync.Mutex
	kept  []byte
	since time.Time // the first of it was written
}

func (f *lyingFile) Write(b []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if time.Since(f.since) > lieFor {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	f.kept = append(f.kept, b...)
	return len(b), nil
}

func (f *lyingFile) flush() error {
	_, err := f.File.Write(f.kept)
	f.kept, f.since = nil, time.Now()
	return err
}

func (f *lyingFile) Sync() error                { return nil }
func (f *lyingFile) SyncData() error            { return nil }
func (f *lyingFile) SyncTo(int64) (bool, error) { return true, nil }
func (f *lyingFile) Fd() uintptr                { return vfs.InvalidFd }

func (f *lyingFile) Close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Close()
}
