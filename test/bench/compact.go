package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// compacted compacts the databases of stopped replicas and returns how many bytes all files of them take then.
func compacted(ctx context.Context, data string) (size int64, err error) {
	paths, err := filepath.Glob(filepath.Join(data, "*", "db"))
	if err != nil || len(paths) != members {
		return 0, fmt.Errorf("%d databases of %d replicas are in %s: %w", len(paths), members, data, err)
	}
	for _, path := range paths {
		if err := compactOne(ctx, path); err != nil {
			return 0, fmt.Errorf("compact %s: %w", path, err)
		}
		files, err := sizeOf(path)
		if err != nil {
			return 0, err
		}
		size += files
	}
	return size, nil
}

// compactOne rewrites a database with the filters that members give their tables (package storage).
func compactOne(ctx context.Context, path string) error {
	options := &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(path, options)
	if err != nil {
		return err
	}
	if err := db.Compact(ctx, []byte{0}, []byte{0xff, 0xff, 0xff}, true); err != nil {
		return err
	}
	return db.Close()
}

// quiet is a log of nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
