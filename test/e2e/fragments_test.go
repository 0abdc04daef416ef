package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// random is a value that disks can't compress.
func random(seed uint64, length int) string {
	b := make([]byte, length)
	draw := rand.NewPCG(seed, 0)
	for i := range b {
		b[i] = byte(draw.Uint64())
	}
	return string(b)
}

// Values of 100 kB are stored as fragments of which three restore one: any member may be killed, and one after the
// other may lose its disk, and all sites read them.
func TestFragments(t *testing.T) {
	c := start(t, manifest(t, "Gus\n  faultTolerance: 1\n  gus: {erasureCoding: {dataFragments: 3}}"), t.TempDir())
	const length = 100_000
	write := func(site, key, value string) {
		t.Helper()
		client := c.connect(site)
		defer client.Close()
		if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
			t.Fatalf("SET %s at %s: %v", key, site, err)
		}
	}
	for i, site := range c.sites {
		write(site, fmt.Sprint("large-", i), random(uint64(i), length))
		write(site, fmt.Sprint("small-", i), "of "+site)
	}
	readAll := func(site string) {
		t.Helper()
		for i, writer := range c.sites {
			expect(t, c, site, fmt.Sprint("large-", i), random(uint64(i), length))
			expect(t, c, site, fmt.Sprint("small-", i), "of "+writer)
		}
	}
	for _, site := range c.sites {
		readAll(site)
	}
	if _, err := c.send("remove", "or", "jp"); err == nil || !strings.Contains(err.Error(), "can't become fewer") {
		t.Errorf("two members were removed: %v", err)
	}
	for i, site := range c.sites {
		c.must(t, "kill", site)
		if i == 0 { // written while one is away
			write(c.sites[1], "large-0", random(0, length))
		}
		readAll(c.sites[(i+1)%len(c.sites)])
		if i%2 == 0 {
			c.must(t, "restart", site)
		} else {
			c.must(t, "wipe", site)
		}
		c.await(t, "all members serve", c.serving)
		readAll(site)
	}
	if strings.Contains(c.output.String(), "panic") {
		t.Error("a member panicked")
	}
}
