//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/runtime"
)

// Masters are killed, with and without their machines, updated and drained, under a load that is judged. How long a
// shard was not served is told, not judged.
func TestMasters(t *testing.T) {
	clients(t)
	s := createAs(t, "masters", "CURP")
	s.settled("its creation")
	s.writes("at rest")
	running := s.load("z3", 150*time.Second)

	kill(t, s.master(0))
	s.writes("a master's process was killed")
	s.settled("a killed process")

	before := s.master(0)
	node := "n1"
	if got := s.get(fmt.Sprintf(`{.status.members[?(@.id==%s)].node}`, before)); got != node {
		t.Fatalf("the master of shard 0 is on %s, and its home is the site of %s", got, node)
	}
	power(t, "off", node)
	off := true
	t.Cleanup(func() {
		if off {
			power(t, "on", node)
		}
	})
	s.writes("a master's machine was lost")
	t.Logf("%s: that write ended; decisions on masters: %s", time.Now().UTC().Format("15:04:05.000"),
		must(t, "get", "events", "-o",
			`jsonpath={range .items[?(@.reason=="MasterReplaced")]}{.eventTime} {.message}; {end}`))
	if after := s.master(0); after == before {
		t.Errorf("member %s is still the master of shard 0", after)
	}
	power(t, "on", node)
	off = false
	s.settled("the machine is back")
	if home := s.master(0); home != before {
		t.Errorf("the master of shard 0 is member %s, and its home is where member %s is", home, before)
	}

	must(t, "patch", "grc", s.name, "--type", "merge", "-p",
		`{"spec": {"podTemplate": {"annotations": {"masters": "updated"}}}}`)
	s.settled("a rolling update")

	must(t, "patch", "grc", s.name, "--type", "merge", "-p", `{"spec": {"shards": 4, "homes": ["", "", "", "z2"]}}`)
	await(t, "half of shard 0 is shard 3, at its home", func() (string, bool) {
		said := s.get(
			`{.status.partitions[*].number} {.status.partitions[?(@.number==3)].master} {.status.members[?(@.site=="z2")].id}`)
		words := strings.Fields(said)
		return said, len(words) == 6 && words[4] == words[5]
	})
	s.settled("a split")
	for site, length := range running.verdict() {
		t.Logf("longest time without a success at site %s: %s", site, length)
	}
	events := must(t, "get", "events", "-o", "jsonpath={.items[*].reason}")
	if !strings.Contains(events, "MasterReplaced") {
		t.Errorf("no event tells that a master was replaced: %s", events)
	}
}

// The zone of a master is cut off, another member takes its place, and then the machine and the volume of the cut-off
// one are lost for good: what it alone has is nothing that anybody was told of.
func TestMasterCutOffThenLost(t *testing.T) {
	clients(t)
	s := createAs(t, "severed", "CURP")
	s.settled("its creation")
	const shard, site, node = 2, "z3", "n3" // home of the shard
	before := s.members()[site]
	await(t, "the shard is at home", func() (string, bool) {
		master := s.master(shard)
		return master, master == before
	})
	old := s.pod(site)
	address := must(t, "get", "pod", old, "-o", "jsonpath={.status.podIP}")
	// Asked from its node, since kubectl does not reach a zone that is cut off.
	ask := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		args = append([]string{"--net=/run/netns/georegister-" + node, "redis-cli", "-e", "-h", address}, args...)
		out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := ask("SET", keyOf(shard), "at rest"); err != nil || out != "OK" {
		t.Fatalf("the master at rest: %s, %v", out, err)
	}
	running := s.load("z1", 180*time.Second)

	zone(t, "cut", site)
	cut, off := true, false
	t.Cleanup(func() {
		if cut {
			zone(t, "heal", site)
		}
		if off {
			power(t, "on", node)
		}
	})
	s.writesTo(shard, "its zone was cut off")
	await(t, "another member is master", func() (string, bool) {
		master := s.master(shard)
		return master, master != "" && master != before
	})
	for _, command := range [][]string{{"SET", keyOf(shard), "by the cut-off master"}, {"GET", keyOf(shard)}} {
		if out, err := ask(command...); err == nil {
			t.Errorf("the master that is cut off answers %s with %q", command[0], out)
		} else {
			t.Logf("the master that is cut off answers %s: %s", command[0], out)
		}
	}

	power(t, "off", node)
	off = true
	must(t, "delete", "pvc", "data-"+s.name+"--"+site+"--"+before, "--wait=false")
	must(t, "delete", "pod", old, "--force", "--grace-period=0", "--wait=false")
	const last = "its machine and its volume are lost"
	s.writesTo(shard, last)
	await(t, "its volume is gone", func() (string, bool) {
		out, err := kubectl(t.Context(), "", "get", "pvc", "data-"+s.name+"--"+site+"--"+before)
		return fmt.Sprint(out, err), err != nil && strings.Contains(err.Error(), "NotFound")
	})
	zone(t, "heal", site)
	cut = false
	power(t, "on", node)
	off = false
	await(t, "a new member is at its site", func() (string, bool) {
		now := s.members()[site]
		return now, now != "" && now != before
	})
	s.settled("a machine and a volume were lost")
	for _, at := range zones[:2] { // the client's pod of the third was lost with its machine
		await(t, "a client in "+at+" reads at the new member", func() (string, bool) {
			out, err := s.redis(at, site, "GET", keyOf(shard))
			if err == nil && out != last {
				t.Errorf("a client in %s reads %q at the new member, and %q was acknowledged last", at, out, last)
			}
			return fmt.Sprint(out, err), err == nil // the cluster's DNS learns of the new pod a little later
		})
	}
	for site, length := range running.verdict() {
		t.Logf("longest time without a success at site %s: %s", site, length)
	}
}

