package decide

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

var (
	epoch    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings = world.Settings{DefaultImage: "georegister:1", ClusterDomain: "cluster.local", Namespace: "operator",
		LostAfter: 30 * time.Second}
)

func testCluster(sites int) *v1alpha1.GeoRegisterCluster {
	c := &v1alpha1.GeoRegisterCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "demo", Namespace: "default", UID: "u", Generation: 7,
	},
		Spec: v1alpha1.GeoRegisterClusterSpec{Protocol: "Gryff"}}
	for i := range sites {
		c.Spec.Sites = append(c.Spec.Sites, v1alpha1.Site{Name: string(rune('a' + i))})
	}
	return c
}

// healthy is a cluster at rest: a member in each zone, and all of them vote.
func healthy(sites int) *world.Snapshot {
	c := testCluster(sites)
	v := view.View{Cluster: "demo.1", Epoch: 1, Members: firstMembers(c), Issued: view.MemberID(sites)}
	for i := range v.Members {
		v.Members[i].Disk = fmt.Sprintf("disk-%d", i+1)
	}
	s := &world.Snapshot{Cluster: c, Now: epoch.Add(time.Hour), ClusterID: "demo.1",
		Settings: settings, ZonesKnown: true, Zones: map[string]world.Zone{},
		Record: world.Record{Exists: true, View: v, UID: "record", ResourceVersion: "1"}}
	hash := build.SpecHash(c)
	for _, m := range v.Members {
		s.Zones["node-"+m.Site] = world.Zone{
			Name: "zone-" + m.Site, Labels: map[string]string{corev1.LabelTopologyZone: "zone-" + m.Site},
		}
		r := &world.Report{ClusterID: "demo.1", Role: world.Voter, View: v, Digest: v.Digest(),
			Disk: m.Disk, Incarnation: 1, Version: "1", Quorum: true, Shards: 2, Voting: 2}
		for _, o := range v.Members {
			if o.ID != m.ID {
				r.Peers = append(r.Peers, world.Peer{ID: o.ID, Reachable: true})
			}
		}
		s.Members = append(s.Members, world.Member{ID: m.ID, Site: m.Site, StatefulSet: statefulSetOf(m, hash),
			Pod: podOf(m, hash, true, metav1.NewTime(epoch)), Volume: volumeOf(m), Report: r})
	}
	return s
}

func statefulSetOf(m view.Member, hash string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: build.StatefulSetName("demo", m), UID: "set", ResourceVersion: "1"},
	}
	set.Spec.Template.Annotations = map[string]string{build.SpecHashAnnotation: hash}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: build.Container, Image: "georegister:0"}}
	return set
}

func podOf(m view.Member, hash string, runs bool, since metav1.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: build.PodName("demo", m), UID: "pod", ResourceVersion: "1",
		CreationTimestamp: metav1.NewTime(epoch), Annotations: map[string]string{build.SpecHashAnnotation: hash}}}
	pod.Status.Phase = corev1.PodPending
	ready := corev1.ConditionFalse
	if runs {
		pod.Status.Phase, ready = corev1.PodRunning, corev1.ConditionTrue
		pod.Spec.NodeName = "node-" + m.Site
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: since}}
	return pod
}

func volumeOf(m view.Member) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: build.VolumeName("demo", m), UID: "volume", ResourceVersion: "1"},
	}
}

// silent makes a member's pod a running one that says nothing, and that the others can't reach.
func silent(s *world.Snapshot, id view.MemberID) {
	s.Member(id).Report, s.Member(id).Silence, s.Member(id).SilentFor = nil, "connection refused", time.Hour
	s.Member(id).Pod.Status.Conditions[0].Status = corev1.ConditionFalse
	for _, m := range s.Members {
		if m.Report == nil {
			continue
		}
		for i := range m.Report.Peers {
			if m.Report.Peers[i].ID == id {
				m.Report.Peers[i].Reachable = false
			}
		}
	}
}

