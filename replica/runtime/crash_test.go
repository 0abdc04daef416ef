package runtime

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// crash stops a member and leaves its directory as it was while the process ran, as a killed one would.
func (c *cluster) crash(i int) {
	c.t.Helper()
	image := c.dirs[i] + ".image"
	if err := os.CopyFS(image, os.DirFS(c.dirs[i])); err != nil {
		c.t.Fatal(err)
	}
	c.stop(i)
	if err := os.RemoveAll(c.dirs[i]); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(image, c.dirs[i]); err != nil {
		c.t.Fatal(err)
	}
}

func TestACrashCostsWhatItsDurabilitySays(t *testing.T) {
	for durability, lost := range map[storage.Durability]bool{storage.Sync: false, storage.Interval: true} {
		t.Run(durability.String(), func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: "gryff"}, storage.Options{Durability: durability})
			for i := range 20 {
				c.write(i%3, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
			c.crash(2)
			c.restart(2)
			if status := c.replicas[2].Status(); status.Lost != lost || status.Boot != 2 {
				t.Errorf("after a crash: lost %v, boot %d; want %v, 2", status.Lost, status.Boot, lost)
			}
			eventually(t, "the member votes", c.replicas[2].Quorum)
			c.stop(0) // what follows needs its vote
			for i := range 20 {
				c.expect(1+i%2, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
		})
	}
}

func TestACleanStopUnderIntervalCostsNothing(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd"}, storage.Options{Durability: storage.Interval})
	c.write(0, "k", "v")
	for i := range 3 {
		c.stop(i)
	}
	for i := range 3 {
		c.restart(i)
		if c.replicas[i].Status().Lost {
			t.Fatalf("member %d counts as lost", i+1)
		}
	}
	c.expect(1, "k", "v")
}

func TestADiskThatFailsStopsTheReplica(t *testing.T) {
	var broken atomic.Bool
	disk := storage.Options{FileSystem: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		// Only the first member's log.
		if broken.Load() && strings.Contains(op.Path, "member-1/") && strings.HasSuffix(op.Path, ".log") &&
			(op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			return syscall.EIO
		}
		return nil
	}))}
	c := newCluster(t, 3, Options{}, disk)
	c.write(0, "k", "before")
	broken.Store(true)
	r := c.doWithin(0, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("after")}, time.Second)
	if r.Status == register.OK {
		t.Fatal("acknowledged what is not on disk")
	}
	select {
	case <-c.replicas[0].Done():
	case <-time.After(patience):
		t.Fatal("the replica goes on")
	}
	if err := c.replicas[0].Err(); !strings.Contains(err.Error(), syscall.EIO.Error()) {
		t.Errorf("the reason is %v", err)
	}
	broken.Store(false) // too late
	if r := c.do(0, register.Operation{Kind: register.Read, Key: "k"}); r.Status == register.OK {
		t.Error("a replica whose disk failed answers")
	}
	if err := c.replicas[0].Close(); err == nil {
		t.Error("Close hides the reason")
	}
	c.write(1, "k", "others go on")
}
