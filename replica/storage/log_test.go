package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/georegister/georegister/replica/durable"
)

// written is a log with commits of these sizes, where each ends, and what parsing it needs.
type written struct {
	data   []byte
	ends   []int // of the commits so far, from none on
	number uint32
	held   uint64 // the commit before the first
	seed   uint64
}

// write makes the log of a start: the first of the disk, or a later one.
func write(t *testing.T, later bool, sizes ...int) written {
	t.Helper()
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	if later {
		put(t, s, 0, 1, set("before", "x"))
		closeStore(t, s)
		s = open(t, options(fs, Sync))
	}
	draw := rand.NewChaCha8([32]byte{1})
	for i, size := range sizes {
		value := make([]byte, size)
		_, _ = draw.Read(value) // it never fails
		put(t, s, 0, uint64(i+1), set(fmt.Sprint(i), string(value)))
	}
	f := snapshot(t, fs)
	name := f.find("db/*.log")
	number, _, _ := wal.ParseLogFilename(path.Base(name))
	record := s.now()
	w := written{data: f[name], number: uint32(number), seed: record.seed()}
	closeStore(t, s)
	held, err := markInTables(directory+"/db", &Options{FileSystem: f.restore(t), Logger: s.options.Logger}, w.seed)
	if err != nil {
		t.Fatal(err)
	}
	w.held = held.Number
	for at := 0; ; {
		w.ends = append(w.ends, at)
		_, next, whole := readCommit(w.data, at, w.number)
		if !whole {
			break
		}
		at = next
	}
	if len(w.ends) < 1+len(sizes) {
		t.Fatalf("a log of %d commits has %d", len(sizes), len(w.ends)-1)
	}
	w.data = w.data[:w.ends[len(w.ends)-1]]
	return w
}

func (w *written) check(data []byte) (uint64, error) {
	return checkLog(data, w.number, w.held, w.held, w.seed)
}

// logs are small ones, of which every byte is tried, and one of several blocks with commits across their ends.
func testedLogs(t *testing.T) map[string]written {
	return map[string]written{
		"first": write(t, false, 10, 0, 300, 20, 1, 60), "later": write(t, true, 10, 0, 300, 20, 1, 60),
		"first, blocks": write(t, false, slices.Repeat([]int{5000, 100, 9000}, 8)...),
		"later, blocks": write(t, true, slices.Repeat([]int{5000, 100, 9000}, 8)...),
	}
}

// A bit that flipped in what was durable is found wherever it is, since a commit follows. In the last commit it can't
// be told from a write that was cut off; the mark can.
func TestABitThatFlippedIsFound(t *testing.T) {
	for name, w := range testedLogs(t) {
		whole := w.held + uint64(len(w.ends)-1)
		last := w.ends[len(w.ends)-2]
		step := 1 + len(w.data)/1500
		for at := 0; at < len(w.data); at += step {
			for bit := at % step; bit < 8; bit += step {
				data := bytes.Clone(w.data)
				data[at] ^= 1 << bit
				got, err := w.check(data)
				if found := err != nil || at >= last && got == whole-1; !found {
					t.Fatalf("%s: bit %d of byte %d of %d: commit %d of %d, %v", name, bit, at,
						len(data), got, whole, err)
				}
			}
		}
	}
}

// A log that is cut anywhere, as a kill in the middle of a write leaves it, is no damage: it has the commits that are
// whole.
func TestALogThatIsCutHasItsWholeCommits(t *testing.T) {
	for name, w := range testedLogs(t) {
		for cut := 0; cut <= len(w.data); cut += 1 + len(w.data)/1500 {
			for tail, rest := range map[string][]byte{
				"": nil, "zeroes": make([]byte, 700), "garbage": bytes.Repeat([]byte{0xa5}, 700),
			} {
				data, want := slices.Concat(w.data[:cut], rest), w.held
				for _, end := range w.ends[1:] {
					if end <= len(data) && bytes.Equal(data[:end], w.data[:end]) {
						want++
					}
				}
				if got, err := w.check(data); got != want || err != nil {
					t.Fatalf("%s, cut at %d of %d, then %q: commit %d, want %d, %v", name, cut, len(w.data),
						tail, got, want, err)
				}
			}
		}
	}
}

// Whole pieces that are zeroed, doubled, swapped or from elsewhere are found as long as a commit follows them.
func TestMisplacedPiecesAreFound(t *testing.T) {
	for name, w := range testedLogs(t) {
		whole, last := w.held+uint64(len(w.ends)-1), w.ends[len(w.ends)-2]
		for _, size := range []int{512, 4096, blockBytes} {
			for at := 0; at+2*size <= last; at += size {
				piece, next := w.data[at:at+size], w.data[at+size:at+2*size]
				for kind, with := range map[string][]byte{
					"zeroed": slices.Concat(make([]byte, size), next), "doubled": slices.Concat(piece, piece),
					"swapped": slices.Concat(next, piece),
				} {
					if got, err := w.check(slices.Concat(w.data[:at], with, w.data[at+2*size:])); err == nil {
						t.Errorf("%s: %d bytes at %d %s: commit %d of %d", name, size, at, kind, got, whole)
					}
				}
			}
		}
	}
}

