package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// dedicated is a manifest of five sites, each with a member and a witness with a process of its own.
func dedicated(t *testing.T) string {
	t.Helper()
	path := manifest(t, "CURP")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(text, "  curp: {witness: {placement: Dedicated}}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// apart reports whether all members serve, and nobody who keeps a partition shares a site with another one.
func (c *cluster) apart() (string, bool) {
	table, ok := c.whole()
	_, _, _, parts := c.parts()
	for _, p := range parts {
		sites := slices.Concat([]string{p.master}, p.backups, p.witnesses)
		slices.Sort(sites)
		ok = ok && len(slices.Compact(sites)) == 5
	}
	return table, ok && len(parts) > 0
}

// A site's member and its witness are lost apart: the one alone, the other alone, and the disk of the witness, for
// which another one comes. What was acknowledged stays.
func TestDedicatedWitnesses(t *testing.T) {
	path, data := dedicated(t), t.TempDir()
	c := start(t, path, data)
	c.await(t, "nobody shares a site", c.apart)
	l := startLoad(t, c)
	l.goesOn("the load is under way")
	_, _, before, _ := c.parts()

	c.must(t, "kill", "va")
	c.await(t, "others are the masters", func() (string, bool) { return c.served("va") })
	if _, _, now, _ := c.parts(); now["va/witness"] != before["va/witness"] || now["va/witness"] == 0 {
		t.Errorf("the witness of va was process %d, and is %d", before["va/witness"], now["va/witness"])
	}
	l.goesOn("the load goes on without va's member")
	c.must(t, "restart", "va")
	c.await(t, "nobody shares a site again", c.apart)

	c.must(t, "kill", "or/witness")
	c.await(t, "others witness", func() (string, bool) {
		table, _, _, parts := c.parts()
		return table, len(parts) > 0 && !slices.ContainsFunc(parts, func(p part) bool {
			return p.state != "serving" || len(p.witnesses) != 2 || slices.Contains(p.witnesses, "or")
		})
	})
	l.goesOn("the load goes on without or's witness")
	c.must(t, "restart", "or/witness")
	c.await(t, "nobody shares a site again", c.apart)

	_, _, before, _ = c.parts()
	c.must(t, "wipe", "jp/witness")
	c.await(t, "another witness has its place", func() (string, bool) {
		table, ok := c.apart()
		_, _, now, _ := c.parts()
		return fmt.Sprint(before["jp/witness"], " before\n", table), ok && now["jp/witness"] != before["jp/witness"]
	})
	l.goesOn("the load goes on with another witness")
	l.judge()
	c.stop(t)
	c = start(t, path, data)
	c.await(t, "all serve again", c.apart)
	for _, counter := range l.counters {
		counter.verify(t, c)
	}
}
