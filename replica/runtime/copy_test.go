package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// A directory that is put back from a copy looks whole: the others know better. It is lost, and the next start joins
// anew.
func TestADirectoryThatIsPutBackIsLost(t *testing.T) {
	for _, e := range catalog.All() {
		name := e.Name()
		if e.Partitioned != nil || e.Row.CheckOperation(register.Write) != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: name, Retry: 50 * time.Millisecond}, storage.Options{Durability: storage.Sync})
			c.write(0, "k", "old")
			c.stop(0)
			aside := filepath.Join(t.TempDir(), "aside")
			copyTo(t, c.dirs[0], aside)
			c.restart(0)
			c.write(0, "k", "new")
			c.write(1, "k", "newest") // the others have heard of what member 1 has
			c.stop(0)
			c.dirs[0] = aside
			c.restart(0)
			failed := c.replicas[0]
			eventually(t, "it finds out", func() bool { return failed.Err() != nil })
			if why := (*protocol.Forgotten)(nil); !errors.As(failed.Err(), &why) {
				t.Fatalf("it stopped: %v", failed.Err())
			}
			_ = failed.Close()
			// Its directory stays locked while this process lives.
			c.dirs[0] = filepath.Join(t.TempDir(), "next")
			copyTo(t, aside, c.dirs[0])
			c.restart(0)
			eventually(t, "it votes again", func() bool { return c.replicas[0].Votes() })
			if got := c.replicas[0].Status().Shards[0].Incarnation; got != 2 {
				t.Errorf("it is disk number %d", got)
			}
			if loss := c.replicas[0].store.Loss(); loss == nil {
				t.Error("the disk knows of no loss")
			}
			c.expect(0, "k", "newest")
		})
	}
}

// A master or a backup of CURP whose directory is put back takes no part any more: it has to be replaced.
func TestADirectoryOfCURPThatIsPutBackIsLost(t *testing.T) {
	for i, role := range []protocol.Role{protocol.Master, protocol.Backup} {
		t.Run(role.String(), func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: "curp", Retry: 50 * time.Millisecond}, storage.Options{Durability: storage.Sync})
			c.write(2, "k", "old")
			c.stop(i)
			aside := filepath.Join(t.TempDir(), "aside")
			copyTo(t, c.dirs[i], aside)
			c.restart(i)
			c.write(2, "k", "new") // all backups have it, as there are no witnesses
			c.stop(i)
			c.dirs[i] = aside
			c.restart(i)
			failed := c.replicas[i]
			eventually(t, "it finds out", func() bool { return failed.Err() != nil })
			if why := (*protocol.Forgotten)(nil); !errors.As(failed.Err(), &why) {
				t.Fatalf("it stopped: %v", failed.Err())
			}
			_ = failed.Close()
			// Its directory stays locked while this process lives.
			c.dirs[i] = filepath.Join(t.TempDir(), "next")
			copyTo(t, aside, c.dirs[i])
			c.restart(i)
			if part := c.replicas[i].Partitions()[0]; !part.Lost || part.Role != role {
				t.Errorf("its part is %+v", part)
			}
		})
	}
}

// A copy from before the first start is of an empty disk, which the view names: that it was used since only the others
// know.
func TestAnEmptyDirectoryThatIsPutBackIsLost(t *testing.T) {
	early := &firstCopy{FS: vfs.Default, of: "member-1", to: filepath.Join(t.TempDir(), "aside")}
	c := newCluster(t, 3, Options{Protocol: "gryff", Retry: 50 * time.Millisecond}, storage.Options{Durability: storage.Sync, FileSystem: early})
	c.write(0, "k", "v")
	c.write(1, "k", "newest")
	c.stop(0)
	c.dirs[0] = early.to
	if err := c.start(0, listen(t, c.view.Members[0].Address), true); err != nil {
		t.Fatal(err)
	}
	if boot := c.replicas[0].store.Boot(); boot != 1 {
		t.Fatalf("boot %d", boot)
	}
	failed := c.replicas[0]
	eventually(t, "it finds out", func() bool { return failed.Err() != nil })
	if why := (*protocol.Forgotten)(nil); !errors.As(failed.Err(), &why) {
		t.Errorf("it stopped: %v", failed.Err())
	}
}

// firstCopy copies a directory as soon as it says whose it is.
type firstCopy struct {
	vfs.FS
	of, to string
	once   sync.Once
}

func (f *firstCopy) Rename(from, to string) error {
	err := f.FS.Rename(from, to)
	if directory := filepath.Dir(to); err == nil && filepath.Base(directory) == f.of {
		f.once.Do(func() { err = os.CopyFS(f.to, os.DirFS(directory)) })
	}
	return err
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// How long a member that restarts takes until it votes, with and without the others' answers.
func BenchmarkRestart(b *testing.B) {
	for name, wrong := range map[string]bool{"asks": false, "asks nobody": true} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b, 3, Options{Protocol: "gryff", Shards: 8}, storage.Options{Durability: storage.Sync})
			c.write(0, "k", "v")
			c.base.Continued = wrong
			c.stop(0)
			for b.Loop() {
				c.restart(0)
				for !c.replicas[0].Votes() {
					time.Sleep(100 * time.Microsecond)
				}
				b.StopTimer()
				c.stop(0)
				b.StartTimer()
			}
			c.restart(0)
		})
	}
}
