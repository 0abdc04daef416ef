package decide

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/world"
)

// The first members have ids from 1 in the order of the sites, and addresses that follow from their names.
func TestFirstMembers(t *testing.T) {
	two, c := int32(2), testCluster(2)
	c.Spec.Sites[0].Members = &two
	var got []string
	for _, m := range firstMembers(c) {
		got = append(got, fmt.Sprintf("%d %s %s %s", m.ID, m.Site, m.Address, m.Disk))
	}
	want := []string{
		"1 a demo--a--1-0.demo--peers.default.svc.cluster.local:7000 ",
		"2 a demo--a--2-0.demo--peers.default.svc.cluster.local:7000 ",
		"3 b demo--b--3-0.demo--peers.default.svc.cluster.local:7000 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Sites may be edited before the cluster is founded, such as those whose members no node takes.
func TestSitesAreEditedBeforeTheFirstView(t *testing.T) {
	for _, c := range []situationCase{
		{"a site is another one", func(s *world.Snapshot) {
			empty(s)
			s.Cluster.Spec.Sites[1].Name = "x"
		}, "discard 2, 2 objects",
			"ViewKnown=False NotFounded: The cluster has no view yet"},
		{"and its member is made", func(s *world.Snapshot) {
			empty(s)
			s.Cluster.Spec.Sites[1].Name = "x"
			s.Members = append(s.Members[:1], s.Members[2:]...)
		}, "",
			"Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its disk " +
				"holds; missing: " +
				"member 2 (site x) is not made yet"},
		{"and waits", func(s *world.Snapshot) {
			empty(s)
			s.Cluster.Spec.Sites[1].Name = "x"
			s.Members = append(s.Members[:1], s.Members[2:]...)
			newcomer(s, 4, "x")
		}, "found 3", "ViewKnown=False NotFounded: The cluster has no view yet"},
		{"two more", func(s *world.Snapshot) {
			empty(s)
			grown(s)
			newcomer(s, 4, "d")
			newcomer(s, 5, "e")
		}, "found 5",
			"ViewKnown=False NotFounded: The cluster has no view yet"},
		{"two less", func(s *world.Snapshot) {
			empty(s)
			newcomer(s, 4, "d")
			newcomer(s, 5, "e")
		}, "discard 4, 2 objects",
			"ViewKnown=False NotFounded: The cluster has no view yet"},
		{"another node pool", func(s *world.Snapshot) {
			empty(s)
			placed(s, 2, "y")
			pool(s, 1, "x")
		}, "discard 2, 2 objects",
			"ViewKnown=False NotFounded: The cluster has no view yet"},
		{"a volume that was never bound holds nothing", func(s *world.Snapshot) {
			empty(s)
			silent(s, 2)
			s.Member(2).Volume.Status.Phase = corev1.ClaimPending
			s.Cluster.Spec.Sites[1].Name = "x"
		}, "discard 2, 2 objects", "ViewKnown=False NotFounded: The cluster has no view yet"},
		{"somebody who stays says nothing, and may hold the cluster's view", func(s *world.Snapshot) {
			empty(s)
			silent(s, 1)
			s.Cluster.Spec.Sites[1].Name = "x"
		}, "",
			"Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its disk " +
				"holds; missing: " +
				"member 1 (site a) does not answer: connection refused; member 4 (site x) is not made yet"},
		{"a volume that says nothing may hold the cluster's", func(s *world.Snapshot) {
			empty(s)
			silent(s, 2)
			s.Cluster.Spec.Sites[1].Name = "x"
		}, "",
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing; it is rebuilt " +
				"from what the members hold, " +
				"and none tells a view: member 1 (site a) has an empty disk and waits for its view; member 2 (site " +
				"b) does not answer: connection " +
				"refused; member 3 (site c) has an empty disk and waits for its view"},
	} {
		c.run(t)
	}
}
