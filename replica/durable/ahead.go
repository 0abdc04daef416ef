package durable

import "github.com/cockroachdb/pebble/v2/vfs"

// FillAhead returns a file that is written from its beginning on, by Write alone, and has bytes up to filled already,
// as one that is filled with zeroes in front of what is written, by as many at a time as step has: a larger one is
// written less often, and an append waits while one is.
//
// An fdatasync of a file that grew, or in which blocks are written for the first time, writes what the file system
// notes of that too, which is a commit of its journal if it has one; that of a file that is written over does not. To
// allocate the blocks spares neither. Who reads the file must take zeroes for its end.
func FillAhead(file vfs.File, filled int64, step []byte) vfs.File {
	return &aheadFile{File: file, filled: filled, step: step}
}

type aheadFile struct {
	vfs.File
	end    int64 // of what was written
	filled int64 // up to here something was written, or zeroes
	step   []byte
}

func (f *aheadFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.end += int64(n); err != nil || f.end <= f.filled {
		return n, err
	}
	step := int64(len(f.step))
	f.filled = (f.end/step + 1) * step
	// A disk that has no room for zeroes may have room for what comes next.
	_, _ = f.File.WriteAt(f.step[:f.filled-f.end], f.end)
	return n, nil
}
