package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// objectsOf are the volume and the StatefulSet of a member.
func objectsOf(m view.Member) (*corev1.PersistentVolumeClaim, *appsv1.StatefulSet) {
	objects := build.Member(input(), m)
	return objects[0].(*corev1.PersistentVolumeClaim), objects[1].(*appsv1.StatefulSet)
}

func TestMembersAreSeenByWhateverIsLeft(t *testing.T) {
	all := founded().Members
	_, first := objectsOf(all[0])
	later := view.Member{ID: 4, Site: "c"}
	kept, _ := objectsOf(later)
	second := pod(all[1])
	delete(second.Labels, build.SiteLabel) // whoever is in the view has its site from there
	foreign := pod(all[0])
	foreign.Name, foreign.Labels[build.ClusterLabel] = "second-a-1-0", "second"
	r := operator(t, &diary{}, first, second, kept, foreign)
	l := r.observer.look(t.Context(), shop())
	got := l.gather(membersOf(shop(), founded()))
	if l.err != nil {
		t.Fatal(l.err)
	}
	want := []string{"1 a StatefulSet", "2 b Pod", "3 c", "4 c Volume"}
	for i, m := range got {
		line := []string{build.MemberLabels("first", view.Member{ID: m.ID})[build.MemberLabel], m.Site}
		if m.StatefulSet != nil {
			line = append(line, "StatefulSet")
		}
		if m.Pod != nil {
			line = append(line, "Pod")
		}
		if m.Volume != nil {
			line = append(line, "Volume")
		}
		if i >= len(want) || strings.Join(line, " ") != want[i] {
			t.Errorf("saw %q, want %q", line, want)
		}
	}
	if len(got) != len(want) {
		t.Errorf("saw %d members, want %d", len(got), len(want))
	}
}

func TestObjectsThatAreNobodys(t *testing.T) {
	var objects []client.Object
	for i, id := range []string{"", "zzz", "0", "-1", "65536", "4294967297", "99999999999999999999", "1.0", "0x1"} {
		volume, set := objectsOf(view.Member{ID: 1, Site: "a"})
		stranger := pod(view.Member{ID: 1, Site: "a"})
		for _, o := range []client.Object{volume, set, stranger} {
			o.SetName(o.GetName() + strings.Repeat("x", i))
			o.GetLabels()[build.MemberLabel] = id
			objects = append(objects, o)
		}
	}
	debugged := pod(view.Member{ID: 2, Site: "b"}) // a copy, labels and all
	debugged.Name = "first--b--2-0-debug"
	r := operator(t, &diary{}, append(objects, debugged)...)
	l := r.observer.look(t.Context(), shop())
	got := l.gather(membersOf(shop(), founded()))
	if l.err != nil || len(got) != 3 {
		t.Fatalf("saw %d members, %v; want those of the view", len(got), l.err)
	}
	for _, m := range got {
		if m.Pod != nil || m.StatefulSet != nil || m.Volume != nil {
			t.Errorf("member %d has what is nobody's: %+v", m.ID, m)
		}
	}
}

