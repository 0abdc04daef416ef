package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errInjected = errors.New("injected")

// faulty fails one operation that changes the disk: the one at which left reaches zero.
type faulty struct {
	vfs.FS
	left *int
	only string // kind of operation; empty: any
}

func (f faulty) fails(kind string) error {
	if f.only != "" && f.only != kind {
		return nil
	}
	if *f.left--; *f.left == 0 {
		return errInjected
	}
	return nil
}

func (f faulty) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.fails("create"); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return faultyFile{file, f}, err
}

func (f faulty) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return faultyFile{file, f}, err
}

func (f faulty) Rename(from, to string) error {
	if err := f.fails("rename"); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f faulty) Remove(name string) error {
	if err := f.fails("remove"); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type faultyFile struct {
	vfs.File
	fs faulty
}

func (f faultyFile) Write(data []byte) (int, error) {
	if err := f.fs.fails("write"); err != nil {
		n, _ := f.File.Write(data[:len(data)/2])
		return n, err
	}
	return f.File.Write(data)
}

func (f faultyFile) Sync() error {
	if err := f.fs.fails("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f faultyFile) SyncData() error {
	if err := f.fs.fails("sync"); err != nil {
		return err
	}
	return f.File.SyncData()
}

// work appends, rewrites and opens again until something fails, and returns what was acknowledged, and what was being
// written at the end. Every name that was told is noted.
func work(fs vfs.FS, names map[string]bool) (acknowledged []string, attempted string, err error) {
	for start := range 2 {
		d, l, err := open(options(fs))
		if err != nil {
			return acknowledged, "", err
		}
		names[d.Name()] = true
		if !slices.Equal(l.records, acknowledged) {
			return nil, "", fmt.Errorf("restored %q, want %q", l.records, acknowledged)
		}
		for i := range 6 {
			attempted = fmt.Sprintf("%d.%d", start, i)
			if i%3 == 2 {
				l.records = append(l.records, attempted)
				err = d.Rewrite(l.Snapshot())
			} else {
				err = d.Append(commit(attempted))
				l.records = append(l.records, attempted)
			}
			if err != nil {
				if again := d.Append(commit("later")); !errors.Is(again, errInjected) {
					return nil, "", fmt.Errorf("the disk goes on after %w: %w", err, again)
				}
				return acknowledged, attempted, errors.Join(err, d.Close())
			}
			acknowledged = append(acknowledged, attempted)
		}
		if err := d.Close(); err != nil {
			return acknowledged, "", err
		}
	}
	return acknowledged, "", nil
}

// Whatever operation of the disk fails, and however much of what was not synced is lost in the crash that follows: what
// was acknowledged is there, under the same name.
func TestWhatIsAcknowledgedSurvivesEveryFailure(t *testing.T) {
	failures := 0
	for k := 1; ; k++ {
		left, names := k, map[string]bool{}
		fs := vfs.NewCrashableMem()
		acknowledged, attempted, err := work(faulty{FS: fs, left: &left}, names)
		if left > 0 {
			if err != nil {
				t.Fatal(err)
			}
			break // there are no more operations
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("failure %d is not told: %v", k, err)
		}
		failures++
		for _, percent := range []int{0, 50, 100} {
			crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: newRandom(uint64(k))})
			d, l, err := open(options(crashed))
			if err != nil {
				t.Fatalf("failure %d, %d%%: %v", k, percent, err)
			}
			more := append(slices.Clone(acknowledged), attempted)
			if !slices.Equal(l.records, acknowledged) && !slices.Equal(l.records, more) {
				t.Fatalf("failure %d, %d%%: restored %q, acknowledged were %q", k, percent, l.records, acknowledged)
			}
			if len(acknowledged) > 0 && !names[d.Name()] {
				t.Fatalf("failure %d, %d%%: the disk has another name", k, percent)
			}
			mustClose(t, d)
		}
	}
	if failures < 30 {
		t.Errorf("only %d operations were made to fail", failures)
	}
}

// An fsync that failed is not tried again: the kernel may have dropped what it could not write, and say that all is
// well.
func TestAnFsyncErrorIsFinal(t *testing.T) {
	left := 1 << 30
	d, _ := mustOpen(t, options(faulty{FS: vfs.NewMem(), left: &left, only: "sync"}))
	if err := d.Append(commit("a")); err != nil {
		t.Fatal(err)
	}
	left = 1
	for range 3 {
		if err := d.Append(commit("b")); !errors.Is(err, errInjected) {
			t.Fatalf("%v", err)
		}
		if err := d.Rewrite((&list{}).Snapshot()); !errors.Is(err, errInjected) {
			t.Fatalf("%v", err)
		}
	}
	mustClose(t, d)
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
