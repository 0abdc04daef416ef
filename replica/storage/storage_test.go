package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
)

// patience bounds every wait; nothing is expected to take that long.
const patience = 20 * time.Second

const directory = "/state/of/member"

func options(fs vfs.FS, d Durability) Options {
	return Options{
		Directory: directory, Durability: d, FileSystem: fs,
		Identity: Identity{Cluster: "c", Member: 2, Protocol: "abd", Shards: 3},
	}
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func set(key, value string) protocol.Mutation {
	return protocol.Mutation{Key: []byte(key), Value: []byte(value)}
}

// put commits one batch and waits until it is persisted.
func put(t *testing.T, s *Store, shard int, sequence uint64, mutations ...protocol.Mutation) {
	t.Helper()
	done := make(chan uint64, 1)
	if s.Commit(shard, protocol.Batch{Sequence: sequence, Mutations: mutations}, func(n uint64) { done <- n }) {
		return
	}
	select {
	case n := <-done:
		if n != sequence {
			t.Fatalf("batch %d is reported as %d", sequence, n)
		}
	case <-time.After(patience):
		t.Fatal("never persisted")
	}
}

func scan(s *Store, shard int, after string, limit int) []string {
	var found []string
	var from []byte
	if after != "" {
		from = []byte(after)
	}
	s.Shard(shard).Scan(from, func(key, value []byte) bool {
		found = append(found, string(key)+"="+string(value))
		return len(found) < limit
	})
	return found
}

func TestShardsHaveKeySpacesOfTheirOwn(t *testing.T) {
	for _, d := range []Durability{Sync, Interval, Memory} {
		t.Run(d.String(), func(t *testing.T) {
			s := open(t, options(vfs.NewMem(), d))
			defer closeStore(t, s)
			put(t, s, 0, 1, set("a", "0"), set("\xff\xff", "end"))
			put(t, s, 1, 1, set("a", "1"), set("b", "2"), set("c", "3"), set("e", ""))
			put(t, s, 1, 2, protocol.Mutation{Key: []byte("b")}, set("c", "4"))
			if v, ok := s.Shard(1).Get([]byte("c")); !ok || string(v) != "4" {
				t.Errorf("c is %q, %v", v, ok)
			}
			if v, ok := s.Shard(1).Get([]byte("e")); !ok || v == nil {
				t.Errorf("an empty value reads as %v, %v", v, ok)
			}
			if _, ok := s.Shard(1).Get([]byte("b")); ok {
				t.Error("b was deleted and is there")
			}
			for _, test := range []struct {
				shard int
				after string
				limit int
				want  []string
			}{
				{0, "", 9, []string{"a=0", "\xff\xff=end"}},
				{1, "", 9, []string{"a=1", "c=4", "e="}},
				{1, "a", 9, []string{"c=4", "e="}},
				{1, "b", 1, []string{"c=4"}},
				{2, "", 9, nil},
			} {
				if got := scan(s, test.shard, test.after, test.limit); !slices.Equal(got, test.want) {
					t.Errorf("shard %d after %q: %q, want %q", test.shard, test.after, got, test.want)
				}
			}
			if s.Bytes() == 0 {
				t.Error("the state has no size")
			}
		})
	}
}

func TestAValueOutlivesItsOverwriting(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	defer closeStore(t, s)
	put(t, s, 0, 1, set("k", "before"))
	value, _ := s.Shard(0).Get([]byte("k"))
	put(t, s, 0, 2, set("k", "after!"))
	if string(value) != "before" {
		t.Errorf("a value that was read turned into %q", value)
	}
}

func TestCommitsArePersistedInOrder(t *testing.T) {
	var groups, batches atomic.Int64
	s := open(t, options(vfs.NewMem(), Sync))
	s.Observe(func(c Commit) { groups.Add(1); batches.Add(int64(c.Batches)) })
	defer closeStore(t, s)
	const n = 500
	persisted := make(chan uint64, n)
	for i := range n {
		s.Commit(0, protocol.Batch{Sequence: uint64(i + 1), Mutations: []protocol.Mutation{set("k", fmt.Sprint(i))}},
			func(sequence uint64) { persisted <- sequence })
	}
	for i := range n {
		select {
		case got := <-persisted:
			if got != uint64(i+1) {
				t.Fatalf("batch %d is reported in place of %d", got, i+1)
			}
		case <-time.After(patience):
			t.Fatalf("batch %d was never persisted", i+1)
		}
	}
	if batches.Load() != n || groups.Load() > n {
		t.Errorf("%d groups of %d batches, want %d", groups.Load(), batches.Load(), n)
	}
}

// crash returns the file system as a power cut would leave it, with nothing that was not synced.
func crash(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

func TestWhatAStopCosts(t *testing.T) {
	tests := map[string]struct {
		durability Durability
		clean      bool
		lost       bool
		kept       bool
	}{
		"sync, clean":     {Sync, true, false, true},
		"sync, crash":     {Sync, false, false, true},
		"interval, clean": {Interval, true, false, true},
		"interval, crash": {Interval, false, true, false},
		"memory, clean":   {Memory, true, true, false},
		"memory, crash":   {Memory, false, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			s := open(t, options(fs, test.durability))
			if s.Boot() != 1 || s.Lost() {
				t.Fatalf("a new disk: boot %d, lost %v", s.Boot(), s.Lost())
			}
			put(t, s, 1, 1, set("k", "v"))
			if test.clean {
				closeStore(t, s)
			}
			after := crash(fs)
			if !test.clean {
				closeStore(t, s)
			}
			s = open(t, options(after, test.durability))
			if s.Boot() != 2 || s.Lost() != test.lost {
				t.Errorf("boot %d, lost %v; want 2, %v", s.Boot(), s.Lost(), test.lost)
			}
			if _, ok := s.Shard(1).Get([]byte("k")); ok != test.kept {
				t.Errorf("the record is there: %v, want %v", ok, test.kept)
			}
			closeStore(t, s)
			// What was lost once stays known.
			s = open(t, options(crash(after), test.durability))
			if s.Boot() != 3 || s.Lost() != test.lost {
				t.Errorf("later: boot %d, lost %v; want 3, %v", s.Boot(), s.Lost(), test.lost)
			}
			closeStore(t, s)
		})
	}
}

func TestADatabaseThatWasRemovedCountsAsLost(t *testing.T) {
	fs := vfs.NewMem()
	closeStore(t, open(t, options(fs, Sync)))
	if err := fs.RemoveAll(directory + "/db"); err != nil {
		t.Fatal(err)
	}
	s := open(t, options(fs, Sync))
	defer closeStore(t, s)
	if !s.Lost() {
		t.Error("not noticed")
	}
}

// A start that finds the database gone, makes a new one and dies must not let the next start take it for old.
func TestARemovedDatabaseStaysLost(t *testing.T) {
	fs := vfs.NewMem()
	closeStore(t, open(t, options(fs, Sync)))
	if err := fs.RemoveAll(directory + "/db"); err != nil {
		t.Fatal(err)
	}
	dies := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpMkdirAll && strings.HasSuffix(op.Path, "/db") {
			return syscall.EIO
		}
		return nil
	}))
	if s, err := Open(options(dies, Sync)); err == nil {
		closeStore(t, s)
		t.Fatal("opened, though no database can be made")
	}
	if err := fs.MkdirAll(directory+"/db", 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, options(fs, Sync))
	defer closeStore(t, s)
	if !s.Lost() {
		t.Error("a database of a start that died is taken for the member's own")
	}
}

