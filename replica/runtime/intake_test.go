package runtime

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// gatedFiles are files of which those with values of tables are read only while the gate is open. Small values lie in
// the tables, which are read at any time.
type gatedFiles struct {
	vfs.FS
	gate *sync.RWMutex // held: it is closed
}

func (f gatedFiles) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, options...)
	if err == nil && filepath.Ext(name) == ".blob" {
		file = gatedFile{file, f.gate}
	}
	return file, err
}

type gatedFile struct {
	vfs.File
	gate *sync.RWMutex
}

func (f gatedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.gate.RLock()
	defer f.gate.RUnlock()
	return f.File.ReadAt(p, offset)
}

// newColdCluster has a key of which no member has the record in memory, and a gate before its value.
func newColdCluster(t *testing.T, protocol string) (c *cluster, gate *sync.RWMutex) {
	gate = &sync.RWMutex{}
	c = newCluster(t, 3, Options{Protocol: protocol}, storage.Options{
		FileSystem: gatedFiles{vfs.Default, gate}, Cache: 64 << 10,
	})
	c.awaitVotes()
	for i := range c.replicas {
		c.write(i, "cold", strings.Repeat("before", 100)) // in a file of values
	}
	filler := strings.Repeat("x", 512<<10)
	for i, dir := range c.dirs { // until what was written before is in a table, and neither in a cache
		written := 0
		eventually(t, "there is a table", func() bool {
			c.write(i, fmt.Sprint("filler", written%4), filler)
			written++
			tables, err := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
			return err == nil && len(tables) > 0
		})
	}
	for i := range c.replicas { // a stop waits until a table that is being written is one, and until then memory has it
		c.stop(i)
		c.restart(i)
	}
	c.awaitVotes()
	for i := range c.replicas {
		for n := range 4 { // of what was in progress last, a start has some in memory: these are in its place now
			c.write(i, fmt.Sprint("filler", n), filler)
		}
	}
	return c, gate
}

// A record that is not in memory, and that the disk does not give, holds up no operation on another one: neither at the
// member that was asked nor at the others. Those that wait for it go on when it comes, in their order.
func TestARecordOnTheDiskHoldsUpNothingElse(t *testing.T) {
	for _, name := range []string{"abd", "gryff", "gus", "caspaxos", "rmwpaxos", "epaxos"} {
		t.Run(name, func(t *testing.T) {
			c, gate := newColdCluster(t, name)
			gate.Lock()
			open := sync.OnceFunc(gate.Unlock)
			defer open()
			ended := make(chan register.Result, 2)
			for _, op := range []register.Operation{
				{Kind: register.Write, Key: "cold", Value: register.Value("after")}, {Kind: register.Read, Key: "cold"},
			} {
				c.replicas[0].Submit(op, patience, func(r register.Result) { ended <- r })
			}
			eventually(t, "operations wait for the disk", func() bool { // and messages about what restarts left unfinished
				shard := c.replicas[0].Status().Shards[0]
				return shard.InFlight == 2 && shard.Waiting >= 2
			})
			for i := range c.replicas { // on a key that no late message names: what is read in one step is read together
				c.write(i, "other", "after")
				c.expect(i, "other", "after")
			}
			if len(ended) > 0 {
				t.Fatalf("an operation on a record that nobody has read has ended: %+v", <-ended)
			}
			open()
			for range 2 {
				if r := <-ended; r.Status != register.OK {
					t.Errorf("%+v", r)
				}
			}
			c.expect(1, "cold", "after")
		})
	}
}

// What waits for the disk when a replica stops was not begun, and another replica begins it.
func TestWhatWaitsForTheDiskIsHandedOver(t *testing.T) {
	c, gate := newColdCluster(t, "abd")
	gate.Lock()
	open := sync.OnceFunc(gate.Unlock)
	defer open()
	ended := make(chan register.Result, 1)
	c.replicas[0].Submit(register.Operation{Kind: register.Read, Key: "cold"}, patience,
		func(r register.Result) { ended <- r })
	eventually(t, "it waits for the disk", func() bool { return c.replicas[0].Status().Shards[0].Waiting == 1 })
	all, _, err := c.replicas[0].HandOver()
	if err != nil || len(all) != 1 || all[0].resume != nil {
		t.Fatalf("%d operations are handed over: %v", len(all), err)
	}
	open()
	all[0].End("this test is over")
	if r := <-ended; r.Status != register.Unavailable {
		t.Errorf("%+v, and nobody had begun it", r)
	}
}
