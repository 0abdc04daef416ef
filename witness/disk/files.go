package disk

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// replaceFile makes data the content of a file, as a whole, and returns when that is durable.
func replaceFile(fs vfs.FS, directory, name string, data []byte) error {
	path := fs.PathJoin(directory, name)
	file, err := fs.Create(path+newSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return syncDirectory(fs, directory)
}

// removeFile returns when it is durable that there is no such file.
func removeFile(fs vfs.FS, directory, name string) error {
	if err := fs.Remove(fs.PathJoin(directory, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDirectory(fs, directory)
}

// makeDirectory makes a directory and what is missing above it, each durable in its parent.
func makeDirectory(fs vfs.FS, path string) error {
	if info, err := fs.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is no directory", path)
		}
		return nil
	}
	parent := fs.PathDir(path)
	if parent != path {
		if err := makeDirectory(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return syncDirectory(fs, parent)
}

func syncDirectory(fs vfs.FS, directory string) error {
	d, err := fs.OpenDir(directory)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", directory, err)
	}
	return nil
}
