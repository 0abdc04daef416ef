package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

func viewOf(epoch uint64) view.View {
	return view.View{Cluster: "c", Epoch: epoch, Issued: 4, Members: []view.Member{
		{ID: 2, Site: "va", Address: "va:7000", Disk: "d2"}, {ID: 4, Site: "ir", Address: "ir:7000"},
	}}
}

func saveView(t *testing.T, s *Store, v view.View) {
	t.Helper()
	if err := s.SaveView(v); err != nil {
		t.Fatal(err)
	}
}

func TestTheViewOutlivesEveryStop(t *testing.T) {
	for _, d := range []Durability{Sync, Interval, Memory} {
		for _, clean := range []bool{true, false} {
			fs := vfs.NewCrashableMem()
			s := open(t, options(fs, d))
			if s.View().Epoch != 0 {
				t.Fatalf("%s: a new disk holds the view %+v", d, s.View())
			}
			saveView(t, s, viewOf(1))
			saveView(t, s, viewOf(2))
			if clean {
				closeStore(t, s)
			}
			after := crash(fs)
			if !clean {
				closeStore(t, s)
			}
			s = open(t, options(after, d))
			if got := s.View(); !reflect.DeepEqual(got, viewOf(2)) {
				t.Errorf("%s, clean %v: the view is %+v", d, clean, got)
			}
			closeStore(t, s)
		}
	}
}

// A crash in the middle of a change leaves the one view or the other, at whichever operation it comes.
func TestAViewIsReplacedAsAWhole(t *testing.T) {
	for n := int32(0); ; n++ {
		fs := vfs.NewCrashableMem()
		s := open(t, options(fs, Sync))
		saveView(t, s, viewOf(1))
		closeStore(t, s)

		err := writeView(errorfs.Wrap(fs, errorfs.OnIndex(n)), directory, viewOf(2))
		for seed := range uint64(3) {
			after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, seed))})
			s = open(t, options(after, Sync))
			got := s.View().Epoch
			closeStore(t, s)
			if got != 2 && (got != 1 || err == nil) {
				t.Fatalf("failure at operation %d (%v): the epoch is %d after a crash", n, err, got)
			}
		}
		if err == nil {
			if n == 0 {
				t.Fatal("no operation failed")
			}
			return
		}
	}
}

// A member that forgot its latest view may act in one that a majority has left.
func TestADiskThatForgotItsViewIsLost(t *testing.T) {
	good := vfs.NewMem()
	s := open(t, options(good, Sync))
	saveView(t, s, viewOf(3))
	closeStore(t, s)
	text, err := durable.Read(good, directory+"/"+viewFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"is damaged":                           text[:len(text)/2],
		"is damaged: unexpected end":           {},
		"is damaged: its digest is":            bytes.Replace(text, []byte(`"epoch": 3`), []byte(`"epoch": 7`), 1),
		"of epoch 3, and holds one of epoch 0": nil,
		"of epoch 3, and holds one of epoch 2": viewText(t, viewOf(2)),
	} {
		for _, d := range []Durability{Sync, Interval, Memory} {
			fs := vfs.NewMem()
			s := open(t, options(fs, d))
			disk := s.Disk()
			saveView(t, s, viewOf(3))
			closeStore(t, s)
			err := fs.Remove(directory + "/" + viewFile)
			if content != nil {
				err = durable.Replace(fs, directory, viewFile, content)
			}
			if err != nil {
				t.Fatal(err)
			}
			s = open(t, options(fs, d))
			if loss := s.Loss(); !s.Lost() || s.Disk() == disk || loss == nil || !strings.Contains(loss.Cause, name) {
				t.Errorf("%s: lost %v, %+v, want %q", d, s.Lost(), loss, name)
			}
			closeStore(t, s)
			s = open(t, options(fs, d))
			if loss := s.Loss(); !strings.Contains(loss.Cause, name) {
				t.Errorf("%s: it is lost again: %+v", d, loss)
			}
			closeStore(t, s)
		}
	}
	foreign := viewOf(1)
	foreign.Cluster = "d"
	if err := writeView(good, directory, foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(good, Sync)); !errors.Is(err, ErrForeign) {
		t.Errorf("a view of another cluster: %v", err)
	}
}

