package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
)

// With every protocol Redis clients have what one site acknowledged at every other one, also after all were stopped and
// started again; what a protocol does not have is refused by its name.
func TestWriteHereReadThere(t *testing.T) {
	for _, protocol := range capability.Table() {
		t.Run(protocol.Name, func(t *testing.T) {
			path, data := manifest(t, protocol.Name), t.TempDir()
			c := start(t, path, data)
			writes, rmws := protocol.CheckOperation(register.Write) == nil, protocol.CheckOperation(register.RMW) == nil
			last := ""
			for _, writer := range c.sites {
				client := c.connect(writer)
				err := client.Set(t.Context(), "key", "from "+writer, 0).Err()
				refused(t, "SET at "+writer, err, protocol.Name, writes)
				err = client.Incr(t.Context(), "n").Err()
				// Without plain writes there are idempotent rmws alone.
				refused(t, "INCR at "+writer, err, protocol.Name, writes && rmws)
				_ = client.Close()
				if writes {
					last = "from " + writer
				}
				for _, reader := range c.sites {
					expect(t, c, reader, "key", last)
				}
			}
			c.stop(t)
			c = start(t, path, data)
			expect(t, c, "jp", "key", last)
			if rmws && writes {
				expect(t, c, "ir", "n", strconv.Itoa(len(c.sites)))
			}
		})
	}
}

// refused checks that a command is answered if the protocol has it, and otherwise refused by the protocol's name.
func refused(t *testing.T, what string, err error, protocol string, has bool) {
	t.Helper()
	switch {
	case has && err != nil:
		t.Fatalf("%s: %v", what, err)
	case !has && (err == nil || !strings.Contains(err.Error(), protocol)):
		t.Errorf("%s with %s: %v", what, protocol, err)
	}
}

// expect reads a key at a site; empty stands for an absent one.
func expect(t *testing.T, c *cluster, site, key, want string) {
	t.Helper()
	client := c.connect(site)
	defer client.Close()
	got, err := client.Get(t.Context(), key).Result()
	if errors.Is(err, redis.Nil) && want == "" {
		return
	}
	if err != nil || got != want {
		t.Errorf("GET %s at %s: %q, %v; want %q", key, site, got, err, want)
	}
}

// A kept data directory is the whole cluster; a second one can't run on it at the same time.
func TestRestartFromDisk(t *testing.T) {
	path, data := manifest(t, "Gryff"), t.TempDir()
	c := start(t, path, data)
	client := c.connect("ca")
	for _, command := range []redis.Cmder{
		client.Set(t.Context(), "key", "kept", 0), client.IncrBy(t.Context(), "n", 41),
	} {
		if err := command.Err(); err != nil {
			t.Fatal(err)
		}
	}
	_ = client.Close()
	out, err := exec.CommandContext(t.Context(), binary, "dev", "-f", path, "--data", data).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "runs in "+data+" already") {
		t.Errorf("a second cluster on the same data: %v, %s", err, out)
	}
	c.stop(t)
	c = start(t, path, data)
	expect(t, c, "jp", "key", "kept")
	client = c.connect("ir")
	defer client.Close()
	if n, err := client.Incr(t.Context(), "n").Result(); n != 42 || err != nil {
		t.Errorf("INCR after the restart: %d, %v", n, err)
	}
}

// A majority serves on either side of nothing else: cut off from all others, a site does not answer.
func TestPartition(t *testing.T) {
	c := start(t, manifest(t, "Gryff"), t.TempDir())
	for _, other := range []string{"va", "or", "jp"} {
		c.must(t, "partition", "ir", other)
	}
	c.await(t, "ir has no quorum", func() (string, bool) {
		table, err := c.send("status")
		if err != nil {
			return err.Error(), false
		}
		return table, strings.Contains(table, "no quorum")
	})
	client := c.connect("ca")
	defer client.Close()
	if err := client.Set(t.Context(), "key", "majority", 0).Err(); err != nil {
		t.Errorf("SET at ca, which reaches a majority: %v", err)
	}
	c.must(t, "heal")
	c.await(t, "all members serve", c.serving)
	expect(t, c, "ir", "key", "majority")
}

