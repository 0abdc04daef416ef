package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// refusal is what the machine does to the operations of a start, from one on or once.
type refusal struct {
	Name      string
	Error     syscall.Errno
	Writes    bool // only of what writes
	Once      bool
	From      int32
	Directory string
	Stop      int // of the start before, by its place among stops
}

// refusalVariable has the process of a test be a start that is refused, since the database ends the process in some
// cases.
const refusalVariable = "GEOREGISTER_TEST_REFUSAL"

// nothingRefused is the status of a start that had fewer operations.
const nothingRefused = 3

// start opens a disk and closes it.
func (r refusal) start() {
	var count atomic.Int32
	o := options(errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if r.Writes && op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if i := count.Add(1) - 1; i == r.From || i > r.From && !r.Once {
			return r.Error
		}
		return nil
	})), stops[r.Stop].durability)
	o.Directory = r.Directory
	s, err := Open(o)
	if err == nil {
		err = s.Close()
	}
	fmt.Println(err)
	if count.Load() <= r.From {
		os.Exit(nothingRefused)
	}
	os.Exit(1)
}

func TestMain(m *testing.M) {
	if text := os.Getenv(refusalVariable); text != "" {
		var r refusal
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			panic(err)
		}
		r.start()
	}
	os.Exit(m.Run())
}

// What the machine refuses, once or from some operation on, says nothing about a disk: whatever a start comes to before
// it gives up, the next one has all that was acknowledged. What the machine refuses, once or from some operation on,
// says nothing about a disk: whatever a start comes to before it gives up, the next one has all that was acknowledged.
// REFUSALS=all has each operation of a start refused in each way; else some are.
func TestADiskThatIsRefusedIsNotLost(t *testing.T) {
	whole := os.Getenv("REFUSALS") == "all"
	for _, r := range []refusal{
		{Name: "a disk that is full for a moment", Error: syscall.ENOSPC, Writes: true, Once: true},
		{Name: "a full disk", Error: syscall.ENOSPC, Writes: true},
		{Name: "a read-only file system", Error: syscall.EROFS, Writes: true},
		{Name: "a device that does not answer once", Error: syscall.EIO, Once: true},
		{Name: "a device that is gone", Error: syscall.EIO},
		{Name: "no rights", Error: syscall.EACCES, Once: true},
	} {
		for i, at := range stops {
			// The latter two may be lost in any case.
			if at.power == 0 || at.durability == Interval && at.power > 0 || !whole && i > 0 {
				continue
			}
			every := int32(40)
			if whole {
				every = 1
			}
			r.Stop = i
			now, _ := at.run(t, true, mine)
			for r.From = 0; r.suffer(t, at, now); r.From += every {
			}
			t.Logf("%s, %s: %d operations", r.Name, at.name, r.From)
			if r.From < 30 {
				t.Error("these are too few")
			}
		}
	}
}

// suffer has another process start on a disk, then starts on what that left, and reports whether there was an operation
// to refuse.
func (r refusal) suffer(t *testing.T, at stop, disk files) bool {
	t.Helper()
	r.Directory = filepath.Join(t.TempDir(), "disk")
	for _, name := range slices.Sorted(maps.Keys(disk)) {
		path := r.Directory + strings.TrimPrefix(name, directory)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, disk[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), refusalVariable+"="+string(text))
	said, err := c.CombinedOutput()
	o := options(vfs.Default, at.durability)
	o.Directory = r.Directory
	next := open(t, o)
	defer closeStore(t, next)
	all, read := state(next)
	unclean := at.durability == Interval && next.Lost() && next.Loss() == nil
	if (next.Lost() || read != nil || !maps.Equal(all, after(2*halves, mine))) && !unclean {
		t.Errorf("%s, %s, operation %d: lost %v, %v, %d records, %v: %v: %.2000s",
			r.Name, at.name, r.From, next.Lost(), next.Loss(), len(all), read, err, said)
	}
	return c.ProcessState.ExitCode() != nothingRefused
}

// giving is a file system over which a database panics when it gives up: as it closes its directory.
type giving struct {
	vfs.FS
	up *atomic.Bool
}

type givingDirectory struct {
	vfs.File
	up *atomic.Bool
}

func (g giving) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	return givingDirectory{f, g.up}, err
}

func (d givingDirectory) Close() error {
	if d.up.Swap(false) {
		panic("element has outstanding references")
	}
	return d.File.Close()
}

// A database that the machine keeps from being opened may panic as it gives up; then the disk is refused. One that
// panics over what it reads is damaged.
func TestAPanicAfterARefusalIsNoDamage(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		fs := vfs.NewMem()
		s := open(t, options(fs, Sync))
		put(t, s, 0, 1, set("k", "v"))
		closeStore(t, s)
		up, done := new(atomic.Bool), false
		faulty := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if done || op.Kind != errorfs.OpFileRead && op.Kind != errorfs.OpFileReadAt ||
				!strings.Contains(op.Path, "/MANIFEST-") {
				return nil
			}
			if done = true; !refuses {
				panic("index out of range")
			}
			up.Store(true)
			return syscall.EIO
		}))
		s, err := Open(options(giving{faulty, up}, Sync))
		if refuses != errors.Is(err, syscall.EIO) || !refuses && (err != nil || !s.Lost()) || up.Load() {
			t.Errorf("refused %v: %v", refuses, err)
		}
		if err == nil {
			closeStore(t, s)
		}
		if s = open(t, options(snapshot(t, fs).restore(t), Sync)); s.Lost() == refuses {
			t.Errorf("refused %v: the next start is lost %v: %v", refuses, s.Lost(), s.Loss())
		}
		closeStore(t, s)
	}
}
