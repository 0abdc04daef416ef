package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
)

// files is what a directory holds, by path.
type files map[string][]byte

func snapshot(t *testing.T, fs vfs.FS) files {
	t.Helper()
	all := files{}
	var walk func(string)
	walk = func(at string) {
		names, err := fs.List(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := fs.Stat(path.Join(at, name))
			if errors.Is(err, os.ErrNotExist) {
				continue // a database that was just opened removes what it needs no more
			}
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path.Join(at, name))
			} else if name != "LOCK" {
				data, err := durable.Read(fs, path.Join(at, name))
				if err != nil {
					t.Fatal(err)
				}
				if data != nil {
					all[path.Join(at, name)] = withoutZeroes(name, data)
				}
			}
		}
	}
	walk(directory)
	return all
}

// kept is how many of the zeroes behind a log are left, since the latest commit may end with a few.
const kept = 8

// withoutZeroes cuts off what a log was filled with in front of what is written: what is damaged, and where, is what
// was written.
func withoutZeroes(name string, data []byte) []byte {
	if path.Ext(name) != ".log" {
		return data
	}
	return data[:min(len(data), len(bytes.TrimRight(data, "\x00"))+kept)]
}

func (f files) restore(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := fs.MkdirAll(path.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := durable.Replace(fs, path.Dir(name), path.Base(name), f[name]); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// find names the last file with that ending or beginning.
func (f files) find(pattern string) string {
	found := ""
	for name := range f {
		if ok, _ := path.Match(pattern, strings.TrimPrefix(name, directory+"/")); ok && name > found {
			found = name
		}
	}
	return found
}

// keys of one fixture: commit i writes the i-th and replaces the common one.
const halves = 30

// valueOf is, once it is not in a log alone, in a file of values for every other commit, and in a table for the others.
func valueOf(as string, i int) string {
	value := fmt.Sprintf("value of %s %d", as, i)
	return value + strings.Repeat(".", i%2*separatedBytes)
}

func acknowledge(t *testing.T, s *Store, from, to int, as string) {
	t.Helper()
	for i := from; i < to; i++ {
		put(t, s, i%3, uint64(i+1), set(fmt.Sprintf("key-%03d", i), valueOf(as, i)),
			protocol.Mutation{Key: []byte("common"), Value: fmt.Append(nil, i)})
	}
}

// state reads all records, in every way there is, or says why that is impossible.
func state(s *Store) (all map[string]string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("read: %v", reason)
		}
	}()
	all = map[string]string{}
	for shard := range 3 {
		s.Shard(shard).Scan(nil, func(key, value []byte) bool {
			all[fmt.Sprintf("%d/%s", shard, key)] = string(value)
			return true
		})
		for i := range 2 * halves {
			key := fmt.Appendf(nil, "key-%03d", i)
			value, ok := s.Shard(shard).Get(key)
			scanned, there := all[fmt.Sprintf("%d/%s", shard, key)]
			if ok != there || string(value) != scanned {
				return nil, fmt.Errorf("shard %d: %s is %q by a search and %q by a scan", shard, key, value, scanned)
			}
		}
	}
	return all, s.Err()
}

// after is what commits up to one leave.
func after(commits int, as string) map[string]string {
	all := map[string]string{}
	for i := range commits {
		all[fmt.Sprintf("%d/key-%03d", i%3, i)] = valueOf(as, i)
		all[fmt.Sprintf("%d/common", i%3)] = fmt.Sprint(i)
	}
	return all
}

// stop is how a process ended.
type stop struct {
	name       string
	durability Durability
	power      int // percent of what was not synced that is there afterwards; < 0: the stop was clean
}

var stops = []stop{
	{"Sync, clean stop", Sync, -1}, {"Sync, process killed", Sync, 100}, {"Sync, power lost", Sync, 0},
	{"Interval, clean stop", Interval, -1}, {"Interval, unclean", Interval, 100},
}

// fixture is a disk with everything on it, and copies that may be mixed into it.
type fixture struct {
	now, older, other files
}

// mine is whose values are expected.
const mine = "this"

// crashed is what is left of that percentage of what was not synced: 100 if only the process died.
func crashed(fs *vfs.MemFS, percent int) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
}

