package durable

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

type content struct {
	Name  string `json:"name"`
	Count uint32 `json:"count"`
}

func written(t testing.TB, version int, c content) []byte {
	t.Helper()
	fs := vfs.NewMem()
	if err := WriteDocument(fs, "", "DOCUMENT", version, c); err != nil {
		t.Fatal(err)
	}
	data, err := Read(fs, "DOCUMENT")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every bit that flips is found, but in the space between words, and in the case of a name.
func TestADocumentThatIsNotWhatWasWrittenIsDamaged(t *testing.T) {
	want := content{"n", 1234}
	data := written(t, 3, want)
	found := 0
	for at := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << bit
			var got content
			switch err := parseDocument("D", damaged, 3, &got); {
			case errors.Is(err, ErrDamaged):
				found++
			case err != nil || got != want:
				t.Fatalf("bit %d of byte %d of %q: %+v, %v", bit, at, damaged, got, err)
			}
		}
	}
	if found < 4*len(data) {
		t.Errorf("%d of %d bits are found", found, 8*len(data))
	}
	for cut := range len(data) - 1 {
		if err := parseDocument("D", data[:cut], 3, &content{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

func TestAnotherVersionIsNoDamage(t *testing.T) {
	for _, data := range [][]byte{written(t, 4, content{}), []byte(`{"disk_version": 4, "name": "before digests"}`)} {
		if err := parseDocument("D", data, 3, &content{}); err == nil || errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), "disk version 4 is not 3") {
			t.Errorf("%s: %v", data, err)
		}
	}
	if err := parseDocument("D", []byte(`{"disk_version": 3, "name": "x"}`), 3,
		&content{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("without a digest: %v", err)
	}
}

func TestAMarkIsItsOwners(t *testing.T) {
	mine := Seed("mine")
	m := Mark{Boot: 3, Number: 1 << 40}
	data := m.Append(nil, mine)
	if got, ok := ParseMark(data, mine); !ok || got != m {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := ParseMark(data, Seed("other")); ok {
		t.Error("another one's mark is read")
	}
	for at := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << bit
			if _, ok := ParseMark(damaged, mine); ok {
				t.Fatalf("bit %d of byte %d is not found", bit, at)
			}
		}
	}
	if Checksum(1, []byte("ab"), []byte("c")) == Checksum(1, []byte("a"), []byte("bc")) {
		t.Error("a key may end anywhere")
	}
}

// A mark outlives the process as it was written, and a loss of power as it was synced.
func TestAMarkFileIsNeverNewerThanTheTruth(t *testing.T) {
	fs := vfs.NewCrashableMem()
	f, err := CreateMark(fs, "", "MARK", 1, Mark{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	write := func(m Mark) {
		if err := f.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	want := func(fs vfs.FS, want Mark) {
		t.Helper()
		if got, err := ReadMark(fs, "", "MARK", 1); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	write(Mark{1, 2})
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	write(Mark{1, 3})
	want(fs, Mark{1, 3})
	want(fs.CrashClone(vfs.CrashCloneCfg{}), Mark{1, 2})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want(fs.CrashClone(vfs.CrashCloneCfg{}), Mark{1, 3})
	if _, err := ReadMark(fs, "", "NONE", 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("none: %v", err)
	}
}

func TestWhatTheMachineRefusesIsNoDamage(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EIO: true, syscall.ENOSPC: true, syscall.EACCES: true, syscall.EAGAIN: true,
		syscall.ENOENT: false, ErrDamaged: false,
	} {
		if got := Refused(fmt.Errorf("open: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// Who can't lock a directory for want of rights or of a file system that can be written is not told that another
// process uses it.
func TestALockThatIsRefusedIsNotTaken(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EROFS: "lock LOCK: ", syscall.EACCES: "lock LOCK: ", syscall.ENOSPC: "lock LOCK: ",
		syscall.EAGAIN: "another process uses it: ",
	} { // order is irrelevant: each is tested
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(errorfs.Op) error { return err }))
		if _, got := Lock(fs, "LOCK"); !errors.Is(got, err) || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
	lock, err := Lock(vfs.Default, filepath.Join(t.TempDir(), "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzParseDocument shows that whatever lies in a file is read as what was written, or refused.
func FuzzParseDocument(f *testing.F) {
	good := written(f, 3, content{"n", 1234})
	f.Add(good, 0, byte(0))
	f.Add(good, 40, byte(4))
	f.Add([]byte(`{"disk_version": 3, "digest": "", "content": null}`), 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, with byte) {
		whole := bytes.Equal(data, good)
		if at >= 0 && at < len(data) {
			data[at] ^= with
		}
		var got content
		err := parseDocument("D", data, 3, &got)
		if whole && err == nil && got != (content{"n", 1234}) {
			t.Errorf("read %+v", got)
		}
		_, _ = ParseMark(data, 1)
	})
}
