//go:build cluster

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/test/cluster/phases"
)

// quietFor is how long clients work between changes.
const quietFor = 20 * time.Second

// Three sites become five, and three again, while clients work at all of them.
func TestSitesComeAndGo(t *testing.T) {
	s := create(t, "grow")
	s.settled("its creation")
	v := s.visit("z1", "z1", "z2", "z3", "y1", "y2")
	five := append(zonal(), site{"y1", "z1"}, site{"y2", "z2"})
	v.quiet("3 sites", quietFor, zones...)
	v.during("3 to 5",
		append(phases.Stay(zones...), phases.Site{Name: "y1", Joins: true}, phases.Site{Name: "y2", Joins: true}),
		func() {
			s.change("two sites were added", five)
		})
	v.quiet("5 sites", quietFor, "z1", "z2", "z3", "y1", "y2")
	v.during("5 to 3",
		append(phases.Stay(zones...), phases.Site{Name: "y1", Leaves: true}, phases.Site{Name: "y2", Leaves: true}),
		func() {
			s.change("two sites were removed", zonal())
		})
	v.quiet("3 sites again", quietFor, zones...)
	v.verdict(zones...)
	s.only("z1", "z2", "z3")
}

// A site goes and another comes in one edit; then a site's member moves to another node pool.
func TestSitesAreExchangedAndMoved(t *testing.T) {
	s := create(t, "exchange")
	s.settled("its creation")
	v := s.visit("z1", "z1", "z2", "z3", "w3")
	v.quiet("at first", quietFor, zones...)
	exchanged := []site{{"z1", "z1"}, {"z2", "z2"}, {"w3", "z3"}}
	v.during("z3 becomes w3",
		append(phases.Stay("z1", "z2"), phases.Site{Name: "z3", Leaves: true}, phases.Site{Name: "w3", Joins: true}),
		func() {
			s.change("a site was exchanged", exchanged)
		})
	v.quiet("exchanged", quietFor, "z1", "z2", "w3")
	before := s.members()
	moved := []site{{"z1", "z1"}, {"z2", "z2"}, {"w3", "z1"}}
	v.during("w3 moves", phases.Stay("z1", "z2", "w3"), func() {
		s.change("a site was moved", moved)
	})
	v.quiet("moved", quietFor, "z1", "z2", "w3")
	v.verdict("z1", "z2", "w3")
	s.only("z1", "z2", "w3")
	after := s.members()
	if after["w3"] == before["w3"] || after["z1"] != before["z1"] || after["z2"] != before["z2"] {
		t.Errorf("members %v became %v: the member of w3 alone was to be another one", before, after)
	}
	if node := s.get(`{.status.members[?(@.site=="w3")].node}`); node != "n1" {
		t.Errorf("w3 was moved to z1 and is on node %s", node)
	}
}

// A change whose newcomers find no node is taken back by an edit, and has cost nobody anything.
func TestChangeIsTakenBack(t *testing.T) {
	s := create(t, "takeback")
	s.settled("its creation")
	v := s.visit("z1", zones...)
	v.quiet("at first", quietFor, zones...)
	v.during("asked for what can't be, and taken back", phases.Stay(zones...), func() {
		s.apply(append(zonal(), site{"y1", "z9"}, site{"y2", "z2"}))
		await(t, "the status tells that a newcomer finds no node", func() (string, bool) {
			r, err := s.resource()
			if err != nil {
				return err.Error(), false
			}
			c := r.Status.Change
			return changing(r), c != nil && strings.Contains(c.Message, "y1") &&
				!strings.Contains(c.Message, "y2) is not made") &&
				strings.Contains(c.Message, "node(s) didn't match")
		})
		s.change("the sites were edited back", zonal())
	})
	v.verdict(zones...)
	s.only(zones...)
	if epoch := s.get("{.status.view.epoch}"); epoch != "1" {
		t.Errorf("the view's epoch is %s: the change never began", epoch)
	}
	left := must(t, "get", "pvc", "-l", "georegister.io/cluster="+s.name, "-o", "name")
	if len(strings.Fields(left)) != len(zones) {
		t.Errorf("volumes that are left: %s", left)
	}
}