// run makes a disk. Its first half is in the first log, or, after a restart, in a table; the second one follows in the
// latest log.
func (at stop) run(t *testing.T, restart bool, as string) (now, older files) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	o := options(fs, at.durability)
	if as != mine {
		o.Identity.Member++
	}
	s := open(t, o)
	saveView(t, s, viewOf(2))
	acknowledge(t, s, 0, halves, as)
	older = snapshot(t, crashed(fs, 100))
	if restart {
		closeStore(t, s)
		s = open(t, o)
	}
	saveView(t, s, viewOf(3))
	acknowledge(t, s, halves, 2*halves, as)
	if at.power < 0 {
		closeStore(t, s)
		return snapshot(t, fs), older
	}
	now = snapshot(t, crashed(fs, at.power))
	closeStore(t, s)
	return now, older
}

// outcome is what becomes of a damaged disk.
type outcome = string

const (
	refused  outcome = "refused"
	lost     outcome = "lost" // at the start, or at a read and the start after it
	harmless outcome = "harmless"
	window   outcome = "window" // less is there than was acknowledged
)

// judge starts a member on a disk, as often as a process that ends is started again, and says what comes of it.
func judge(t *testing.T, f files, d Durability) (outcome, string) {
	t.Helper()
	for attempt := range 3 {
		fs := f.restore(t)
		s, err := Open(options(fs, d))
		if err != nil {
			if f = snapshot(t, fs); attempt < 2 {
				continue
			}
			return refused, err.Error()
		}
		if s.Lost() {
			if all, err := state(s); err != nil || len(all) > 0 {
				t.Fatalf("a lost disk holds %v, %v", all, err)
			}
			loss := s.Loss()
			closeStore(t, s)
			if loss == nil {
				return lost, "an unclean stop"
			}
			return lost, loss.Cause
		}
		all, err := state(s)
		if err != nil {
			_ = s.Close()
			fs := snapshot(t, fs).restore(t)
			s, again := Open(options(fs, d))
			if again != nil || !s.Lost() {
				t.Fatalf("after %v, the next start is: %v", err, again)
			}
			closeStore(t, s)
			return lost, err.Error()
		}
		closeStore(t, s)
		for commits := 2 * halves; commits >= 0; commits-- {
			switch {
			case !maps.Equal(all, after(commits, mine)):
			case commits == 2*halves:
				return harmless, ""
			default:
				return window, fmt.Sprintf("%d commits are gone", 2*halves-commits)
			}
		}
		t.Fatalf("it opens with %d records that nobody wrote like that", len(all))
	}
	return refused, ""
}

// damage changes a file at one of several places; nil: there is nothing to change.
type damage struct {
	name   string
	places func(size int) int
	apply  func(c *fixture, name string, place int) []byte
}

const (
	sector = 512
	bits   = 16 // of a file, that are flipped one after the other
)

func copyOf(f *fixture, name string) []byte { return slices.Clone(f.now[name]) }

var damages = []damage{
	{"a bit", func(size int) int { return min(size, bits) }, func(f *fixture, name string, place int) []byte {
		data := copyOf(f, name)
		at := place * (len(data) - 1) / max(1, min(len(data), bits)-1) // the first and the last one among them
		data[at] ^= 1 << (place % 8)
		return data
	}},
	{"a zeroed sector", sectors, func(f *fixture, name string, place int) []byte {
		data := copyOf(f, name)
		clear(data[place*sector : min(len(data), (place+1)*sector)])
		return data
	}},
	{"a duplicated sector", func(size int) int {
		return sectors(size) - 1
	}, func(f *fixture, name string, place int) []byte {
		data := copyOf(f, name)
		copy(data[(place+1)*sector:], data[place*sector:(place+1)*sector])
		return data
	}},
	{"swapped blocks", func(size int) int { return size/sector - 1 }, func(f *fixture, name string, place int) []byte {
		data := copyOf(f, name)
		a, b := data[place*sector:(place+1)*sector], data[(place+1)*sector:(place+2)*sector]
		kept := bytes.Clone(a)
		copy(a, b)
		copy(b, kept)
		return data
	}},
	{"cut", func(size int) int { return min(size, 12) }, func(f *fixture, name string, place int) []byte {
		data := copyOf(f, name)
		return data[:place*len(data)/min(len(data), 12)]
	}},
	{"removed", func(int) int { return 1 }, nil},
	{"an older copy", func(int) int { return 1 }, func(f *fixture, name string, _ int) []byte { return f.older[name] }},
	{"another member's", func(int) int { return 1 }, func(f *fixture, name string, _ int) []byte {
		return f.other[name]
	}},
	{"another version", func(int) int { return 1 }, func(_ *fixture, name string, _ int) []byte {
		file := path.Base(name)
		if file != identityFile && file != viewFile {
			return nil
		}
		fs := vfs.NewMem()
		if err := durable.WriteDocument(fs, "", file, DiskVersion+1, struct{}{}); err != nil {
			panic(err)
		}
		data, _ := durable.Read(fs, file)
		return data
	}},
}

