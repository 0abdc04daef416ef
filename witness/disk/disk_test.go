package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// list is a state that keeps all records.
type list struct {
	records []string
	refuse  string // a record that has no meaning
}

func (l *list) Restore(record []byte) error {
	if l.refuse != "" && string(record) == l.refuse {
		return errors.New("it has no meaning")
	}
	l.records = append(l.records, string(record))
	return nil
}

func (l *list) Snapshot() (records [][]byte) {
	for _, r := range l.records {
		records = append(records, []byte(r))
	}
	return records
}

func options(fs vfs.FS) Options {
	return Options{FS: fs, Directory: "witness", Identity: Identity{Cluster: "c", Witness: 7}}
}

func open(o Options) (*Disk, *list, error) {
	d, err := Identify(o)
	if err != nil {
		return nil, nil, err
	}
	l := &list{}
	if err := d.Load(l); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, l, nil
}

func mustOpen(t *testing.T, o Options) (*Disk, *list) {
	t.Helper()
	d, l, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d, l
}

func mustClose(t *testing.T, d *Disk) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func commit(records ...string) *Commit {
	c := &Commit{}
	for _, r := range records {
		c.Add([]byte(r))
	}
	return c
}

func wantRecords(t *testing.T, l *list, want ...string) {
	t.Helper()
	if !slices.Equal(l.records, want) {
		t.Fatalf("restored %q, want %q", l.records, want)
	}
}

func TestRecordsComeBackInOrder(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, options(fs))
	name := d.Name()
	if !d.New() || name == "" {
		t.Errorf("an empty disk is new: %t; its name is %q", d.New(), name)
	}
	large := strings.Repeat("x", rewriteBytes+1)
	for _, c := range []*Commit{commit("a", ""), commit(), commit("b"), commit(large, "c")} {
		if err := d.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, d)
	for range 2 { // the second time, from a log that was written anew
		d, l := mustOpen(t, options(fs))
		wantRecords(t, l, "a", "", "b", large, "c")
		if d.New() || d.Name() != name {
			t.Errorf("a disk with records is new: %t; its name is %q, was %q", d.New(), d.Name(), name)
		}
		mustClose(t, d)
	}
}

func TestARewriteReplacesAll(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, options(fs))
	for i := range 100 {
		if err := d.Append(commit(fmt.Sprint("garbage ", i))); err != nil {
			t.Fatal(err)
		}
	}
	before := d.Size()
	if err := d.Rewrite((&list{records: []string{"live"}}).Snapshot()); err != nil {
		t.Fatal(err)
	}
	if d.Size() >= before/10 {
		t.Errorf("%d bytes, %d before", d.Size(), before)
	}
	if err := d.Append(commit("later")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	d, l := mustOpen(t, options(fs))
	wantRecords(t, l, "live", "later")
	mustClose(t, d)
}

// written is a disk with a log of some commits, where each ends, and the records up to there. Its mark is that of the
// beginning, as after a loss of power.
type written struct {
	files   map[string][]byte
	data    []byte // of the log
	ends    []int
	records [][]string
}

func write(t *testing.T) (w written) {
	t.Helper()
	fs := vfs.NewMem()
	d, l := mustOpen(t, options(fs))
	w.files = map[string][]byte{
		identityFile: readFile(t, fs, "witness/IDENTITY"), markFile: readFile(t, fs, "witness/MARK"),
	}
	w.ends, w.records = []int{int(d.Size())}, [][]string{nil}
	for i := range 6 {
		var c Commit
		for j := range i + 1 {
			r := fmt.Sprintf("%d/%d %s", i, j, strings.Repeat("y", i*j))
			c.Add([]byte(r))
			l.records = append(l.records, r)
		}
		if err := d.Append(&c); err != nil {
			t.Fatal(err)
		}
		w.ends, w.records = append(w.ends, int(d.Size())), append(w.records, slices.Clone(l.records))
	}
	mustClose(t, d)
	w.data, _ = readLog(t, fs)
	return w
}

