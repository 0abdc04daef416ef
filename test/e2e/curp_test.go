package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
)

// The site of a master dies with the witness there, while clients of all sites work: another one takes over, and
// nothing that was acknowledged is lost.
func TestCURPLosesAMaster(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	c.must(t, "kill", "va")
	c.await(t, "others are the masters", func() (string, bool) { return c.served("va") })
	l.goesOn("the load goes on without va")
	c.must(t, "restart", "va")
	c.await(t, "va serves again", c.all)
	l.judge()
}

// Without a witness updates take more round trips, until another one has its place.
func TestCURPLosesAWitness(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	_, _, _, parts := c.parts()
	witness := parts[c.mastered("ca")].witnesses[0]
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	c.must(t, "kill", witness+"/witness")
	l.goesOn("the load goes on without a witness")
	c.await(t, "another one has its place", func() (string, bool) {
		table, _, _, parts := c.parts()
		return table, len(parts) > 0 && !slices.ContainsFunc(parts, func(p part) bool {
			return p.state != "serving" || len(p.witnesses) != 2 || slices.Contains(p.witnesses, witness)
		})
	})
	var before uint64
	counted := false
	c.await(t, "updates are fast again", func() (string, bool) {
		now, told := c.fast(t, "ca", c.mastered("ca"))
		if told && !counted {
			before, counted = now, true
		}
		return fmt.Sprintf("%d fast updates, and %d before", now, before), told && now > before+20
	})
	c.must(t, "restart", witness+"/witness")
	c.await(t, "all are there again", c.whole)
	l.judge()
}

// A master that was suspended while another one took its place answers nothing that is stale when it goes on.
func TestCURPMasterIsSuspended(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	l := startLoad(t, c)
	defer l.stop()
	l.goesOn("the load is under way")
	_, _, processes, _ := c.parts()
	resume := suspend(t, processes["ir"])
	c.await(t, "others are the masters", func() (string, bool) { return c.served("ir") })
	l.goesOn("the load goes on without ir")
	// What is asked at ir now waits for it there, and begins after what others have been told.
	asked := make(chan error, keys)
	for i := range keys {
		d := &doer{c.connect("ir")}
		op := register.Operation{Kind: register.Read, Key: fmt.Sprint("key-", i)}
		invocation := l.recorder.Invoke(fmt.Sprint("late-", i), "ir", op)
		go func() {
			defer d.Close()
			invocation.Return(d.Do(t.Context(), op))
			asked <- nil
		}()
	}
	resume()
	for range keys {
		<-asked
	}
	c.await(t, "ir serves again", c.all)
	l.judge()
}

// All processes die at once, and the machine with them for what this can play: everything is there when they start
// again.
func TestCURPLosesAllProcesses(t *testing.T) {
	path, data := manifest(t, "CURP"), t.TempDir()
	c := start(t, path, data)
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	for _, site := range c.sites {
		c.must(t, "kill", site)
	}
	for _, site := range c.sites {
		c.must(t, "restart", site)
	}
	c.await(t, "all serve again", c.whole)
	l.goesOn("the load goes on")
	l.judge()
	c.stop(t)
	c = start(t, path, data)
	for _, counter := range l.counters {
		counter.verify(t, c)
	}
}

// A disk that is lost takes the witness's with it: a newcomer takes the place of both.
func TestCURPReplacesALostDisk(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	c.must(t, "wipe", "or")
	c.await(t, "others are the masters", func() (string, bool) { return c.served("or") })
	c.must(t, "replace", "or")
	c.await(t, "the newcomer has its parts", func() (string, bool) {
		table, ok := c.whole()
		_, _, _, parts := c.parts()
		return table, ok && slices.ContainsFunc(parts, func(p part) bool { return p.master == "or-2" })
	})
	c.locate(t)
	l.judge()
}

// A site that is cut off from all others loses its partition to them, and so does its witness; its clients get no
// answer that the others contradict.
func TestCURPPartition(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	for _, other := range c.sites {
		if other != "jp" {
			c.must(t, "partition", "jp", other)
		}
	}
	c.await(t, "others are the masters", func() (string, bool) {
		table, ok := c.served("jp")
		_, _, _, parts := c.parts()
		return table, ok && !slices.ContainsFunc(parts, func(p part) bool {
			return slices.Contains(p.witnesses, "jp") || slices.Contains(p.backups, "jp")
		})
	})
	l.goesOn("the load goes on without jp")
	c.must(t, "heal")
	c.await(t, "jp serves again", c.all)
	l.judge()
}

