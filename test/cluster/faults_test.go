//go:build cluster

package cluster

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// A member whose volume is gone is replaced by one with a new id, under load.
func TestVolumeLost(t *testing.T) {
	s := create(t, "volume")
	s.settled("its creation")
	before := s.members()
	running := s.load("z1", 110*time.Second)
	pod := s.pod("z3")
	must(t, "delete", "pvc", "data-"+s.name+"--z3--"+before["z3"], "--wait=false")
	must(t, "delete", "pod", pod, "--wait=false")
	await(t, "the member is replaced", func() (string, bool) {
		epoch := s.get("{.status.view.epoch}")
		return "epoch " + epoch, epoch == "3" // 2 was joint
	})
	s.settled("a lost volume")
	after := s.members()
	if after["z3"] == before["z3"] || after["z1"] != before["z1"] || after["z2"] != before["z2"] {
		t.Errorf("members %v became %v", before, after)
	}
	s.unaffected(running.verdict(), "z1", "z2")
}

// A node that is drained gives its member up only while the others are a quorum; the budget holds a second drain.
func TestDrain(t *testing.T) {
	s := create(t, "drain")
	s.settled("its creation")
	running := s.load("z1", 60*time.Second)
	must(t, "drain", "n3", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout", "90s",
		"--pod-selector", "georegister.io/cluster="+s.name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, node := range []string{"n2", "n3"} {
			if _, err := kubectl(ctx, "", "uncordon", node); err != nil {
				t.Log(err)
			}
		}
	})
	if out, err := kubectl(t.Context(), "", "drain", "n2", "--ignore-daemonsets", "--delete-emptydir-data",
		"--force", "--timeout", "10s",
		"--pod-selector", "georegister.io/cluster="+s.name); err == nil {
		t.Errorf("a second node was drained although one member was down: %s", out)
	}
	must(t, "uncordon", "n2")
	must(t, "uncordon", "n3")
	s.settled("a drain")
	s.unaffected(running.verdict(), "z1", "z2")
}

// A zone that is cut off costs nobody else anything, and comes back by itself.
func TestZoneCut(t *testing.T) {
	s := create(t, "cut")
	s.settled("its creation")
	running := s.load("z1", 90*time.Second)
	zone(t, "cut", "z3")
	healed := false
	t.Cleanup(func() {
		if !healed {
			zone(t, "heal", "z3")
		}
	})
	await(t, "the cut shows in the status", func() (string, bool) {
		degraded, message := s.condition("Degraded")
		return degraded + " " + message, degraded == "True"
	})
	if available, message := s.condition("Available"); available != "True" {
		t.Errorf("Available is %s: %s", available, message)
	}
	await(t, "the node counts as lost", func() (string, bool) {
		ready := must(t, "get", "node", "n3", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return ready, ready == "Unknown"
	})
	zone(t, "heal", "z3")
	healed = true
	s.settled("a healed zone")
	s.unaffected(running.verdict(), "z1", "z2")
	if epoch := s.get("{.status.view.epoch}"); epoch != "1" {
		t.Errorf("the view's epoch is %s: a member that is out of reach is not lost", epoch)
	}
}

// unaffected reports what the clients of sites felt whose members were not hurt. A gap of the length of the load
// would mean that they were not served at all.
func (s *store) unaffected(gaps map[string]time.Duration, sites ...string) {
	s.t.Helper()
	for _, site := range sites {
		length, known := gaps[site]
		if !known {
			s.t.Errorf("no success at the unaffected site %s", site)
		}
		s.t.Logf("longest time without a success at the unaffected site %s: %s", site, length)
	}
}

// zone cuts a zone off, or heals it.
func zone(t *testing.T, what, zone string) {
	t.Helper()
	if out, err := exec.Command("../../hack/cluster/zone.sh", what, zone).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", what, zone, err, out)
	}
}
