package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/durable"
)

// separating opens a database whose files of values are written anew as soon as something in them was overwritten.
func separating(t *testing.T, fs vfs.FS, f *failure, begin func()) *pebble.DB {
	t.Helper()
	o := options(fs, Interval)
	o.Cache, o.Logger = LeastCache, zap.NewNop()
	db, err := openDatabase("db", &o, f, func(p *pebble.Options) {
		policy := p.Experimental.ValueSeparationPolicy()
		policy.RewriteMinimumAge, policy.TargetGarbageRatio = 0, 0.01
		p.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return policy }
		p.EventListener.BlobFileRewriteBegin = func(pebble.BlobFileRewriteInfo) { begin() }
		p.TargetFileSizes[0], p.LBaseMaxBytes = 16<<10, 64<<10
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// rewrites has records overwritten until files of values were written anew so often, or that fails, and returns the
// latest values.
func rewrites(t *testing.T, db *pebble.DB, f *failure, often int64) map[string][]byte {
	t.Helper()
	draw := rand.New(rand.NewPCG(1, 3))
	latest := map[string][]byte{}
	begun := time.Now()
	for round := 0; db.Metrics().Compact.BlobFileRewriteCount < often && f.reason() == nil; round++ {
		if time.Since(begun) > 6*patience { // the database writes them anew when it has nothing else to merge
			t.Fatalf("after %d rounds, %d files were written anew", round, db.Metrics().Compact.BlobFileRewriteCount)
		}
		for range 50 {
			key := fmt.Sprint(draw.IntN(500))
			value := bytes.Repeat(fmt.Appendf(nil, "%s in %d,", key, round), separatedBytes/8+draw.IntN(50))
			if latest[key] = value; db.Set([]byte(key), value, pebble.NoSync) != nil {
				t.Fatal("not written")
			}
		}
		if err := db.Flush(); err != nil && f.reason() == nil {
			t.Fatal(err)
		}
	}
	return latest
}

func TestValuesThatAreWrittenAnewAreTheLatest(t *testing.T) {
	fs := vfs.NewMem()
	f := newFailure(func(error) {})
	db := separating(t, fs, f, func() {})
	want := rewrites(t, db, f, 8)
	for range 2 { // as it is, and opened again
		for key, value := range want {
			got, closer, err := db.Get([]byte(key))
			if err != nil || !bytes.Equal(got, value) {
				t.Fatalf("%s is %.40q, want %.40q: %v", key, got, value, err)
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil || f.reason() != nil {
			t.Fatal(err, f.reason())
		}
		db = separating(t, fs, f, func() {})
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// spoiling is a file system of which files of values are not read as they were written, once that is begun.
type spoiling struct {
	vfs.FS
	begun *atomic.Bool
	spoil func(p []byte) error
}

func (s spoiling) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, options...)
	if err != nil || path.Ext(name) != valuesExtension {
		return f, err
	}
	return spoilingFile{f, s}, nil
}

type spoilingFile struct {
	vfs.File
	spoiling spoiling
}

func (f spoilingFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	if err == nil && f.spoiling.begun.Load() {
		err = f.spoiling.spoil(p)
	}
	return n, err
}

// A file of values that can't be written anew fails the disk, as all does that can't be written or read; and what is
// damaged counts as lost.
func TestValuesThatCanNotBeWrittenAnewFailTheDisk(t *testing.T) {
	flip := func(p []byte) error {
		p[len(p)/2] ^= 1
		return nil
	}
	for name, c := range map[string]struct {
		spoil func([]byte) error
		want  error
	}{
		"a bit":              {flip, durable.ErrDamaged},
		"a refused read":     {func([]byte) error { return syscall.EIO }, syscall.EIO},
		"a file of no bytes": {func(p []byte) error { clear(p); return nil }, durable.ErrDamaged},
	} {
		var noted atomic.Bool
		f := newFailure(func(error) { noted.Store(true) })
		begun := new(atomic.Bool)
		db := separating(t, spoiling{vfs.NewMem(), begun, c.spoil}, f, func() { begun.Store(true) })
		rewrites(t, db, f, 1000)
		select {
		case <-f.done:
		case <-time.After(patience):
			t.Fatalf("%s: nobody was told", name)
		}
		damage := errors.Is(c.want, durable.ErrDamaged)
		if err := f.reason(); !errors.Is(err, c.want) || damaged(err) != damage || noted.Load() != damage {
			t.Errorf("%s: %v, noted %v", name, err, noted.Load())
		}
		begun.Store(false) // it tries again and again
		if err := db.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a search finds of a value that the machine does not give is not damage.
func TestAValueThatIsRefusedIsNoDamage(t *testing.T) {
	begun := new(atomic.Bool)
	refuse := func([]byte) error { return syscall.EIO }
	s := open(t, options(spoiling{vfs.NewMem(), begun, refuse}, Sync))
	defer func() { _ = s.Close() }() // its disk has failed
	put(t, s, 1, 1, set("k", string(make([]byte, separatedBytes))))
	shard := s.Shard(1).(*diskShard)
	if err := shard.disk.db.Flush(); err != nil {
		t.Fatal(err)
	}
	shard.cache = cacheOf(1 << 20)
	begun.Store(true)
	shard.Fetch([]string{"k"}, func() { t.Error("it was read") })
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("nobody was told")
	}
	if err := s.Err(); !errors.Is(err, syscall.EIO) || damaged(err) {
		t.Error(err)
	}
	for name, read := range map[string]func(){
		"a scan":   func() { shard.Scan(nil, func(_, _ []byte) bool { return true }) },
		"a search": func() { shard.Get([]byte("k")) },
		"a load":   func() { shard.Load([][]byte{[]byte("k")}) },
	} {
		func() {
			defer func() {
				err, isError := recover().(error)
				if !isError || !errors.Is(err, syscall.EIO) || damaged(err) {
					t.Errorf("%s: %v", name, err)
				}
			}()
			read()
		}()
	}
}
