//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
)

// While the apiserver answers nobody, shards whose master, backup and witness live go on; the others refuse writes and
// say why, and are there again, with all that was acknowledged, once it is back.
func TestMastersWithoutApiserver(t *testing.T) {
	s := createAs(t, "headless", "CURP")
	s.settled("its creation")
	address := must(t, "get", "pod", s.pod("z2"), "-o", "jsonpath={.status.podIP}")
	// Asked from the node, since kubectl can't be used meanwhile.
	set := func(shard int, value string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "nsenter", "--net=/run/netns/georegister-n2", "redis-cli",
			"-e", "-h", address,
			"SET", keyOf(shard), value).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for shard := range zones {
		if out, err := set(shard, "at rest"); err != nil || out != "OK" {
			t.Fatalf("shard %d at rest: %s, %v", shard, out, err)
		}
	}
	hit := s.kept("z1") // where each shard is kept may have changed while the members started one after the other
	running := s.load("z3", 160*time.Second)

	found := processesOf(t, "--advertise-address", "10.200.0.10") // hack/cluster's
	if len(found) != 1 {
		t.Fatalf("apiservers of the cluster: %v, want one", found)
	}
	apiserver := found[0]
	freeze(t, apiserver, syscall.SIGSTOP)
	frozen := true
	t.Cleanup(func() {
		if frozen {
			freeze(t, apiserver, syscall.SIGCONT)
		}
	})
	// Longer than the operator keeps its lease.
	for round, begun := 0, time.Now(); time.Since(begun) < 20*time.Second; round++ {
		for shard := range zones {
			if out, err := set(shard, fmt.Sprint("without the apiserver ", round)); err != nil || out != "OK" {
				t.Fatalf("shard %d with its master, and without the apiserver: %s, %v", shard, out, err)
			}
		}
	}

	power(t, "off", "n1")
	off := true
	t.Cleanup(func() {
		if off {
			power(t, "on", "n1")
		}
	})
	for shard := range zones {
		out, err := set(shard, "without the apiserver and zone 1")
		switch {
		case !hit[shard] && (err != nil || out != "OK"):
			t.Errorf("shard %d has lost nobody: %s, %v", shard, out, err)
		case !hit[shard]:
		case err == nil:
			t.Errorf("shard %d can't complete an update, and answered %s", shard, out)
		case !strings.Contains(out, "did not answer in time"):
			t.Errorf("shard %d does not say why it refuses an update: %s", shard, out)
		default:
			t.Logf("shard %d: %s", shard, out)
		}
	}

	freeze(t, apiserver, syscall.SIGCONT)
	frozen = false
	start := time.Now()
	for shard := range zones {
		for hit[shard] {
			out, err := set(shard, "after the apiserver's return")
			if err == nil && out == "OK" {
				t.Logf("the first write to shard %d: %.1f s after the apiserver's return, with zone 1 away", shard,
					time.Since(start).Seconds())
				break
			}
			if time.Since(start) > patience {
				t.Fatalf("no write to shard %d after the apiserver's return: %s, %v", shard, out, err)
			}
		}
	}
	power(t, "on", "n1")
	off = false
	s.settled("zone 1 is back")
	for site, length := range running.verdict() {
		t.Logf("longest time without a success at site %s: %s", site, length)
	}
}

// kept says which shards have their master, a backup or a witness with the member of a site.
func (s *store) kept(site string) map[int]bool {
	s.t.Helper()
	c, err := s.resource()
	if err != nil {
		s.t.Fatal(err)
	}
	i := slices.IndexFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool { return m.Site == site })
	if i < 0 || len(c.Status.Partitions) != len(zones) {
		s.t.Fatalf("no member is at %s, or not every shard is told: %+v", site, c.Status)
	}
	member := int32(c.Status.Members[i].ID)
	kept := map[int]bool{}
	for _, p := range c.Status.Partitions {
		kept[int(p.Number)] = int32(p.Master) == member || slices.Contains(p.Backups, member) ||
			slices.Contains(p.Witnesses, member+1)
	}
	s.t.Logf("shards that are kept at %s: %v", site, kept)
	return kept
}

// freeze stops a process, or has it go on.
func freeze(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}