func TestClusterIDPrecedence(t *testing.T) {
	record := build.Record(input())
	damaged := record.DeepCopy()
	damaged.Data[build.DigestKey] = "?"
	bare := damaged.DeepCopy()
	bare.Annotations = nil
	volume, _ := objectsOf(founded().Members[1])
	volume.Annotations[build.ClusterIDAnnotation] = "first.volume"
	nameless := volume.DeepCopy()
	nameless.Annotations = nil
	boot := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: build.BootName("first"),
		Annotations: map[string]string{build.ClusterIDAnnotation: "first.boot"},
	}}
	seen := func(volume *corev1.PersistentVolumeClaim) []world.Member {
		return []world.Member{{ID: 1}, {ID: 2, Volume: volume}}
	}
	for _, tt := range []struct {
		name   string
		record *corev1.ConfigMap
		seen   []world.Member
		boot   bool
		want   string
	}{
		{"the record", record, seen(volume), true, "first.x"},
		{"a damaged record that is annotated", damaged, seen(volume), true, "first.x"},
		{"a damaged record", bare, seen(volume), true, "first.volume"},
		{"volumes", nil, seen(volume), true, "first.volume"},
		{"what members were started with", nil, seen(nameless), true, "first.boot"},
		{"nothing", nil, nil, false, "first.0123456789ab"},
	} {
		there := boot
		if !tt.boot {
			there = nil
		}
		if got, differ := clusterID(shop(), tt.record, tt.seen, there); got != tt.want || differ != nil {
			t.Errorf("%s: got %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestRecordIsRead(t *testing.T) {
	record := build.Record(input())
	record.UID, record.ResourceVersion = "r", "7"
	changed := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := record.DeepCopy()
		change(c)
		return c
	}
	for name, tt := range map[string]struct {
		record                  *corev1.ConfigMap
		exists, damaged, astray bool
	}{
		"missing": {nil, false, false, false},
		"good":    {record, true, false, false},
		"edited": {
			changed(func(c *corev1.ConfigMap) { c.Data[build.ViewKey] += "# by hand\nepoch: 9\n" }), true, true, false,
		},
		"emptied": {changed(func(c *corev1.ConfigMap) { c.Data = nil }), true, true, false},
		"without label": {
			changed(func(c *corev1.ConfigMap) { delete(c.Labels, build.ManagedByLabel) }), true, false, true,
		},
		"owned": {
			changed(func(c *corev1.ConfigMap) { c.OwnerReferences = []metav1.OwnerReference{{UID: "o"}} }),
			true, false, true,
		},
	} {
		got := recordOf(tt.record, shop())
		known := tt.exists && !tt.damaged
		if got.Exists != tt.exists || (got.Problem != "") != tt.damaged || got.Astray != tt.astray ||
			(got.View.Epoch == 1) != known {
			t.Errorf("%s: got %+v", name, got)
		}
		if tt.exists && (got.UID != "r" || got.ResourceVersion != "7") {
			t.Errorf("%s: it is %s at %s", name, got.UID, got.ResourceVersion)
		}
	}
}

func TestSilencesSayWhy(t *testing.T) {
	all := founded().Members
	homeless := pod(all[1])
	homeless.Status.PodIP = ""
	v6 := pod(all[2])
	v6.Status.PodIP = "fd00::1"
	asked := members.Target{ID: 3, ClusterID: "first.x", Address: "[fd00::1]:7002"}
	d := &diary{answer: func(target members.Target) members.Answer {
		if target != asked {
			t.Errorf("asked %+v, want %+v", target, asked)
		}
		return members.Answer{Err: errors.New("connection refused")}
	}}
	s, err := operator(t, d, build.Record(input()), homeless, v6).observer.observe(t.Context(), shop())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"has no pod", "its pod has no address yet", "connection refused"} {
		if got := s.Members[i]; got.Silence != want || got.Report != nil {
			t.Errorf("member %d: %s, want %s", got.ID, got.Silence, want)
		}
	}
	if s.ClusterID != "first.x" || s.Record.View.Epoch != 1 || s.ZonesKnown {
		t.Errorf("observed %+v", s)
	}
}

func TestPlaces(t *testing.T) {
	node := func(name, zone string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelTopologyZone: zone, corev1.LabelHostname: "host-of-" + name, // as some clouds have it
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	all := founded().Members
	var objects []client.Object
	for i, on := range []string{"host-of-node-a", "host-of-node-gone"} {
		claim, _ := objectsOf(all[i])
		claim.Spec.VolumeName = "pv-" + on
		objects = append(objects, claim, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + on},
			Spec:       corev1.PersistentVolumeSpec{NodeAffinity: affinity(only(corev1.LabelHostname, on))},
		})
	}
	running := pod(all[2])
	running.Spec.NodeName = "node-c"
	objects = append(objects, running, node("node-a", "za", corev1.ConditionTrue),
		node("node-c", "zc", corev1.ConditionUnknown))
	r := operator(t, &diary{}, append(objects, build.Record(input()))...)
	r.observer.places = true
	s, err := r.observer.observe(t.Context(), shop())
	if err != nil {
		t.Fatal(err)
	}
	if s.Members[0].VolumeNode != "host-of-node-a" || s.Members[0].NodeGone ||
		s.Members[1].VolumeNode != "host-of-node-gone" || !s.Members[1].NodeGone {
		t.Errorf("volumes are placed at %+v", s.Members)
	}
	if len(s.Zones) != 1 || s.Zones["node-c"].Name != "zc" ||
		s.Zones["node-c"].Labels[corev1.LabelTopologyZone] != "zc" || !s.ZonesKnown {
		t.Errorf("zones are %v", s.Zones)
	}
}

