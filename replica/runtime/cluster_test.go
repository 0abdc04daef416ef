package runtime

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// patience bounds every wait of these tests. It is no expectation: what is waited for is a condition.
const patience = 20 * time.Second

// cluster is a set of replicas in this process, on loopback.
type cluster struct {
	t        testing.TB
	view     view.View
	replicas []*Replica // nil: not running
	base     Options
	disk     storage.Options
	dirs     []string
	stores   []*storage.Store // of the latest start; nil: there was none
}

// memory is the disk of a cluster that is to be fast.
var memory = storage.Options{Durability: storage.Memory}

// newCluster starts size members of the protocol in base; an empty name is the toy protocol. Their disks are as disk
// says, if it is given.
func newCluster(t testing.TB, size int, base Options, disk ...storage.Options) *cluster {
	t.Helper()
	c := &cluster{
		t: t, view: view.View{Cluster: t.Name(), Epoch: 1}, base: base, replicas: make([]*Replica, size),
		stores: make([]*storage.Store, size),
	}
	if len(disk) > 0 {
		c.disk = disk[0]
	}
	root := t.TempDir()
	listeners := make([]net.Listener, size)
	for i := range size {
		listeners[i] = listen(t, "127.0.0.1:0")
		c.view.Members = append(c.view.Members, view.Member{
			ID: view.MemberID(i + 1), Site: fmt.Sprint("site-", i+1), Address: listeners[i].Addr().String(),
		})
		c.dirs = append(c.dirs, filepath.Join(root, fmt.Sprint("member-", i+1)))
	}
	if base.Protocol == "curp" {
		c.view.Partitions = []view.Partition{{Term: 1, Master: 1, Backups: []view.MemberID{2}}}
	}
	t.Cleanup(func() {
		for i, r := range c.replicas {
			if r != nil && r.Err() == nil {
				if err := errors.Join(r.Close(), c.stores[i].Close()); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		}
	})
	for i := range size {
		if err := c.start(i, listeners[i], true); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	eventually(t, "listen on "+address, func() bool {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	return listener
}

func (c *cluster) options(i int, listener net.Listener, bootstrap bool) Options {
	o := c.base
	o.View, o.Self, o.Listener, o.Bootstrap = c.view, c.view.Members[i].ID, listener, bootstrap
	o.Seed = 1
	if o.Protocol == "" {
		o.Protocol = "toy"
		o.start = func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
			return newToy(config, journal), nil
		}
	}
	if o.Logger == nil && testing.Verbose() {
		o.Logger, _ = zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	}
	return o
}

func (c *cluster) start(i int, listener net.Listener, bootstrap bool) error {
	o := c.options(i, listener, bootstrap)
	if s := c.stores[i]; s != nil {
		_ = s.Close() // a test may have left it open, or it has failed
	}
	disk := c.disk
	disk.Directory, disk.Logger = c.dirs[i], o.Logger
	disk.Identity = storage.Identity{
		Cluster: c.view.Cluster, Member: o.Self, Protocol: o.Protocol, Shards: max(o.Shards, 1),
	}
	var err error
	if o.Store, err = storage.Open(disk); err != nil {
		return errors.Join(err, listener.Close())
	}
	c.stores[i] = o.Store
	r, err := Start(c.t.Context(), o)
	if err != nil {
		return errors.Join(err, o.Store.Close())
	}
	c.replicas[i] = r
	return nil
}

// awaitVotes waits until every member has been told that its disk is whole.
func (c *cluster) awaitVotes() {
	c.t.Helper()
	eventually(c.t, "all members vote", func() bool {
		return !slices.ContainsFunc(c.replicas, func(r *Replica) bool { return !r.Votes() })
	})
}

func (c *cluster) stop(i int) {
	c.t.Helper()
	if err := errors.Join(c.replicas[i].Close(), c.stores[i].Close()); err != nil {
		c.t.Fatal(err)
	}
	c.replicas[i] = nil
}

// restart starts a member that was stopped, on what its directory holds now.
func (c *cluster) restart(i int) {
	c.t.Helper()
	if err := c.start(i, listen(c.t, c.view.Members[i].Address), false); err != nil {
		c.t.Fatal(err)
	}
}

// do runs an operation at a member and waits for its end.
func (c *cluster) do(i int, op register.Operation) register.Result {
	c.t.Helper()
	return c.doWithin(i, op, patience)
}

func (c *cluster) doWithin(i int, op register.Operation, timeout time.Duration) register.Result {
	c.t.Helper()
	done := make(chan register.Result, 2)
	c.replicas[i].Submit(op, timeout, func(r register.Result) { done <- r })
	select {
	case r := <-done:
		return r
	case <-time.After(2 * patience):
		c.t.Fatal("an operation never ended")
		return register.Result{}
	}
}

func (c *cluster) write(i int, key, value string) {
	c.t.Helper()
	r := c.do(i, register.Operation{Kind: register.Write, Key: key, Value: register.Value(value)})
	if r.Status != register.OK {
		c.t.Fatalf("member %d: write %s: %s: %s", i+1, key, r.Status, r.Message)
	}
}

func (c *cluster) expect(i int, key, value string) {
	c.t.Helper()
	r := c.do(i, register.Operation{Kind: register.Read, Key: key})
	if r.Status != register.OK || string(r.Value) != value {
		c.t.Fatalf("member %d: read %s: %s %q: %s; want %q", i+1, key, r.Status, r.Value, r.Message, value)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatal("never came true: ", what)
}

func quick() Options { return Options{Shards: 2} }
