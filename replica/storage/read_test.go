package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/georegister/georegister/replica/durable"
)

// A record that is not what was written under its key, in a database that finds nothing wrong with its blocks, is found
// when it is read, by whichever way. It ends the process, once: the next start takes the disk for lost.
func TestDamageFoundAtARead(t *testing.T) {
	reads := map[string]func(*Store){
		"Get":  func(s *Store) { s.Shard(1).Get([]byte("k")) },
		"Load": func(s *Store) { s.Shard(1).(*diskShard).Load([][]byte{[]byte("k")}) },
		"Scan": func(s *Store) { s.Shard(1).Scan(nil, func(_, _ []byte) bool { return true }) },
	}
	stored := func(s *Store, key string) []byte {
		value, closer, err := s.engine.(*disk).db.Get([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = closer.Close() }()
		return append([]byte{}, value...)
	}
	damages := map[string]func(s *Store, value []byte) []byte{
		"short":                  func(*Store, []byte) []byte { return []byte("v") },
		"a bit":                  func(_ *Store, v []byte) []byte { v[0] ^= 1; return v },
		"of another key":         func(s *Store, _ []byte) []byte { return stored(s, "\x00\x01l") },
		"of another shard":       func(s *Store, _ []byte) []byte { return stored(s, "\x00\x02k") },
		"of another disk's name": func(s *Store, v []byte) []byte { return resealed(v, durable.Seed("another")) },
		"without its checksum":   func(_ *Store, v []byte) []byte { return v[:len(v)-sumBytes] },
	}
	for way, read := range reads {
		for name, damage := range damages {
			fs := vfs.NewMem()
			s := open(t, options(fs, Sync))
			put(t, s, 1, 1, set("k", "value"), set("l", "value"))
			put(t, s, 2, 1, set("k", "value"))
			d := s.engine.(*disk)
			if err := d.db.Set([]byte("\x00\x01k"), damage(s, stored(s, "\x00\x01k")), pebble.Sync); err != nil {
				t.Fatal(err)
			}
			d.readers[1].cache = cacheOf(1 << 20)
			err := fmt.Errorf("nothing")
			func() {
				defer func() { err, _ = recover().(error) }()
				read(s)
			}()
			if !errors.Is(err, durable.ErrDamaged) || !errors.Is(s.Err(), durable.ErrDamaged) {
				t.Errorf("%s, %s: %v; the store: %v", way, name, err, s.Err())
				continue
			}
			next := open(t, options(snapshot(t, fs).restore(t), Sync))
			loss := next.Loss()
			if !next.Lost() || !strings.Contains(loss.Cause, "checksum is wrong") || next.Disk() == s.Disk() {
				t.Errorf("%s, %s: the next start: lost %v, %+v", way, name, next.Lost(), loss)
			}
			closeStore(t, next)
		}
	}
}

func resealed(value []byte, seed uint64) []byte {
	value = value[:len(value)-sumBytes]
	return binary.BigEndian.AppendUint64(value, durable.Checksum(seed, []byte("\x00\x01k"), value))
}

// failing refuses the n-th operation.
func failing(fs vfs.FS, n int32) (faulty vfs.FS, failed func() bool) {
	var count atomic.Int32
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(errorfs.Op) error {
		if count.Add(1) == n+1 {
			return syscall.EIO
		}
		return nil
	})), func() bool { return count.Load() > n }
}

// What is left of a damaged disk is kept over restarts and further damage until the member votes, and is that of the
// disk that voted.
func TestADamagedDiskIsKeptUntilTheMemberVotes(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	put(t, s, 0, 1, set("k", "v"))
	voted := s.Disk()
	closeStore(t, s)
	aside := func() string {
		data, err := durable.Read(fs, directory+"/damaged/"+identityFile)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for range 3 { // and then the disk that joins is damaged too
		if err := fs.Remove(directory + "/" + markFile); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s = open(t, options(fs, Sync))
			loss := s.Loss()
			if loss == nil || loss.Aside != directory+"/damaged" || !strings.Contains(aside(), voted) {
				t.Fatalf("%+v; kept is\n%s", loss, aside())
			}
			if there, err := durable.Exists(fs,
				directory+"/damaged/db/marker.manifest.000001.MANIFEST-000001"); !there || err != nil {
				t.Fatal("the database is not kept", err)
			}
			closeStore(t, s)
		}
	}
	s = open(t, options(fs, Sync))
	if err := s.Recovered(); err != nil {
		t.Fatal(err)
	}
	if there, err := durable.Exists(fs, directory+"/damaged"); there || err != nil || !s.Loss().Over ||
		s.Loss().Aside != "" {
		t.Errorf("it votes: %v, %v, %+v", there, err, s.Loss())
	}
	closeStore(t, s)
}

// Whichever operation of the disk fails while a damaged disk is set aside, nothing of it is believed afterwards, nor
// lost.
func TestSettingAsideSurvivesEveryFailure(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	put(t, s, 0, 1, set("k", "v"))
	name := s.Disk()
	closeStore(t, s)
	if err := fs.Remove(directory + "/" + markFile); err != nil {
		t.Fatal(err)
	}
	damaged := snapshot(t, fs)
	for n := int32(0); ; n++ {
		fs := damaged.restore(t)
		faulty, failed := failing(fs, n)
		s, err := Open(options(faulty, Sync))
		switch {
		case err == nil && !failed():
			_ = s.Close() // which may be what fails
			if n < 50 {
				t.Fatalf("only %d operations", n)
			}
			return
		case err == nil:
			_ = s.Close()
		}
		left := snapshot(t, fs).restore(t)
		s = open(t, options(left, Sync))
		if all, err := state(s); !s.Lost() || s.Disk() == name || len(all) > 0 || err != nil {
			t.Fatalf("failure %d: lost %v, disk %s, %v, %v", n, s.Lost(), s.Disk(), all, err)
		}
		loss := s.Loss()
		closeStore(t, s)
		if loss == nil || loss.Aside == "" {
			t.Fatalf("failure %d: %+v", n, loss)
		}
		kept := snapshot(t, left)
		if !strings.Contains(string(kept[directory+"/damaged/"+identityFile]), name) ||
			kept.find("damaged/db/MANIFEST-*") == "" {
			t.Fatalf("failure %d: what is kept is not all of the disk that voted: %q", n,
				slices.Sorted(maps.Keys(kept)))
		}
	}
}
