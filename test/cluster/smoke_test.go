//go:build cluster

package cluster

import (
	"strings"
	"testing"
	"time"
)

// From `kubectl apply` to a store that clients of every zone use, a rolling update and a killed member under load, and
// two sites that come and go.
func TestSmoke(t *testing.T) {
	clients(t)
	start := time.Now()
	s := create(t, "smoke")
	await(t, "a first write is acknowledged", func() (string, bool) {
		out, err := s.redis("z1", "z1", "SET", "greeting", "hello")
		if err != nil {
			return err.Error(), false
		}
		return out, out == "OK"
	})
	t.Logf("apply to first acknowledged write: %.1f s", time.Since(start).Seconds())
	s.settled("its creation")
	for _, zone := range zones {
		for _, site := range zones {
			if out, err := s.redis(zone, site, "GET", "greeting"); err != nil || out != "hello" {
				t.Errorf("from zone %s at site %s: %q, %v", zone, site, out, err)
			}
		}
		node := s.get(`{.status.members[?(@.site=="` + zone + `")].node}`)
		if node != strings.Replace(zone, "z", "n", 1) {
			t.Errorf("site %s runs on node %s", zone, node)
		}
	}
	if status, message := s.condition("ToleratesZoneLoss"); status != "True" {
		t.Errorf("ToleratesZoneLoss is %s: %s", status, message)
	}

	running := s.load("z1", 50*time.Second)
	before := s.starts()
	must(t, "patch", "grc", s.name, "--type", "merge", "-p",
		`{"spec": {"podTemplate": {"annotations": {"smoke": "updated"}}}}`)
	s.settled("a rolling update")
	for i, after := range s.starts() {
		if after == before[i] {
			t.Errorf("the rolling update left pod %s alone", after)
		}
	}
	victim := s.pod("z3")
	uid := must(t, "get", "pod", victim, "-o", "jsonpath={.metadata.uid}")
	must(t, "delete", "pod", victim, "--grace-period=0", "--force")
	await(t, "the killed member's pod is another", func() (string, bool) {
		now, _ := kubectl(t.Context(), "", "get", "pod", victim, "-o", "jsonpath={.metadata.uid}")
		return now, now != "" && now != uid
	})
	s.settled("a killed member")
	for site, length := range running.verdict() {
		t.Logf("longest time without a success at site %s: %s", site, length)
	}
	if epoch := s.get("{.status.view.epoch}"); epoch != "1" {
		t.Errorf("the view's epoch is %s: nobody was to be replaced", epoch)
	}

	s.change("two sites were added", append(zonal(), site{"y1", "z1"}, site{"y2", "z2"}))
	for _, site := range []string{"y1", "y2"} {
		if out, err := s.redis("z3", site, "GET", "greeting"); err != nil || out != "hello" {
			t.Errorf("at the new site %s: %q, %v", site, out, err)
		}
	}
	if out, err := s.redis("z2", "y2", "SET", "greeting", "hello again"); err != nil || out != "OK" {
		t.Errorf("a write at a new site: %q, %v", out, err)
	}
	s.change("two sites were removed", zonal())
	s.only(zones...)
	for _, site := range zones {
		if out, err := s.redis("z1", site, "GET", "greeting"); err != nil || out != "hello again" {
			t.Errorf("at site %s, what a site wrote that is gone: %q, %v", site, out, err)
		}
	}
}

// starts identifies the pods of the members, by site.
func (s *store) starts() []string {
	var uids []string
	for _, zone := range zones {
		uids = append(uids, must(s.t, "get", "pod", s.pod(zone), "-o", "jsonpath={.metadata.name} {.metadata.uid}"))
	}
	return uids
}
