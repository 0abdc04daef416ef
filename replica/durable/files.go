// Package durable keeps the small files beside a log or a database: each is replaced as a whole, durably, and says by
// itself whether it is what was written.
package durable

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newSuffix ends the name of a file that is being written, and will replace the one without.
const newSuffix = ".new"

// ErrDamaged is what is wrapped where a file is not what was written.
var ErrDamaged = errors.New("damaged")

// Refused reports whether the machine refused an operation, such as for want of room, rights or a device that answers:
// that says nothing about what the disk holds. A file that is missing is another matter.
func Refused(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR:
		return false
	}
	return true
}

// NewName draws the name of a disk.
func NewName() string {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails, says its documentation
	return hex.EncodeToString(name[:])
}

// Exists reports whether there is a file or directory of that name.
func Exists(fs vfs.FS, path string) (bool, error) {
	_, err := fs.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Read returns nil without an error if there is no such file.
func Read(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil // not nil, even if it is empty
}

// Replace makes data the content of a file, as a whole, and returns when that is durable.
func Replace(fs vfs.FS, directory, name string, data []byte) error {
	path := fs.PathJoin(directory, name)
	file, err := fs.Create(path+newSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(bytes.Clone(data)) // a file system may use what it is given
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return Sync(fs, directory)
}

// Remove returns when it is durable that there is no such file, or directory with all that is in it.
func Remove(fs vfs.FS, directory, name string) error {
	if err := fs.RemoveAll(fs.PathJoin(directory, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return Sync(fs, directory)
}

// MakeDirectory makes a directory and what is missing above it, each durable in its parent. Nobody but their owner can
// look into them.
func MakeDirectory(fs vfs.FS, path string) error {
	if info, err := fs.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is no directory", path)
		}
		return nil
	}
	parent := fs.PathDir(path)
	if parent == path {
		return nil
	}
	if err := MakeDirectory(fs, parent); err != nil {
		return err
	}
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Sync(fs, parent)
}

// Lock keeps other processes from a directory, by a file in it.
func Lock(fs vfs.FS, path string) (io.Closer, error) {
	lock, err := fs.Lock(path)
	switch {
	case err == nil:
		return lock, nil
	case Refused(err) && !errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, fmt.Errorf("another process uses it: %w", err)
}

// Sync makes the names in a directory durable.
func Sync(fs vfs.FS, directory string) error {
	d, err := fs.OpenDir(directory)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", directory, err)
	}
	return nil
}
