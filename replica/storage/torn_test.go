package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A process that is killed while it writes leaves half a record at the end of its log. What was persisted
// before must be there, and the half must not.
func TestAHalfWrittenRecordIsDropped(t *testing.T) {
	tests := map[string]func(log []byte) []byte{
		"cut":     func(log []byte) []byte { return log[:len(log)-5] },
		"cut far": func(log []byte) []byte { return log[:len(log)-500] },
		"garbled": func(log []byte) []byte {
			log[len(log)-100]++
			return log
		},
		"zeroed": func(log []byte) []byte {
			clear(log[len(log)-300:])
			return log
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			o := options(vfs.Default, Sync)
			o.Directory = filepath.Join(t.TempDir(), "member")
			s := open(t, o)
			defer closeStore(t, s)
			for i := range uint64(10) {
				put(t, s, 0, i+1, set(fmt.Sprint("key-", i), "value"))
			}
			put(t, s, 0, 11, set("last", strings.Repeat("x", 1000)))
			torn := newestLog(t, o.Directory)
			if torn.data[len(torn.data)-1] != 'x' {
				t.Fatal("the log does not end with the latest record: damage to its end proves nothing")
			}
			copied := o
			copied.Directory = filepath.Join(t.TempDir(), "member")
			if err := os.CopyFS(copied.Directory, os.DirFS(o.Directory)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(copied.Directory, "db", filepath.Base(torn.path))
			if err := os.WriteFile(path, damage(slices.Clone(torn.data)), 0o644); err != nil {
				t.Fatal(err)
			}
			crashed := open(t, copied)
			defer closeStore(t, crashed)
			for i := range 10 {
				if v, ok := crashed.Shard(0).Get(fmt.Append(nil, "key-", i)); !ok || string(v) != "value" {
					t.Errorf("key-%d is %q, %v", i, v, ok)
				}
			}
			if _, ok := crashed.Shard(0).Get([]byte("last")); ok {
				t.Error("half a record was read")
			}
			put(t, crashed, 0, 1, set("more", "value"))
		})
	}
}

type logFile struct {
	path string
	data []byte
}

func newestLog(t *testing.T, directory string) logFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "db", "*.log"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no log: ", err)
	}
	slices.Sort(paths)
	path := paths[len(paths)-1]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return logFile{path, data}
}
