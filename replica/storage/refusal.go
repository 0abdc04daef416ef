package storage

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// watched is a file system that remembers the first operation which the machine refused. A database that can't be
// opened for that reason may panic while it lets go of what it has, as it does over files that are damaged: the one is
// told from the other by this.
type watched struct {
	vfs.FS
	first atomic.Pointer[error]
}

// refused is why the machine refused something; nil: it did not.
func (w *watched) refused() error {
	if err := w.first.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *watched) see(err error) error {
	if err != nil && durable.Refused(err) {
		w.first.CompareAndSwap(nil, &err)
	}
	return err
}

func (w *watched) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, w.see(err)
	}
	return &watchedFile{f, w}, nil
}

func (w *watched) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(w.FS.Create(name, category))
}

func (w *watched) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	return w.file(w.FS.Open(name, options...))
}

func (w *watched) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption,
) (vfs.File, error) {
	return w.file(w.FS.OpenReadWrite(name, category, options...))
}

func (w *watched) OpenDir(name string) (vfs.File, error) { return w.file(w.FS.OpenDir(name)) }

func (w *watched) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(w.FS.ReuseForWrite(old, name, category))
}

func (w *watched) Link(old, name string) error   { return w.see(w.FS.Link(old, name)) }
func (w *watched) Remove(name string) error      { return w.see(w.FS.Remove(name)) }
func (w *watched) Rename(old, name string) error { return w.see(w.FS.Rename(old, name)) }

func (w *watched) List(name string) ([]string, error) {
	names, err := w.FS.List(name)
	return names, w.see(err)
}

func (w *watched) Stat(name string) (vfs.FileInfo, error) {
	info, err := w.FS.Stat(name)
	return info, w.see(err)
}

// watchedFile is a file of that file system. What a file system need not be able to do, such as preallocation, says
// nothing.
type watchedFile struct {
	vfs.File
	watched *watched
}

func (f *watchedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.watched.see(err)
}

func (f *watchedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	return n, f.watched.see(err)
}

func (f *watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.watched.see(err)
}

func (f *watchedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	return info, f.watched.see(err)
}

func (f *watchedFile) Sync() error     { return f.watched.see(f.File.Sync()) }
func (f *watchedFile) SyncData() error { return f.watched.see(f.File.SyncData()) }
func (f *watchedFile) Close() error    { return f.watched.see(f.File.Close()) }