// Members never outlive the process that started them, even if it is killed.
func TestMembersEndWithTheirParent(t *testing.T) {
	directory := t.TempDir()
	c := start(t, manifest(t, "ABD"), directory)
	if err := c.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	sites := c.sites
	deadline := make(chan struct{})
	c.ended = deadline // the condition is about what dev left behind
	c.await(t, "no member listens any more", func() (string, bool) {
		for _, site := range sites {
			if listens(c.redis[site]) {
				return site + " listens", false
			}
		}
		return "", true
	})
	c.await(t, "no member writes any more", func() (string, bool) {
		if err := os.RemoveAll(filepath.Join(directory, "members")); err != nil {
			return err.Error(), false
		}
		return "", true
	})
	close(deadline)
}

// A bad manifest starts nothing and says which field is wrong.
func TestBadManifest(t *testing.T) {
	path := manifest(t, "Paxos")
	out, err := exec.CommandContext(t.Context(), binary, "dev", "-f", path).CombinedOutput()
	const want = `spec.protocol: Unsupported value: "Paxos": supported values: "ABD", "CASPaxos", "CURP", `
	if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "starting") {
		t.Errorf("%v, %s", err, out)
	}
}

// Commands that can't be carried out say why, and the cluster lives on.
func TestCommands(t *testing.T) {
	c := start(t, manifest(t, "ABD"), t.TempDir())
	for _, tt := range []struct {
		command string
		want    string
	}{
		{"kill nowhere", `no site "nowhere"; there are ca, va, ir, or, jp`},
		{"partition ca ca", "name two different sites"},
		{"partition ca", "use: georegister dev partition SITE SITE"},
	} {
		if _, err := c.send(strings.Fields(tt.command)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.command, err, tt.want)
		}
	}
	c.must(t, "kill", "ca")
	if _, err := c.send("kill", "ca"); err == nil || !strings.Contains(err.Error(), "ca is not running") {
		t.Errorf("killing a dead site: %v", err)
	}
	c.must(t, "restart", "ca")
	c.await(t, "all members serve", c.serving)
	if _, err := c.send("quit"); err != nil {
		t.Error(err)
	}
	<-c.ended
	if !c.state.Success() {
		t.Errorf("georegister dev ended with %s", c.state)
	}
}

// A member that can't trust its disk ends, says why, and leaves the others alone.
func TestForeignDisk(t *testing.T) {
	c := start(t, manifest(t, "Gryff"), t.TempDir())
	c.must(t, "kill", "or")
	identity := func(site string) string { return filepath.Join(c.data, "members", site, "disk", "IDENTITY") }
	read := func(site string) []byte {
		content, err := os.ReadFile(identity(site))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	rewrite := func(content []byte) {
		if err := os.WriteFile(identity("or"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := read("or")
	rewrite(read("ca"))
	c.must(t, "restart", "or")
	c.await(t, "the member has ended", func() (string, bool) {
		table, err := c.send("status")
		if err != nil {
			return err.Error(), false
		}
		return table, strings.Contains(table, "crashed: ") &&
			strings.Contains(table, "the disk belongs to another member")
	})
	expect(t, c, "ca", "key", "")
	rewrite(own)
	c.must(t, "restart", "or")
	c.await(t, "all members serve", c.serving)
}

// A member whose disk is damaged joins again by itself.
func TestDamagedDisk(t *testing.T) {
	c := start(t, manifest(t, "Gryff"), t.TempDir())
	c.must(t, "kill", "or")
	directory := filepath.Join(c.data, "members", "or", "disk")
	name := func() string {
		content, err := os.ReadFile(filepath.Join(directory, "IDENTITY"))
		if err != nil {
			t.Fatal(err)
		}
		_, disk, _ := strings.Cut(string(content), `"disk": "`)
		return disk[:16]
	}
	before := name()
	logs, err := filepath.Glob(filepath.Join(directory, "db", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no log: ", err)
	}
	if err := os.Truncate(slices.Max(logs), 100); err != nil {
		t.Fatal(err)
	}
	c.must(t, "restart", "or")
	c.await(t, "all members serve", c.serving)
	c.await(t, "the damaged disk is removed", func() (string, bool) {
		_, err := os.Stat(filepath.Join(directory, "damaged"))
		return fmt.Sprint(err), errors.Is(err, os.ErrNotExist)
	})
	if name() == before {
		t.Error("the damaged disk was believed")
	}
}