// readLog returns what was written of the log, which ends with no zero, and the zeroes behind it.
func readLog(t *testing.T, fs vfs.FS) (data, tail []byte) {
	t.Helper()
	all := readFile(t, fs, "witness/LOG")
	if len(all)%len(zeroes) != 0 {
		t.Fatalf("a log of %d bytes is not filled in front of what is written", len(all))
	}
	data = bytes.TrimRight(all, "\x00")
	return data, all[len(data):]
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	data, err := durable.Read(fs, path)
	if err != nil || data == nil {
		t.Fatal(path, err)
	}
	return data
}

// with is the disk with that log.
func (w *written) with(t *testing.T, log []byte) vfs.FS {
	t.Helper()
	files := maps.Clone(w.files)
	files[logFile] = log
	return restore(t, files)
}

func restore(t *testing.T, files map[string][]byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("witness", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := durable.Replace(fs, "witness", name, slices.Clone(data)); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// A crash cuts the log anywhere in its last commit. Whole commits are there, a part of one isn't, and the log goes on.
func TestALogThatIsCutAtAnyByte(t *testing.T) {
	w := write(t)
	data, ends, records := w.data, w.ends, w.records
	for cut := ends[0]; cut <= len(data); cut++ {
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= cut {
			whole++
		}
		tails := map[string][]byte{"": nil, "zeroes": make([]byte, 50), "garbage": bytes.Repeat([]byte{0xa5}, 50)}
		tails["garbage in zeroes"] = slices.Concat(tails["zeroes"], tails["garbage"], tails["zeroes"])
		if whole > 0 && cut == ends[whole] {
			tails["an old commit"] = data[ends[0]:ends[1]]
		}
		for name, tail := range tails {
			fs := w.with(t, slices.Concat(data[:cut], tail))
			d, l, err := open(options(fs))
			if err != nil || d.New() {
				t.Fatalf("cut at %d, %s: %v", cut, name, err)
			}
			if !slices.Equal(l.records, records[whole]) {
				t.Fatalf("cut at %d, %s: restored %q, want %q", cut, name, l.records, records[whole])
			}
			if err := d.Append(commit("next")); err != nil {
				t.Fatal(err)
			}
			mustClose(t, d)
			d, l = mustOpen(t, options(fs))
			wantRecords(t, l, append(slices.Clone(records[whole]), "next")...)
			mustClose(t, d)
		}
	}
}

// wantLost checks that a disk is another one, empty and new, and says why; what was left is kept.
func wantLost(t *testing.T, fs vfs.FS, name, what string) {
	t.Helper()
	d, l, err := open(options(fs))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !d.New() || d.Name() == name || len(l.records) > 0 || d.Damage() == "" {
		t.Fatalf("%s: new %t, %d records, %q", what, d.New(), len(l.records), d.Damage())
	}
	name = d.Name()
	mustClose(t, d)
	d, _ = mustOpen(t, options(fs))
	if d.New() || d.Name() != name {
		t.Fatalf("%s: it is lost again", what)
	}
	mustClose(t, d)
}

// A bit that changed in what was durable is no crash: records after it would be lost silently. In the last commit it
// looks like one, and only the mark tells.
func TestALogThatIsDamagedAnywhere(t *testing.T) {
	w := write(t)
	last := w.ends[len(w.ends)-2]
	for at := range w.data {
		damaged := slices.Clone(w.data)
		damaged[at] ^= 1 << (at % 8)
		what := fmt.Sprintf("damaged at %d of %d", at, len(w.data))
		fs := w.with(t, damaged)
		if at < last {
			wantLost(t, fs, "", what)
			if there, err := durable.Exists(fs, "witness/damaged/LOG"); !there || err != nil {
				t.Fatalf("%s: what was left is gone, %v", what, err)
			}
			continue
		}
		d, l := mustOpen(t, options(fs)) // as a crash while the last commit was written
		wantRecords(t, l, w.records[len(w.records)-2]...)
		mustClose(t, d)
	}
}

func TestARecordWithoutMeaningIsDamage(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, options(fs))
	if err := d.Append(commit("a", "b")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	d, err := Identify(options(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Load(&list{refuse: "b"}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "no meaning") {
		t.Errorf("%v", err)
	}
	name := d.Name()
	mustClose(t, d)
	wantLost(t, fs, name, "the next start")
}

func TestAForeignDiskIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, options(fs))
	mustClose(t, d)
	for field, o := range map[string]Options{
		`witness 7 of cluster "c", and this is witness 7 of cluster "other"`: {
			FS: fs, Directory: "witness", Identity: Identity{Cluster: "other", Witness: 7},
		},
		`witness 7 of cluster "c", and this is witness 8 of cluster "c"`: {
			FS: fs, Directory: "witness", Identity: Identity{Cluster: "c", Witness: 8},
		},
	} {
		for _, o.Memory = range []bool{false, true} {
			if _, err := Identify(o); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), field) ||
				!strings.HasPrefix(err.Error(), "directory witness: ") {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
}

func TestADiskInUseIsRefused(t *testing.T) {
	o := options(vfs.Default)
	o.Directory = filepath.Join(t.TempDir(), "a", "b")
	d, _ := mustOpen(t, o)
	if _, err := Identify(o); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("%v", err)
	}
	mustClose(t, d)
	d, _ = mustOpen(t, o)
	mustClose(t, d)
}

func TestALogWithoutAnIdentityIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, options(fs))
	mustClose(t, d)
	if err := fs.Remove("witness/IDENTITY"); err != nil {
		t.Fatal(err)
	}
	if _, err := Identify(options(fs)); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("%v", err)
	}
}