// A majority of the volumes is gone: what the one member left holds is there again, once the user consents, and only
// once.
func TestRecovery(t *testing.T) {
	clients(t)
	s := create(t, "recover")
	s.settled("its creation")
	const keys = 20
	for i := range keys {
		zone := zones[i%len(zones)]
		if out, err := s.redis(zone, zone, "SET", fmt.Sprintf("key-%d", i), fmt.Sprintf("value-%d", i)); err != nil ||
			out != "OK" {
			t.Fatal(out, err)
		}
	}
	// An acknowledged write is at a majority; a read that a site serves is at that site too.
	for i := range keys {
		if out, err := s.redis("z1", "z1", "GET", fmt.Sprintf("key-%d", i)); err != nil ||
			out != fmt.Sprintf("value-%d", i) {
			t.Fatal(out, err)
		}
	}
	before := s.members()
	epoch := s.get("{.status.view.epoch}")
	for _, zone := range []string{"z2", "z3"} {
		must(t, "delete", "pvc", "data-"+s.name+"--"+zone+"--"+before[zone], "--wait=false")
		must(t, "delete", "pod", s.name+"--"+zone+"--"+before[zone]+"-0", "--wait=false")
	}
	await(t, "the loss of the quorum is told", func() (string, bool) {
		lost, message := s.condition("QuorumLost")
		return lost + " " + message, lost == "True"
	})
	_, message := s.condition("QuorumLost")
	t.Logf("QuorumLost says: %s", message)

	consent := fmt.Sprintf("recovery: {trustMember: %s, epoch: %s}", before["z1"], epoch)
	s.apply(zonal(), consent)
	await(t, "the recovery is told", func() (string, bool) {
		told := s.get("{.status.recovered.trustedMember} of {.status.recovered.epoch}")
		return told, told == before["z1"]+" of "+epoch
	})
	s.settled("a recovery")
	s.only("z1", "z2", "z3")
	after := s.members()
	if after["z1"] != before["z1"] || after["z2"] == before["z2"] || after["z3"] == before["z3"] {
		t.Errorf("members %v became %v: the one of z1 alone was to be kept", before, after)
	}
	s.holds(keys)

	// Applied again, to a resource that has changed meanwhile, it does nothing.
	recovered := s.get("{.status.view.epoch} {.status.recovered.time}")
	s.apply(zonal())
	s.settled("the consent was taken back")
	s.apply(zonal(), consent)
	s.settled("the consent was applied again")
	if now := s.get("{.status.view.epoch} {.status.recovered.time}"); now != recovered {
		t.Errorf("the old consent was carried out again: epoch and time of the recovery were %s, and are %s",
			recovered, now)
	}
	s.holds(keys)
}

// holds reads back at every site what TestRecovery wrote.
func (s *store) holds(keys int) {
	s.t.Helper()
	for i := range keys {
		zone := zones[i%len(zones)]
		out, err := s.redis(zone, zone, "GET", fmt.Sprintf("key-%d", i))
		if err != nil || out != fmt.Sprintf("value-%d", i) {
			s.t.Errorf("key-%d at site %s: %q, %v", i, zone, out, err)
		}
	}
}

// change applies other sites and waits for the end of the change. It tells the steps that the status shows.
func (s *store) change(what string, sites []site) {
	s.t.Helper()
	start := time.Now()
	s.apply(sites)
	var told string
	await(s.t, what+": all is as it is wanted", func() (string, bool) {
		r, err := s.resource()
		if err != nil {
			return err.Error(), false
		}
		if now := changing(r); now != told {
			told = now
			s.t.Logf("%5.1f s: %s", time.Since(start).Seconds(), now)
		}
		return settled(r)
	})
}

// only checks that what is left of a store is the members of these sites, and the pods of these.
func (s *store) only(sites ...string) {
	s.t.Helper()
	var want []string
	for _, id := range s.members() {
		want = append(want, id)
	}
	slices.Sort(want)
	if len(want) != len(sites) {
		s.t.Errorf("members %v, want one at each of %v", s.members(), sites)
	}
	await(s.t, "no pod is left but those of the members", func() (string, bool) {
		ids := strings.Fields(must(s.t, "get", "pods", "-l", "georegister.io/cluster="+s.name,
			"-o", `jsonpath={range .items[*]}{.metadata.labels.georegister\.io/member} {end}`))
		slices.Sort(ids)
		return fmt.Sprint(ids), slices.Equal(ids, want)
	})
}