// Chaos Mesh kills all pods of a store on a master's node, then all in a zone with another master, under a load that is
// judged.
func TestMastersKilledByChaosMesh(t *testing.T) {
	if _, err := kubectl(t.Context(), "", "get", "crd", "podchaos.chaos-mesh.org"); err != nil {
		t.Skipf("needs Chaos Mesh (make chaos-up): %v", err)
	}
	clients(t)
	s := createAs(t, "killed", "CURP")
	s.settled("its creation")
	s.writes("at rest")
	running := s.load("z3", 120*time.Second)
	for _, c := range []struct{ what, selector string }{
		{"node", "nodes: [n1]"},
		{"zone", "nodeSelectors: {topology.kubernetes.io/zone: z1}"},
	} {
		name, before := "kill-"+c.what, s.pod("z1")
		uid := must(t, "get", "pod", before, "-o", "jsonpath={.metadata.uid}")
		s.chaos(name, c.selector)
		await(t, "the pods of the master's "+c.what+" are killed", func() (string, bool) {
			now, err := kubectl(t.Context(), "", "get", "pod", before, "-o", "jsonpath={.metadata.uid}")
			return fmt.Sprint(now, err), now != uid
		})
		s.writes("the pods of the master's " + c.what + " were killed")
		must(t, "delete", "podchaos", name)
		s.settled("a killed " + c.what)
	}
	for site, length := range running.verdict() {
		t.Logf("longest time without a success at site %s: %s", site, length)
	}
}

// chaos has Chaos Mesh kill the store's pods that a selector finds.
func (s *store) chaos(name, selector string) {
	s.t.Helper()
	manifest := fmt.Sprintf(`
apiVersion: chaos-mesh.org/v1alpha1
kind: PodChaos
metadata: {name: %s}
spec:
  action: pod-kill
  mode: all
  gracePeriod: 0
  selector:
    namespaces: [%s]
    labelSelectors: {georegister.io/cluster: %s}
    %s
`, name, namespace, s.name, selector)
	if out, err := kubectl(s.t.Context(), manifest, "apply", "-f", "-"); err != nil {
		s.t.Fatal(out, err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := kubectl(ctx, "", "delete", "podchaos", name, "--ignore-not-found"); err != nil {
			s.t.Log(err)
		}
	})
}

// master is the id of a shard's master.
func (s *store) master(shard int) string {
	return s.get(fmt.Sprintf(`{.status.partitions[?(@.number==%d)].master}`, shard))
}

// writes has a client of zone 2 write to shard 0, which waits for as long as it takes, and tells how long that was.
func (s *store) writes(after string) {
	s.t.Helper()
	s.writesTo(0, after)
}

// writesTo is writes to a shard.
func (s *store) writesTo(shard int, after string) {
	s.t.Helper()
	start := time.Now()
	key := keyOf(shard)
	for tries := 1; ; tries++ {
		out, err := s.redis("z2", "z2", "SET", key, after)
		if err == nil && out == "OK" {
			s.t.Logf("after %s: the first write to its shard after %.1f s, at try %d", after,
				time.Since(start).Seconds(), tries)
			return
		}
		if time.Since(start) > patience {
			s.t.Fatalf("after %s no write to its shard: %s, %v", after, out, err)
		}
	}
}

// keyOf is a key of a shard.
func keyOf(shard int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("written-", i); runtime.Shard(key, len(zones)) == shard {
			return key
		}
	}
}

// kill ends the process of a member with SIGKILL, from outside of its pod: in there it is the one that nothing kills.
func kill(t *testing.T, member string) {
	t.Helper()
	all := processesOf(t, "replica", "--config", "/etc/georegister/boot.yaml", "--self", member)
	if err := syscall.Kill(all[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// processesOf are the processes on this machine, in whatever namespace, that have these arguments in a row; there is
// one at least.
func processesOf(t *testing.T, arguments ...string) (all []int) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("\x00" + strings.Join(arguments, "\x00") + "\x00")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(command, want) {
			continue // it may have ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	if len(all) == 0 {
		t.Fatalf("no process of %q", arguments)
	}
	return all
}

// power ends all processes of a node at once, or starts the node again.
func power(t *testing.T, what, node string) {
	t.Helper()
	if out, err := exec.Command("../../hack/cluster/power.sh", what, node).CombinedOutput(); err != nil {
		t.Fatalf("power %s %s: %v: %s", what, node, err, out)
	}
}