func only(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
	}}
}

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func TestTiedTo(t *testing.T) {
	byField := corev1.NodeSelectorTerm{MatchFields: only("metadata.name", "n").MatchExpressions}
	not := only(corev1.LabelHostname, "n")
	not.MatchExpressions[0].Operator = corev1.NodeSelectorOpNotIn
	both := only(corev1.LabelTopologyZone, "z")
	both.MatchExpressions = slices.Concat(both.MatchExpressions, only(corev1.LabelHostname, "n").MatchExpressions)
	for name, tt := range map[string]struct {
		affinity   *corev1.VolumeNodeAffinity
		key, value string
	}{
		"anywhere":            {nil, "", ""},
		"nothing is required": {&corev1.VolumeNodeAffinity{}, "", ""},
		"no terms":            {affinity(), "", ""},
		"a host":              {affinity(only(corev1.LabelHostname, "n")), corev1.LabelHostname, "n"},
		"a node by its name":  {affinity(byField), metav1.ObjectNameField, "n"},
		"a host in a zone":    {affinity(both), corev1.LabelHostname, "n"},
		"a zone":              {affinity(only(corev1.LabelTopologyZone, "z")), "", ""},
		"one of two hosts":    {affinity(only(corev1.LabelHostname, "n", "m")), "", ""},
		"either of two terms": {
			affinity(only(corev1.LabelHostname, "n"), only(corev1.LabelHostname, "m")), "", "",
		},
		"any but a host":           {affinity(not), "", ""},
		"a host, by another label": {affinity(only("example.com/host", "n")), "", ""},
	} {
		key, value := tiedTo(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: tt.affinity}})
		if key != tt.key || value != tt.value {
			t.Errorf("%s: tied to %s %q, want %s %q", name, key, value, tt.key, tt.value)
		}
	}
}

// A site that is not asked for any more is known by its Service.
func TestSitesThatHaveAService(t *testing.T) {
	in := input()
	another := build.SiteService(in, "elsewhere")
	another.SetNamespace("another")
	r := operator(t, &diary{}, build.SiteService(in, "a"), build.SiteService(in, "gone"), another)
	s, err := r.observer.observe(t.Context(), shop())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Sites); got != "[a gone]" {
		t.Errorf("sites %s", got)
	}
}

// What members were started with is known before there is a view; what a former resource of the name left says nothing.
func TestShardsOfTheBootConfigurationAreSeen(t *testing.T) {
	in := input()
	in.Cluster.Spec.Protocol, in.View, in.Shards = "CURP", view.View{}, 2
	ours := build.Objects(in)[1]
	in.Cluster.UID = "former"
	theirs := build.Objects(in)[1]
	for _, tt := range []struct {
		boot client.Object
		want int
	}{{ours, 2}, {theirs, 0}, {nil, 0}} {
		objects := []client.Object{}
		if tt.boot != nil {
			objects = append(objects, tt.boot)
		}
		s, err := operator(t, &diary{}, objects...).observer.observe(t.Context(), shop())
		if err != nil || s.Shards != tt.want {
			t.Errorf("saw %d shards, %v; want %d", s.Shards, err, tt.want)
		}
	}
}

// Where volumes of several clusters are all that is left, nothing is guessed; what members of this resource were
// started with tells.
func TestVolumesOfSeveralClusters(t *testing.T) {
	one, _ := objectsOf(founded().Members[0])
	two, _ := objectsOf(founded().Members[1])
	one.Annotations[build.ClusterIDAnnotation], two.Annotations[build.ClusterIDAnnotation] = "first.1", "first.2"
	seen := []world.Member{{ID: 1, Volume: one}, {ID: 2, Volume: two}}
	boot := build.Objects(input())[1].(*corev1.ConfigMap)
	boot.Annotations = map[string]string{build.ClusterIDAnnotation: "first.2"}
	former := boot.DeepCopy()
	former.OwnerReferences[0].UID = "former"
	for name, tt := range map[string]struct {
		record, boot *corev1.ConfigMap
		want         string
		differ       int
	}{
		"nothing else":                    {want: "first.1", differ: 2},
		"the record":                      {record: build.Record(input()), want: "first.x"},
		"what members were started with":  {boot: boot, want: "first.2"},
		"what those of a former one were": {boot: former, want: "first.1", differ: 2},
		"what members were started with is neither": {
			boot: build.Objects(input())[1].(*corev1.ConfigMap), want: "first.1", differ: 2,
		},
	} {
		if got, differ := clusterID(shop(), tt.record, seen, tt.boot); got != tt.want || len(differ) != tt.differ {
			t.Errorf("%s: got %q, %q", name, got, differ)
		}
	}
}

// A volume that another cluster stored on is no member's, whoever it was given to.
func TestVolumesOfOtherClustersAreNoMembers(t *testing.T) {
	cluster := withSessions("Gryff").Cluster
	for _, tt := range []struct {
		stored, given string
		want          bool
	}{
		{"", "", false}, {"", "web", false}, {"", "shop", true}, {"shop.former", "", false},
		{"shop.former", "shop", false}, {"shop.mine", "", true},
	} {
		given, want := tt.stored+" "+tt.given, tt.want
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			build.ClusterIDAnnotation: tt.stored, build.AdoptAnnotation: tt.given,
		}}}
		all := []world.Member{{Volume: claim}}
		if dropOthers(cluster, all, "shop.mine"); (all[0].Volume != nil) != want {
			t.Errorf("given to %q: it counts as the member's: %t", given, !want)
		}
	}
}