func TestForeignDisks(t *testing.T) {
	tests := map[string]func(*Identity){
		`its cluster is c, this member's is d`:      func(i *Identity) { i.Cluster = "d" },
		`its member is 2, this member's is 3`:       func(i *Identity) { i.Member = 3 },
		`its protocol is abd, this member's is gus`: func(i *Identity) { i.Protocol = "gus" },
		`its shards is 3, this member's is 4`:       func(i *Identity) { i.Shards = 4 },
	}
	fs := vfs.NewMem()
	closeStore(t, open(t, options(fs, Sync)))
	for says, change := range tests {
		o := options(fs, Sync)
		change(&o.Identity)
		if _, err := Open(o); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	closeStore(t, open(t, options(fs, Sync)))
}

func TestRecordsWithoutAnIdentityAreRefused(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	put(t, s, 0, 1, set("k", "v"))
	closeStore(t, s)
	if err := fs.Remove(directory + "/" + identityFile); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs, Sync)); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherDiskVersionIsRefused(t *testing.T) {
	later := func(version int) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) {
			if err := durable.WriteDocument(fs, directory, identityFile, version, record{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for says, change := range map[string]func(*testing.T, vfs.FS){
		"disk version 7 is not 3": later(7),
		"disk version 1 is not 3": func(t *testing.T, fs vfs.FS) { // it had no digest
			if err := durable.Replace(fs, directory, identityFile,
				[]byte(`{"disk_version": 1, "cluster": "c", "boot": 3}`)); err != nil {
				t.Fatal(err)
			}
		},
		"the database is of format 999, and this program reads those up to": func(t *testing.T, fs vfs.FS) {
			if err := durable.Replace(fs, directory+"/db", "marker.format-version.000099.999", nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		fs := vfs.NewMem()
		s := open(t, options(fs, Sync))
		put(t, s, 0, 1, set("k", "v"))
		closeStore(t, s)
		kept, err := durable.Read(fs, directory+"/"+identityFile)
		if err != nil {
			t.Fatal(err)
		}
		change(t, fs)
		if _, err := Open(options(fs, Sync)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if err := durable.Replace(fs, directory, identityFile, kept); err != nil {
			t.Fatal(err)
		}
		if there, err := durable.Exists(fs, directory+"/"+asideDirectory); there || err != nil {
			t.Errorf("%s: the disk was set aside, or %v", says, err)
		}
	}
}

func TestADirectoryIsUsedOnce(t *testing.T) {
	o := options(vfs.Default, Sync)
	o.Directory = filepath.Join(t.TempDir(), "member")
	s := open(t, o)
	defer closeStore(t, s)
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("two stores share a directory: %v", err)
	}
	for _, name := range []string{o.Directory, filepath.Join(o.Directory, "db")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("others may look into %s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestADiskThatFailsIsNeverTrustedAgain(t *testing.T) {
	isLog := func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }
	tests := map[string]struct {
		hits  func(errorfs.Op) bool
		fault error
	}{
		"fsync": {func(op errorfs.Op) bool {
			return isLog(op) &&
				(op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo)
		}, syscall.EIO},
		"disk full": {func(op errorfs.Op) bool { return isLog(op) && op.Kind == errorfs.OpFileWrite }, syscall.ENOSPC},
	}
	for name, test := range tests {
		for _, d := range []Durability{Sync, Interval} {
			t.Run(name+", "+d.String(), func(t *testing.T) {
				var broken atomic.Bool
				fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && test.hits(op) {
						return test.fault
					}
					return nil
				}))
				o := options(fs, d)
				o.FlushEvery = time.Millisecond
				s := open(t, o)
				put(t, s, 0, 1, set("k", "v"))
				broken.Store(true)
				var persisted atomic.Int64
				s.Commit(0,
					protocol.Batch{Sequence: 2, Mutations: []protocol.Mutation{set("k", strings.Repeat("w", 64<<10))}},
					func(uint64) { persisted.Add(1) })
				select {
				case <-s.Done():
				case <-time.After(patience):
					t.Fatal("the failure is not reported")
				}
				if !strings.Contains(s.Err().Error(), test.fault.Error()) {
					t.Errorf("the reason is %v", s.Err())
				}
				if d == Sync && persisted.Load() != 0 {
					t.Error("a batch that failed is reported as persisted")
				}
				broken.Store(false) // the disk may look fine again; nothing may follow all the same
				before := persisted.Load()
				s.Commit(0, protocol.Batch{Sequence: 3, Mutations: []protocol.Mutation{set("k", "x")}}, func(uint64) {
					persisted.Add(1)
				})
				if err := s.Close(); err == nil {
					t.Error("Close hides the failure")
				}
				if persisted.Load() != before {
					t.Error("acknowledged after a failure")
				}
				if d == Sync { // nothing acknowledged is missing
					next := open(t, options(snapshot(t, fs).restore(t), d))
					if v, ok := next.Shard(0).Get([]byte("k")); next.Lost() || !ok || v == nil {
						t.Errorf("a disk that failed to write is lost: %v; it holds %q", next.Loss(), v)
					}
					closeStore(t, next)
				}
			})
		}
	}
}