func viewText(t *testing.T, v view.View) []byte {
	t.Helper()
	fs := vfs.NewMem()
	if err := writeView(fs, "", v); err != nil {
		t.Fatal(err)
	}
	text, err := durable.Read(fs, viewFile)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAViewThatCanNotBeSavedFailsTheStore(t *testing.T) {
	s := open(t, options(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.Contains(op.Path, viewFile) && op.Kind == errorfs.OpRename {
			return errorfs.ErrInjected
		}
		return nil
	})), Sync))
	if err := s.SaveView(viewOf(1)); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("saved: %v", err)
	}
	if s.View().Epoch != 0 || s.Err() == nil {
		t.Errorf("the view is %+v, the failure %v", s.View(), s.Err())
	}
}

// A disk keeps its name as long as it keeps its state.
func TestADiskThatLostItsStateIsAnotherOne(t *testing.T) {
	for name, test := range map[string]struct {
		durability Durability
		between    func(t *testing.T, fs *vfs.MemFS) *vfs.MemFS
		same       bool
	}{
		"sync, clean":     {Sync, func(_ *testing.T, fs *vfs.MemFS) *vfs.MemFS { return fs }, true},
		"interval, clean": {Interval, func(_ *testing.T, fs *vfs.MemFS) *vfs.MemFS { return fs }, true},
		"memory, clean":   {Memory, func(_ *testing.T, fs *vfs.MemFS) *vfs.MemFS { return fs }, false},
		"wiped":           {Sync, func(*testing.T, *vfs.MemFS) *vfs.MemFS { return vfs.NewMem() }, false},
		"database removed": {Sync, func(t *testing.T, fs *vfs.MemFS) *vfs.MemFS {
			if err := fs.RemoveAll(directory + "/db"); err != nil {
				t.Fatal(err)
			}
			return fs
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, options(fs, test.durability))
			first := s.Disk()
			closeStore(t, s)
			fs = test.between(t, fs)
			s = open(t, options(fs, test.durability))
			second := s.Disk()
			closeStore(t, s)
			if first == "" || second == "" || (first == second) != test.same {
				t.Errorf("the disk was named %q, and is %q", first, second)
			}
		})
	}
	crashed := vfs.NewCrashableMem()
	s := open(t, options(crashed, Interval))
	after := crash(crashed)
	first := s.Disk()
	closeStore(t, s)
	s = open(t, options(after, Interval))
	if s.Disk() == first {
		t.Error("interval, crash: the disk kept its name")
	}
	closeStore(t, s)
}

func TestReboot(t *testing.T) {
	for _, d := range []Durability{Sync, Interval, Memory} {
		t.Run(d.String(), func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, options(fs, d))
			name := s.Disk()
			// Not waited for: the next protocol must find it all the same.
			s.Commit(1, protocol.Batch{Sequence: 1, Mutations: []protocol.Mutation{set("k", "v")}}, func(uint64) {})
			if err := s.Reboot(); err != nil {
				t.Fatal(err)
			}
			if got := scan(s, 1, "", 9); len(got) != 1 || got[0] != "k=v" {
				t.Errorf("after it, the shard holds %q", got)
			}
			if s.Boot() != 2 || s.Lost() || s.Disk() != name {
				t.Errorf("boot %d, lost %v, disk %q; want 2, false, %q", s.Boot(), s.Lost(), s.Disk(), name)
			}
			closeStore(t, s)
			s = open(t, options(fs, d))
			defer closeStore(t, s)
			if s.Boot() != 3 {
				t.Errorf("boot %d of the next process, want 3", s.Boot())
			}
		})
	}
}

// FuzzReadView shows that whatever lies in the file is read as a valid view of the cluster, or refused.
func FuzzReadView(f *testing.F) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll(directory, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := writeView(fs, directory, viewOf(3)); err != nil {
		f.Fatal(err)
	}
	good, err := durable.Read(fs, directory+"/"+viewFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		fs := vfs.NewMem()
		if err := fs.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := durable.Replace(fs, directory, viewFile, content); err != nil {
			t.Fatal(err)
		}
		v, err := readView(fs, directory, "c")
		if err == nil && (v.Validate() != nil || v.Cluster != "c") {
			t.Errorf("read %+v", v)
		}
	})
}