// gone takes a member's volume, and its pod waits for it.
func gone(s *world.Snapshot, id view.MemberID) {
	silent(s, id)
	s.Member(id).Volume = nil
	s.Member(id).Pod.Status.Phase = corev1.PodPending
}

// empty is a cluster whose members wait for their first view.
func empty(s *world.Snapshot) {
	s.Record = world.Record{}
	for i, m := range s.Members {
		s.Members[i].Report = &world.Report{Disk: fmt.Sprintf("disk-%d", m.ID), Shards: s.Cluster.Spec.ShardCount()}
	}
}

// hold gives a member a view.
func hold(s *world.Snapshot, id view.MemberID, v view.View) {
	r := s.Member(id).Report
	r.View, r.Digest = v, v.Digest()
}

// newcomer adds a member that waits on an empty disk, as the next change of the view expects it.
func newcomer(s *world.Snapshot, id view.MemberID, site string) {
	m := view.Member{ID: id, Site: site}
	pod := podOf(m, build.SpecHash(s.Cluster), true, metav1.NewTime(epoch))
	pod.Status.Conditions[0].Status = corev1.ConditionFalse // it does not vote yet
	s.Members = append(s.Members,
		world.Member{ID: id, Site: site, StatefulSet: statefulSetOf(m, build.SpecHash(s.Cluster)), Pod: pod,
			Volume: volumeOf(m),
			Report: &world.Report{
				ClusterID: "demo.1", Role: world.Waiting, Disk: fmt.Sprintf("disk-%d", id), Version: "1",
				Shards: v1alpha1.DefaultShards,
			}})
}

// joint is the view in which a member of site c joins under the next id, and one leaves; 0 leaves nobody.
func joint(v view.View, leaves view.MemberID) view.View {
	m := view.Member{ID: v.LastIssued() + 1, Site: "c"}
	newcomers := []membership.Founder{
		{
			ID: m.ID, Site: m.Site, Address: build.Address(testCluster(3), settings, m),
			Disk: fmt.Sprintf("disk-%d", m.ID),
		},
	}
	var leaving []view.MemberID
	if leaves != 0 {
		leaving = append(leaving, leaves)
	}
	next, err := membership.Change(v, newcomers, leaving)
	if err != nil {
		panic(err) // of a test's own
	}
	return next
}

// after is the view after that change.
func after(v view.View, leaves view.MemberID) view.View {
	next, err := membership.Finish(joint(v, leaves))
	if err != nil {
		panic(err) // of a test's own
	}
	return next
}

// told has every member that answers hold the recorded view and vote in it.
func told(s *world.Snapshot) {
	for i := range s.Members {
		if m := &s.Members[i]; m.Report != nil && s.Record.View.Index(m.ID) >= 0 {
			hold(s, m.ID, s.Record.View)
			m.Report.Role, m.Report.Quorum, m.Report.Incarnation = world.Voter, true, 1
		}
	}
}

// fetched has members be done with their part in a change.
func fetched(s *world.Snapshot, members ...view.MemberID) {
	for _, id := range members {
		s.Member(id).Report.Change = world.Change{Settled: true, Fetched: s.Record.View.Transfers(id), Bytes: 100}
	}
}

// selectorOf is the node selector of a StatefulSet.
func selectorOf(object client.Object) map[string]string {
	return object.(*appsv1.StatefulSet).Spec.Template.Spec.NodeSelector
}

func owner(object client.Object) (view.MemberID, string, bool) {
	id, err := strconv.Atoi(object.GetLabels()[build.MemberLabel])
	return view.MemberID(id), object.GetLabels()[build.SiteLabel], err == nil
}

func summary(p Plan) (all []string) {
	for _, c := range p.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

// firstMembers are the members that a cluster of which nothing is there is founded with.
func firstMembers(c *v1alpha1.GeoRegisterCluster) []view.Member {
	return facts.Of(world.Snapshot{Cluster: c, Settings: settings}).First
}