// A disk that lost its records is another disk.
func TestMemory(t *testing.T) {
	fs := vfs.NewMem()
	names := map[string]bool{}
	next := func(memory bool, isNew bool, want ...string) {
		t.Helper()
		o := options(fs)
		o.Memory = memory
		d, l := mustOpen(t, o)
		if d.New() != isNew || d.New() == names[d.Name()] {
			t.Fatalf("disk %s is new: %t; seen before: %t", d.Name(), d.New(), names[d.Name()])
		}
		names[d.Name()] = true
		wantRecords(t, l, want...)
		if _, err := fs.Stat("witness/LOG"); errors.Is(err, os.ErrNotExist) != memory {
			t.Errorf("with Memory %t: %v", memory, err)
		}
		if err := d.Append(commit(fmt.Sprint(len(l.records)))); err != nil {
			t.Fatal(err)
		}
		mustClose(t, d)
	}
	next(false, true)
	next(false, false, "0")
	next(true, true)
	next(true, true)
	next(false, true)
	next(false, false, "0")

	d, err := Identify(Options{Memory: true})
	if err != nil || d.Name() == "" {
		t.Fatalf("without a directory: %v", err)
	}
	mustClose(t, d)
	if _, err := Identify(Options{}); err == nil || !strings.Contains(err.Error(), "directory: ") {
		t.Errorf("a log without a directory: %v", err)
	}
}

// FuzzScan: whatever lies in the log, its reader hands out records of whole commits, and a prefix at most.
func FuzzScan(f *testing.F) {
	const fuzzed = 7
	seed := durable.Mark{}.Append(nil, fuzzed)
	for i := range uint64(3) {
		data, err := commit("record", fmt.Sprint(i)).seal(i+1, fuzzed)
		if err != nil {
			f.Fatal(err)
		}
		seed = append(seed, data...)
	}
	f.Add(seed, 0, byte(0))
	f.Add(seed[:len(seed)-3], 5, byte(1))
	f.Fuzz(func(t *testing.T, data []byte, at int, with byte) {
		if at >= 0 && at < len(data) {
			data[at] ^= with
		}
		size := 0
		_, err := scan(data, fuzzed, func(r []byte) error {
			size += len(binary.AppendUvarint(nil, uint64(len(r)))) + len(r)
			return nil
		})
		if err == nil && size > len(data) {
			t.Fatalf("%d bytes of records in a log of %d", size, len(data))
		}
	})
}