const twoSites = `apiVersion: georegister.io/v1alpha1
kind: GeoRegisterCluster
metadata: {name: e2e}
spec:
  protocol: CURP
  sites: [{name: ca, members: 2}, {name: va}]
  shards: 6
  wan: {links: [{between: [ca, va], rtt: 7.2ms}]}
`

// Two sites have six partitions, each with a master of its own, which move from site to site while clients work; what
// is moved is at its new home after a restart of everything too.
func TestCURPMovesMasters(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), "cluster.yaml"), t.TempDir()
	if err := os.WriteFile(path, []byte(twoSites), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, path, data)
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	masters := func() (all []string) {
		_, _, _, parts := c.parts()
		for _, p := range parts {
			all = append(all, strings.Split(p.master, "-")[0])
		}
		return all
	}
	if got := strings.Join(masters(), " "); got != "ca va ca va ca va" {
		t.Errorf("the masters are at %s", got)
	}
	for _, move := range []string{"1 ca", "2 va", "1 default"} {
		if said, err := c.send(append([]string{"move"}, strings.Fields(move)...)...); err != nil ||
			!strings.Contains(said, "serves it") {
			t.Errorf("move %s: %s: %v", move, said, err)
		}
		l.goesOn("the load goes on after a move")
	}
	// The default of shard 1 is where its master is: one site is as near to all as the other.
	if got := strings.Join(masters(), " "); got != "ca ca va va ca va" {
		t.Errorf("the masters are at %s", got)
	}
	l.judge()
	c.stop(t)
	c = start(t, path, data)
	c.await(t, "all serve again", c.all)
	if got := strings.Join(masters(), " "); got != "ca ca va va ca va" {
		t.Errorf("after a restart the masters are at %s", got)
	}
	for _, counter := range l.counters {
		counter.verify(t, c)
	}
}

// Three of five members lose their disks, and the witnesses beside them theirs. The two that are left go on with all
// that they hold; the one shard that they only followed goes on with what they have heard of it, and not before that is
// asked for.
func TestCURPGivesUpALostQuorum(t *testing.T) {
	c := start(t, manifest(t, "CURP"), t.TempDir())
	const count = 60
	key := func(i int) string { return fmt.Sprint("kept-", i) }
	_, _, processes, parts := c.parts()
	shard := c.mastered("jp")
	lost := append([]string{"jp"}, parts[shard].backups...)
	left := slices.DeleteFunc(slices.Clone(c.sites), func(site string) bool { return slices.Contains(lost, site) })
	d := c.connect(left[0])
	defer d.Close()
	for i := range count {
		if err := d.Set(t.Context(), key(i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	length := func(site string) uint64 { return c.status(t, site).GetPartitions()[shard].GetLength() }
	c.await(t, "the two have heard of all that the shard has", func() (string, bool) {
		all, first, second := length("jp"), length(left[0]), length(left[1])
		return fmt.Sprint(all, first, second), first == all && second == all
	})
	// all stand still at once: a quorum without the first would replace it before the last is wiped
	for _, site := range lost {
		if err := syscall.Kill(processes[site], syscall.SIGSTOP); err != nil || processes[site] == 0 {
			t.Fatalf("%s, process %d: %v", site, processes[site], err)
		}
	}
	for _, site := range lost {
		c.must(t, "wipe", site)
	}
	c.await(t, "the refusal names what is lost", func() (string, bool) {
		said, err := c.send("recover", "all")
		names := fmt.Sprintf("`recover all %d`", shard)
		return fmt.Sprint(said, err), err != nil && strings.Contains(err.Error(), names)
	})
	said, err := c.send("recover", "all", fmt.Sprint(shard))
	if err != nil || !strings.Contains(said, strings.Join(left, ", ")+" go on") ||
		!strings.Contains(said, fmt.Sprintf("partitions %d: these go on from the copy", shard)) {
		t.Fatalf("%s: %v", said, err)
	}
	c.await(t, "the two serve", c.all)
	c.must(t, "add", "jp") // it waits until the two have connected anew
	c.await(t, "the three serve", c.all)
	for i := range count {
		value, err := d.Get(t.Context(), key(i)).Result()
		if err != nil || value != "v" {
			t.Errorf("%s, of shard %d: %q: %v", key(i), runtime.Shard(key(i), 5), value, err)
		}
	}
}
