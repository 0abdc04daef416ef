package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/georegister/georegister/replica/view"
)

const threeShards = `apiVersion: georegister.io/v1alpha1
kind: GeoRegisterCluster
metadata: {name: e2e}
spec:
  protocol: CURP
  shards: 3
  sites: [{name: ca}, {name: va}, {name: or}]
  wan: {links: [{between: [ca, va], rtt: 7.2ms}, {between: [ca, or], rtt: 5.9ms}, {between: [va, or], rtt: 9.3ms}]}
`

// Shards are split while clients work, one that was split off moves to another site, and its master is lost there.
// Nothing that was acknowledged is lost, neither then nor when all begin again with a manifest that asks for one shard
// more.
func TestCURPSplitsShards(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), "cluster.yaml"), t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(threeShards)
	c := start(t, path, data)
	const count = 60
	key := func(i int) string { return fmt.Sprint("kept-", i) }
	shard := func(key string, count int) int { return view.Shard(xxhash.Sum64String(key), 3, count) }
	d := c.connect("ca")
	defer d.Close()
	for i := range count {
		if err := d.Set(t.Context(), key(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(c *cluster, shards int) {
		t.Helper()
		d := c.connect("va")
		defer d.Close()
		moved := 0
		for i := range count {
			if value, err := d.Get(t.Context(), key(i)).Int(); err != nil || value != i {
				t.Errorf("%s, of shard %d: %d: %v", key(i), shard(key(i), shards), value, err)
			}
			if shard(key(i), shards) != shard(key(i), 3) {
				moved++
			}
		}
		if moved == 0 {
			t.Errorf("no key is of a shard that was split off")
		}
	}

	l := startLoad(t, c)
	l.goesOn("the load is under way")
	for i, want := range []string{
		"partition 0 is split: half of its keys go to partition 3\n",
		"partition 1 is split: half of its keys go to partition 4\n",
	} {
		said, err := c.send("split")
		if err != nil || !strings.HasPrefix(said, want) ||
			!strings.HasSuffix(said, fmt.Sprintf("partition %d: %s serves it\n", 3+i, c.sites[i])) {
			t.Fatalf("split: %s: %v", said, err)
		}
		l.goesOn("the load goes on after a split")
	}
	var before uint64
	counted := false
	c.await(t, "what is split off is updated in one round trip", func() (string, bool) {
		now, told := c.fast(t, "ca", 3)
		if told && !counted {
			before, counted = now, true
		}
		return fmt.Sprintf("%d fast updates, and %d before", now, before), told && now > before
	})
	keep(c, 5)
	if said, err := c.send("move", "4", "or"); err != nil || !strings.HasSuffix(said, "partition 4: or serves it\n") {
		t.Fatalf("move: %s: %v", said, err)
	}
	c.await(t, "it has a backup there, and nothing is left to do", func() (string, bool) {
		table, ok := c.kept(1)
		_, _, _, parts := c.parts()
		return table, ok && !strings.Contains(table, "waiting:") && len(parts) == 5 && parts[4].master == "or"
	})
	c.must(t, "kill", "or")
	c.await(t, "others are the masters", func() (string, bool) { return c.served("or") })
	l.goesOn("the load goes on without the master of what was split off")
	c.must(t, "restart", "or")
	c.await(t, "or serves again", c.all)
	l.judge()
	keep(c, 5)

	c.stop(t)
	write(strings.Replace(threeShards, "shards: 3", "shards: 6", 1))
	c = start(t, path, data)
	c.await(t, "there is one shard more", func() (string, bool) {
		table, ok := c.all()
		_, _, _, parts := c.parts()
		return table, ok && len(parts) == 6
	})
	keep(c, 6)
	for _, counter := range l.counters {
		counter.verify(t, c)
	}
}
