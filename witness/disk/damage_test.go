package disk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// hold is a disk with that many commits, after its process ended: what was left, and an older copy. Power is the
// percentage of what was not synced that is there; < 0: the stop was clean.
func hold(t *testing.T, witness uint32, power int) (now, older map[string][]byte, records []string) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	o := options(fs)
	o.Witness = witness
	take := func(fs vfs.FS) map[string][]byte {
		files := map[string][]byte{}
		for _, name := range []string{identityFile, markFile} {
			files[name] = readFile(t, fs, "witness/"+name)
		}
		data, tail := readLog(t, fs)
		files[logFile] = append(data, tail[:tailBytes]...) // the rest of the zeroes is as good as these
		return files
	}
	crash := func(percent int) vfs.FS {
		return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
	}
	d, _ := mustOpen(t, o)
	for i := range 20 {
		if i == 10 {
			older = take(crash(100))
		}
		r := fmt.Sprintf("%d of %d %s", i, witness, strings.Repeat("x", 40*(i%4)))
		if err := d.Append(commit(r)); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if power >= 0 {
		now = take(crash(power))
	}
	mustClose(t, d)
	if power < 0 {
		now = take(fs)
	}
	return now, older, records
}

const (
	sector = 512
	// tailBytes are kept of the zeroes behind the log.
	tailBytes = 2 * sector
)

// damages change a file at one of several places of what was written; nil: there is nothing to change.
var damages = []struct {
	name   string
	places func(size int) int
	apply  func(data []byte, place int) []byte
}{
	{"a bit", func(size int) int { return size }, func(data []byte, place int) []byte {
		data[place] ^= 1 << (place % 8)
		return data
	}},
	{"a zeroed sector", func(size int) int {
		return (size + sector - 1) / sector
	}, func(data []byte, place int) []byte {
		clear(data[place*sector : min(len(data), (place+1)*sector)])
		return data
	}},
	{"a duplicated sector", func(size int) int { return (size - 1) / sector }, func(data []byte, place int) []byte {
		copy(data[(place+1)*sector:], data[place*sector:(place+1)*sector])
		return data
	}},
	{"swapped blocks", func(size int) int { return size/sector - 1 }, func(data []byte, place int) []byte {
		return slices.Concat(data[:place*sector], data[(place+1)*sector:(place+2)*sector],
			data[place*sector:(place+1)*sector], data[(place+2)*sector:])
	}},
	{"cut", func(size int) int { return size }, func(data []byte, place int) []byte { return data[:place] }},
	{"removed", nil, nil}, {"an older copy", nil, nil}, {"another witness's", nil, nil}, {"another version", nil, nil},
}

// Whatever happens to a file, the disk is not believed, or it holds what was acknowledged.
func TestNoDamageIsSilent(t *testing.T) {
	manual := documented(t)
	for _, power := range []int{-1, 100, 0} {
		now, older, records := hold(t, 7, power)
		other, _, _ := hold(t, 8, power)
		fs := vfs.NewMem()
		if err := durable.WriteDocument(fs, "", identityFile, Version+1, record{}); err != nil {
			t.Fatal(err)
		}
		version := map[string][]byte{identityFile: readFile(t, fs, identityFile)}
		if got := judge(t, now, records); got != "harmless" {
			t.Fatalf("power %d: a disk without damage is %s", power, got)
		}
		for _, d := range damages {
			for column, name := range []string{logFile, identityFile, markFile} {
				try := func(place int, data []byte) {
					if data != nil && bytes.Equal(data, now[name]) {
						return
					}
					damaged := maps.Clone(now)
					if delete(damaged, name); data != nil {
						damaged[name] = data
					}
					got := judge(t, damaged, records)
					if !slices.Contains(manual[d.name][column], got) ||
						got == "window" && (power != 0 || name != logFile) {
						t.Errorf("power %d: %s of %s (%d): %s, which docs/operations.md does not say: %q", power,
							d.name, name, place, got, manual[d.name][column])
					}
				}
				switch d.name {
				case "removed":
					try(0, nil)
				case "an older copy":
					try(0, older[name])
				case "another witness's":
					try(0, other[name])
				case "another version":
					if version[name] != nil {
						try(0, version[name])
					}
				default:
					size := len(now[name])
					if name == logFile {
						size -= tailBytes
					}
					for place := range max(0, d.places(size)) {
						try(place, d.apply(slices.Clone(now[name]), place))
					}
				}
			}
		}
		checkTail(t, now, records)
	}
}

// checkTail changes the zeroes behind what was written of a log, which hold nothing.
func checkTail(t *testing.T, files map[string][]byte, records []string) {
	t.Helper()
	log := files[logFile]
	for at := len(log) - tailBytes; at < len(log); at += 1 + at%7 {
		flipped := slices.Clone(log)
		flipped[at] ^= 1 << (at % 8)
		torn := slices.Clone(log)
		for i := range torn[at:] {
			torn[at+i] = byte(i)
		}
		for what, data := range map[string][]byte{"a bit": flipped, "cut": log[:at], "garbage": torn} {
			damaged := maps.Clone(files)
			damaged[logFile] = data
			if got := judge(t, damaged, records); got != "harmless" {
				t.Errorf("%s at byte %d, behind what was written of the log: %s", what, at, got)
			}
		}
	}
}

// judge starts a witness on a disk, and says what comes of it.
func judge(t *testing.T, files map[string][]byte, records []string) string {
	t.Helper()
	d, l, err := open(options(restore(t, files)))
	switch {
	case err != nil:
		return "refused"
	case d.New() && (len(l.records) > 0 || d.Damage() == ""):
		t.Fatalf("a lost disk holds %q, because of %q", l.records, d.Damage())
	case d.New():
		mustClose(t, d)
		return "lost"
	}
	mustClose(t, d)
	switch {
	case slices.Equal(l.records, records):
		return "harmless"
	case len(l.records) < len(records) && slices.Equal(l.records, records[:len(l.records)]):
		return "window"
	}
	t.Fatalf("it holds %q, and nobody wrote that", l.records)
	return ""
}

// documented reads the table of the manual.
func documented(t *testing.T) map[string][][]string {
	t.Helper()
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(manual), "| of a witness | log | identity | mark |\n")
	if !found {
		t.Fatal("docs/operations.md has no table of what becomes of a witness's disk")
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
		if len(rows[d.name]) != 3 {
			t.Fatalf("the table in docs/operations.md has %d columns for %s", len(rows[d.name]), d.name)
		}
	}
	return rows
}