func TestACommitThatIsMissingIsFound(t *testing.T) {
	w := write(t, true, 10, 20, 30)
	if _, err := w.check(slices.Concat(w.data[:w.ends[1]], w.data[w.ends[2]:])); err == nil {
		t.Error("one in the middle")
	}
	if _, err := w.check(slices.Concat(w.data[:w.ends[2]], w.data[w.ends[1]:])); err == nil {
		t.Error("one is there twice")
	}
	if _, err := checkLog(w.data, w.number, w.held-1, w.held-1, w.seed); err == nil {
		t.Error("one that an earlier log or a table had")
	}
	if _, err := checkLog(w.data, w.number, w.held, w.held, w.seed+1); err == nil {
		t.Error("those of another disk are taken for its own")
	}
	if got, err := checkLog(w.data, w.number, w.held+2, w.held+2, w.seed); err != nil ||
		got != w.held+uint64(len(w.ends)-1) {
		t.Errorf("what is in tables too is damage: %d, %v", got, err)
	}
}

// A client can't write a value that looks like a later commit: the mark's checksum is this disk's.
func TestAValueIsNoCommit(t *testing.T) {
	inside := write(t, false, 10, 20, 30) // of another disk
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	put(t, s, 0, 1, set("k", "v"))
	put(t, s, 0, 2, set("k", string(inside.data)))
	f := snapshot(t, fs)
	name := f.find("db/*.log")
	number, _, _ := wal.ParseLogFilename(path.Base(name))
	r := s.now()
	closeStore(t, s)
	whole, err := checkLog(f[name], uint32(number), 0, 0, r.seed())
	if err != nil {
		t.Fatal(err)
	}
	torn := f[name][:len(f[name])-kept-5]
	if got, err := checkLog(torn, uint32(number), 0, 0, r.seed()); err != nil || got != whole-1 {
		t.Errorf("a torn commit that holds a log: commit %d of %d, %v", got, whole, err)
	}
}

// A commit that nobody was told of may be torn: by a kill in the middle of its write, or since the disk is full. The
// disk is not lost.
func TestATornCommitThatNobodyWasToldOf(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, options(fs, Sync))
	for i := range 10 {
		put(t, s, 0, uint64(i+1), set(fmt.Sprint("key-", i), "value"))
	}
	before := snapshot(t, crashed(fs, 100))
	put(t, s, 0, 11, set("last", string(bytes.Repeat([]byte("x"), 1000))))
	f := snapshot(t, crashed(fs, 100))
	closeStore(t, s)
	name := f.find("db/*.log")
	start, end := len(before[name]), len(f[name])-kept
	for cut := start; cut < end; cut += 9 {
		for _, rest := range [][]byte{nil, make([]byte, end-cut)} {
			torn := files{}
			for name, data := range before {
				torn[name] = data
			}
			torn[name] = slices.Concat(f[name][:cut], rest)
			s := open(t, options(torn.restore(t), Sync))
			if s.Lost() {
				t.Fatalf("cut at %d of %d to %d: %+v", cut, start, end, s.Loss())
			}
			for i := range 10 {
				if v, ok := s.Shard(0).Get(fmt.Append(nil, "key-", i)); !ok || string(v) != "value" {
					t.Fatalf("cut at %d: key-%d is %q, %v", cut, i, v, ok)
				}
			}
			if _, ok := s.Shard(0).Get([]byte("last")); ok {
				t.Fatalf("cut at %d: half a record was read", cut)
			}
			put(t, s, 0, 1, set("more", "value"))
			closeStore(t, s)
		}
		// Told of, it is missing.
		told := files{}
		for name, data := range f {
			told[name] = data
		}
		told[name] = f[name][:cut]
		s := open(t, options(told.restore(t), Sync))
		if !s.Lost() {
			t.Fatalf("cut at %d of %d to %d, and it was acknowledged", cut, start, end)
		}
		closeStore(t, s)
	}
}

// FuzzCheckLog: whatever lies in a log, it is read as commits in order, or refused, and what it holds lies in it.
func FuzzCheckLog(f *testing.F) {
	seed := durable.Seed("fuzz")
	var log []byte
	for i := range uint64(3) {
		commit := slices.Concat(make([]byte, 12), []byte{1, byte(len(markKey))}, markKey, []byte{durable.MarkBytes},
			durable.Mark{Boot: 1, Number: i + 1}.Append(nil, seed))
		log = append(log, sealed(commit, 7)...)
	}
	f.Add(log, 0, byte(0))
	f.Add(log, 60, byte(8))
	f.Add(log[:len(log)-3], 5, byte(1))
	f.Fuzz(func(t *testing.T, data []byte, at int, with byte) {
		if at >= 0 && at < len(data) {
			data[at] ^= with
		}
		latest, err := checkLog(data, 7, 0, 0, seed)
		if err == nil && latest > uint64(len(data)/headerBytes) {
			t.Fatalf("%d commits in %d bytes", latest, len(data))
		}
	})
}

func TestAWrittenChunkIsRead(t *testing.T) {
	commit, next, whole := readCommit(sealed([]byte("abc"), 9), 0, 9)
	if string(commit) != "abc" || next != headerBytes+3 || !whole {
		t.Errorf("%q, whole: %v, next at %d", commit, whole, next)
	}
	if _, err := checkLog(sealed([]byte("abc"), 9), 9, 0, 0, 0); err == nil || errors.Is(err, durable.ErrDamaged) {
		t.Errorf("a commit without a mark: %v", err)
	}
}

// sealed is a chunk that holds a whole commit.
func sealed(commit []byte, log uint32) []byte {
	chunk := append(make([]byte, 4), byte(len(commit)), byte(len(commit)>>8), chunkFull)
	chunk = binary.LittleEndian.AppendUint32(chunk, log)
	chunk = append(chunk, commit...)
	sum := crc32.Checksum(chunk[6:], castagnoli)
	binary.LittleEndian.PutUint32(chunk, (sum>>15|sum<<17)+0xa282ead8)
	return chunk
}