func sectors(size int) int { return (size + sector - 1) / sector }

var damagedFiles = []struct {
	name, pattern string
	restart       bool
}{
	{"first log", "db/*.log", false},
	{"later log", "db/*.log", true},
	{"table", "db/*.sst", true},
	{"values", "db/*.blob", true},
	{"manifest", "db/MANIFEST-*", true},
	{"marker", "db/marker.manifest.*", true},
	{"format marker", "db/marker.format-version.*", true},
	{"options", "db/OPTIONS-*", true},
	{"identity", identityFile, true},
	{"view", viewFile, true},
	{"mark", markFile, true},
}

// TestNoDamageIsSilent: whatever happens to a file, the disk is not believed, or it holds what was acknowledged. What
// one disk alone can't tell is in the table as "window": the end of the newest log, after a loss of power.
func TestNoDamageIsSilent(t *testing.T) {
	cells := map[string]map[outcome]bool{}
	for _, at := range stops {
		for _, restart := range []bool{false, true} {
			var f fixture
			f.now, f.older = at.run(t, restart, mine)
			f.other, _ = at.run(t, restart, "that")
			if got, why := judge(t, f.now, at.durability); got != harmless && (at.durability == Sync || at.power < 0) {
				t.Fatalf("%s: an undamaged disk is %s: %s", at.name, got, why)
			}
			for _, file := range damagedFiles {
				if file.restart != restart {
					continue
				}
				for _, d := range damages {
					cell := d.name + file.name
					if cells[cell] == nil {
						cells[cell] = map[outcome]bool{}
					}
					maps.Copy(cells[cell], f.suffer(t, at, file.name, f.now.find(file.pattern), d))
				}
			}
		}
	}
	manual := documented(t)
	var table strings.Builder
	differs := false
	for _, d := range damages {
		table.WriteString("| " + d.name + " |")
		for i, file := range damagedFiles {
			found := slices.Sorted(maps.Keys(cells[d.name+file.name]))
			table.WriteString(" " + strings.Join(found, ", ") + " |")
			for _, word := range found {
				differs = differs || !slices.Contains(manual[d.name][i], word)
			}
		}
		table.WriteString("\n")
	}
	if differs {
		t.Errorf("the table in docs/operations.md does not say all of this:\n%s", table.String())
	}
}

// documented reads the table of the manual: what may become of each damage, by file.
func documented(t *testing.T) map[string][][]string {
	t.Helper()
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	head := "| |"
	for _, file := range damagedFiles {
		head += " " + file.name + " |"
	}
	_, table, found := strings.Cut(string(manual), head+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no table with this head:\n%s", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][][]string{}
	for _, row := range strings.Split(table, "\n") {
		fields := strings.Split(strings.Trim(row, "|"), "|")
		for _, field := range fields[1:] {
			rows[strings.TrimSpace(fields[0])] = append(rows[strings.TrimSpace(fields[0])],
				strings.Split(strings.TrimSpace(field), ", "))
		}
	}
	for _, d := range damages {
		if len(rows[d.name]) != len(damagedFiles) {
			t.Fatalf("the table in docs/operations.md has %d columns for %s", len(rows[d.name]), d.name)
		}
	}
	return rows
}

// suffer damages a file at all places, and returns what came of it.
func (f *fixture) suffer(t *testing.T, at stop, file, name string, d damage) map[outcome]bool {
	t.Helper()
	if name == "" {
		t.Fatalf("%s: there is no %s", at.name, file)
	}
	found := map[outcome]bool{}
	for place := range d.places(len(f.now[name])) {
		damaged := maps.Clone(f.now)
		if delete(damaged, name); d.apply != nil {
			data := d.apply(f, name, place)
			if data == nil || bytes.Equal(data, f.now[name]) {
				continue
			}
			damaged[name] = data
		}
		isLog := strings.HasSuffix(file, "log")
		judge := func() {
			got, why := judge(t, damaged, at.durability)
			if got == window && !(at.power == 0 && isLog) {
				t.Errorf("%s: %s of the %s (%d): silent: %s", at.name, d.name, file, place, why)
			}
			found[got] = true
		}
		judge()
		if data := damaged[name]; isLog && data != nil && place%4 == 0 { // as it is while a member runs
			damaged[name] = append(slices.Clone(data), zeroes[:len(zeroes)-len(data)%len(zeroes)]...)
			judge()
		}
	}
	return found
}
