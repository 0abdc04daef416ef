package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/durable"
)

// Zeroes never lie over what was written, now or as an old log, and whole steps are filled, if there is room.
func TestALogIsFilledInFrontOfWhatIsWritten(t *testing.T) {
	for _, full := range []bool{false, true} {
		memory := vfs.NewMem()
		fs := zeroed{errorfs.Wrap(memory, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full && op.Kind == errorfs.OpFileWriteAt {
				return syscall.ENOSPC
			}
			return nil
		}))}
		draw := rand.New(rand.NewPCG(1, 1))
		var behind []byte // of an old log
		for i := range 3 {
			old, name := fmt.Sprintf("%06d.log", i), fmt.Sprintf("%06d.log", i+1)
			file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
			if i > 0 {
				file, err = fs.ReuseForWrite(old, name, vfs.WriteCategoryUnspecified)
			}
			if err != nil {
				t.Fatal(err)
			}
			var written []byte
			for len(written) < (i+2)*len(zeroes) {
				piece := bytes.Repeat([]byte{byte(1 + draw.IntN(255))}, 1+draw.IntN(40_000))
				if n, err := file.Write(bytes.Clone(piece)); n != len(piece) || err != nil {
					t.Fatalf("%d of %d bytes, %v", n, len(piece), err)
				}
				written = append(written, piece...)
				data, err := durable.Read(memory, name)
				if err != nil {
					t.Fatal(err)
				}
				if !full && len(data)%len(zeroes) != 0 || !bytes.Equal(data[:len(written)], written) {
					t.Fatalf("log %d, of %d bytes, has %d, and not what was written", i, len(written), len(data))
				}
				rest := data[len(written):]
				if n := min(len(rest), max(len(behind)-len(written), 0)); len(behind) > len(written) &&
					!bytes.Equal(rest[:n], behind[len(written):]) || len(bytes.Trim(rest[n:], "\x00")) > 0 {
					t.Fatalf("what lies behind byte %d of log %d is neither zeroes nor the old log", len(written), i)
				}
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			if behind, err = durable.Read(memory, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	fs := zeroed{vfs.NewMem()}
	if err := durable.Replace(fs, "", "000001.sst", []byte("a table")); err != nil {
		t.Fatal(err)
	}
	if data, err := durable.Read(fs, "000001.sst"); err != nil || string(data) != "a table" {
		t.Errorf("a table is %q, %v", data, err)
	}
}

// hooked is a file system that tells of a log that it will be synced, and whether it was another one before.
type hooked struct {
	vfs.FS
	before func(old bool)
}

type hookedFile struct {
	vfs.File
	before func()
}

func (f hookedFile) SyncData() error {
	f.before()
	return f.File.SyncData()
}

func (h hooked) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := h.FS.Create(name, category)
	if path.Ext(name) != ".log" {
		return file, err
	}
	return hookedFile{file, func() { h.before(false) }}, err
}

func (h hooked) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := h.FS.ReuseForWrite(old, name, category)
	return hookedFile{file, func() { h.before(true) }}, err
}

// Whatever part of a commit the power leaves on the disk, block by block, in a log that is filled with zeroes or was
// another one: what was durable is there, and nothing is taken for damage.
func TestALossOfPowerAtAnySync(t *testing.T) {
	const seed = 1
	draw := rand.New(rand.NewPCG(1, 1))
	value := func(i uint64) []byte { return bytes.Repeat([]byte{byte(i)}, int(i*i%20_011)) }
	begin := func(fs vfs.FS) *pebble.DB {
		t.Helper()
		o := &Options{FileSystem: fs, Logger: zap.NewNop(), Durability: Sync}
		db, err := openDatabase(directory, o, newFailure(func(error) {}), func(p *pebble.Options) {
			p.MemTableSize = 64 << 10 // so that logs are used again soon
		})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	memory := vfs.NewCrashableMem()
	syncs, inOld := 0, 0
	var latest atomic.Uint64 // the commit that is durable
	check := func() {
		known := latest.Load()
		disk := memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: draw.IntN(101), RNG: draw})
		held, err := markInTables(directory, &Options{FileSystem: disk, Logger: zap.NewNop()}, seed)
		if err != nil {
			t.Error(err)
			return
		}
		found, err := checkLogs(disk, directory, held.Number, seed)
		if err != nil || found < known || found > known+1 {
			t.Errorf("the log ends with commit %d of %d, %v", found, known, err)
			return
		}
		db := begin(disk)
		for i := uint64(1); i <= found; i++ {
			got, closer, err := db.Get(fmt.Append(nil, i))
			if err != nil || !bytes.Equal(got, value(i)) {
				t.Errorf("commit %d of %d: %d bytes, %v", i, found, len(got), err)
				return
			}
			_ = closer.Close() // it only gives memory back
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	db := begin(hooked{memory, func(old bool) {
		if syncs++; syncs%8 != 0 {
			return
		}
		if check(); old {
			inOld++
		}
	}})
	for i := uint64(1); i <= 400; i++ {
		batch := db.NewBatch()
		err := errors.Join(batch.Set(markKey, durable.Mark{Boot: 1, Number: i}.Append(nil, seed), nil),
			batch.Set(fmt.Append(nil, i), value(i), nil), batch.Commit(pebble.Sync), batch.Close())
		if err != nil {
			t.Fatal(err)
		}
		latest.Store(i)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if inOld < 25 {
		t.Errorf("the power was lost only %d times while a log was an old one", inOld)
	}
}

// BenchmarkLogSync is what it takes to append to a log and make that durable, in the temporary directory: to one whose
// blocks are allocated, as the database does it alone, to one that is filled with zeroes in front of that, and to one
// that was another one before.
func BenchmarkLogSync(b *testing.B) {
	const most = 16 << 20
	for _, size := range []int{200, 1000, 4096, 16384} {
		for _, kind := range []string{"allocated", "zeroed", "old"} {
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				var fs vfs.FS = vfs.Default
				if kind == "zeroed" {
					fs = zeroed{fs}
				}
				name := filepath.Join(b.TempDir(), "000001.log")
				data := bytes.Repeat([]byte{1}, size)
				if kind == "old" {
					file := beginLog(b, fs, name, "", most)
					for range most / size {
						if _, err := file.Write(data); err != nil {
							b.Fatal(err)
						}
					}
					if err := errors.Join(file.Sync(), file.Close()); err != nil {
						b.Fatal(err)
					}
				}
				var took []time.Duration
				var file vfs.File
				for at := most; b.Loop(); at += size {
					if at+size > most {
						b.StopTimer()
						file, at = beginLog(b, fs, name, kind, most), 0
						b.StartTimer()
					}
					start := time.Now()
					if _, err := file.Write(data); err != nil {
						b.Fatal(err)
					}
					if err := file.SyncData(); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			})
		}
	}
}

func beginLog(b *testing.B, fs vfs.FS, name, kind string, size int64) vfs.File {
	b.Helper()
	begin := fs.Create
	if kind == "old" {
		begin = func(name string, c vfs.DiskWriteCategory) (vfs.File, error) { return fs.ReuseForWrite(name, name, c) }
	}
	file, err := begin(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(file.Preallocate(0, size), file.Sync())
	}
	if err != nil {
		b.Fatal(err)
	}
	return file
}
