package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// lone is a cluster whose witnesses have pods of their own at rest: members 1, 3, 5 and witnesses 2, 4, 6 of three
// sites and zones. Partition i is 1 [3] w6, 3 [5] w2, 5 [1] w4.
func lone(t *testing.T) *world.Snapshot {
	t.Helper()
	s := clusterWithMasters(t)
	s.Cluster.Spec.CURP = &v1alpha1.CURPOptions{Witness: &v1alpha1.Witness{Placement: v1alpha1.Dedicated}}
	v := s.Record.View
	v.Partitions = nil
	var witnesses []view.Witness
	for i, id := range membership.DedicatedIDs(0, len(s.Cluster.Spec.Sites)) {
		w := view.Witness{ID: id, Site: s.Cluster.Spec.Sites[i].Name, Disk: fmt.Sprintf("witness-%d", id)}
		w.Address = build.DedicatedAddress(s.Cluster, settings, w)
		witnesses = append(witnesses, w)
	}
	v, err := membership.Place(v, witnesses, membership.Placement{Partitions: 3, Faults: 1, Dedicated: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Members {
		m := view.Member{ID: s.Members[i].ID, Site: s.Members[i].Site}
		s.Members[i].StatefulSet, s.Members[i].Pod = statefulSetOf(m, build.SpecHash(s.Cluster)),
			podOf(m, build.SpecHash(s.Cluster), true, metav1.NewTime(epoch))
	}
	for _, w := range witnesses {
		s.Witnesses = append(s.Witnesses, witnessOf(s, w.ID, w.Site))
	}
	recordLone(s, v)
	return s
}

// witnessOf is a dedicated witness that runs on its first disk.
func witnessOf(s *world.Snapshot, id view.MemberID, site string) world.Member {
	w, hash := view.Witness{ID: id, Site: site}, build.WitnessHash(s.Cluster)
	m := world.Member{ID: id, Site: site, StatefulSet: statefulSetOf(view.Member{ID: id, Site: site}, hash),
		Pod:     podOf(view.Member{ID: id, Site: site}, hash, true, metav1.NewTime(epoch)),
		Volume:  &corev1.PersistentVolumeClaim{},
		Witness: &membership.WitnessReport{Witness: id, Disk: fmt.Sprintf("witness-%d", id)}}
	m.StatefulSet.Name, m.Pod.Name, m.Volume.Name = build.DedicatedName("demo", w), build.DedicatedPodName("demo", w),
		build.DedicatedVolumeName("demo", w)
	m.Volume.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: build.DedicatedSize(s.Cluster.Spec)}
	return m
}

// recordLone has a view be recorded and held, and its lives kept.
func recordLone(s *world.Snapshot, v view.View) {
	record(s, v)
	for i := range s.Members {
		m := &s.Members[i]
		m.Witness = nil
		if m.Report == nil {
			continue
		}
		m.Report.Witnesses = nil
		for _, w := range s.Witnesses {
			m.Report.Witnesses = append(m.Report.Witnesses, world.Peer{ID: w.ID, Reachable: w.Witness != nil})
		}
	}
	for i := range s.Witnesses {
		if w := &s.Witnesses[i]; w.Witness != nil {
			w.Witness.Lives = livesOf(v, w.ID)
		}
	}
}

func seen(s *world.Snapshot, id view.MemberID) *world.Member {
	return &s.Witnesses[slices.IndexFunc(s.Witnesses, func(m world.Member) bool { return m.ID == id })]
}

// away has a dedicated witness not answer, nor be heard, since long ago.
func away(s *world.Snapshot, id view.MemberID) {
	w := seen(s, id)
	w.Witness, w.WitnessSilence = nil, "connection refused"
	w.Pod.Status.Conditions[0].Status = corev1.ConditionFalse
	recordLone(s, s.Record.View)
}

// sets are the names of the StatefulSets of a plan's witnesses.
func sets(p Plan) (names []string) {
	for _, o := range p.Apply {
		if set, ok := o.(*appsv1.StatefulSet); ok && set.Labels[build.WitnessLabel] != "" {
			names = append(names, set.Name)
		}
	}
	return names
}

func TestDedicatedWitnessesRest(t *testing.T) {
	s := lone(t)
	p := Next(*s)
	if p.Step != nil || parts(s.Record.View) != "1 [3] w[6] <0; 3 [5] w[2] <0; 5 [1] w[4] <0" ||
		p.Again != partitionedLate {
		t.Errorf("%+v %s\n%s", p.Step, parts(s.Record.View), strings.Join(summary(p), "\n"))
	}
	says(t, p, "ToleratesZoneLoss=True ZonesSpread: The loss of any one of 3 zones leaves a majority of 2")
	if got := sets(p); !slices.Equal(got, []string{"demo--a--witness-2", "demo--b--witness-4", "demo--c--witness-6"}) {
		t.Errorf("StatefulSets of witnesses: %q", got)
	}
}

func TestDedicatedWitnessesAreFounded(t *testing.T) {
	s := lone(t)
	want := s.Record.View
	empty(s)
	for i := range s.Witnesses {
		s.Witnesses[i].Witness.Lives = nil
	}
	step, ok := written(Next(*s).Step, "Founding")
	if !ok || parts(step.View) != parts(want) || len(step.View.Witnesses) != 3 || step.View.Witnesses[0].Beside != 0 {
		t.Errorf("%+v", step)
	}
	const waits = "Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its " +
		"disk holds; missing: "
	seen(s, 4).Witness.Lives = []membership.Life{{Witness: 4, Partition: 0, Term: 1}}
	p := Next(*s)
	says(t, p,
		waits+
			"witness 4 (site b) served another cluster on its volume; delete the claim data-demo--b--witness-4 and "+
			"its pod")
	seen(s, 4).Witness = nil
	if says(t, Next(*s), waits+"witness 4 (site b) does not answer"); p.Step != nil {
		t.Errorf("%+v", p.Step)
	}
	s.Witnesses, s.Members = nil, nil
	if got := sets(Next(*s)); len(got) != 0 { // volumes first
		t.Errorf("%q", got)
	}
}

// succeeded follows the steps by which another witness takes the place of one.
func succeeded(t *testing.T, s *world.Snapshot, lost view.MemberID) {
	t.Helper()
	s.Now = s.Now.Add(time.Minute)
	p := Next(*s)
	for range 6 { // others take its parts first
		step, ok := p.Step.(rules.WriteRecord)
		if !ok {
			break
		}
		recordLone(s, step.View)
		p = Next(*s)
	}
	var claims []string
	for _, o := range p.Apply {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && claim.Labels[build.WitnessLabel] == "8" {
			claims = append(claims, claim.Name)
		}
	}
	if want := []string{"data-demo--b--witness-8"}; !slices.Equal(claims, want) {
		t.Fatalf("new volumes %q, want %q; step %+v\n%s", claims, want, p.Step, strings.Join(summary(p), "\n"))
	}
	says(t, p, "Progressing=True StartingWitnesses: Witnesses are started: witness 8 (site b) is not made yet")
	s.Witnesses = append(s.Witnesses, witnessOf(s, 8, "b"))
	recordLone(s, s.Record.View)
	for range 10 {
		p = Next(*s)
		step, ok := p.Step.(rules.WriteRecord)
		if !ok {
			break
		}
		recordLone(s, step.View)
	}
	v := s.Record.View
	if _, known := v.Witness(lost); known || len(v.Witnesses) != 3 ||
		parts(v) != "1 [3] w[6] <0; 3 [5] w[2] <0; 5 [1] w[8] <0" {
		t.Fatalf("%+v %s\n%s", v.Witnesses, parts(v), strings.Join(summary(p), "\n"))
	}
	discard, ok := p.Step.(rules.Discard)
	if !ok || discard.Member != lost || discard.Who != "witness 4 (site b)" {
		t.Fatalf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	s.Witnesses = slices.DeleteFunc(s.Witnesses, func(m world.Member) bool { return m.ID == lost })
	if p := Next(*s); p.Step != nil || p.Again != partitionedLate {
		t.Errorf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
}

func TestDedicatedWitnessesAreReplaced(t *testing.T) {
	for name, lose := range map[string]func(*world.Snapshot){
		"another disk": func(s *world.Snapshot) { seen(s, 4).Witness.Disk = "another" },
		"no volume":    func(s *world.Snapshot) { away(s, 4); seen(s, 4).Volume = nil },
		"not ready":    func(s *world.Snapshot) { away(s, 4) },
		"another node pool": func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[1].NodePool = &v1alpha1.NodePool{Value: "zone-b"}
			elsewhere(s)
		},
		"a small volume": func(s *world.Snapshot) {
			shards, slots := int32(3), int32(1<<20)
			s.Cluster.Spec.Shards, s.Cluster.Spec.CURP.Witness.Slots = &shards, &slots
			for _, m := range s.Witnesses {
				m.Pod.Annotations[build.SpecHashAnnotation] = build.WitnessHash(s.Cluster)
				if m.ID != 4 {
					m.Volume.Spec.Resources.Requests[corev1.ResourceStorage] = build.DedicatedSize(s.Cluster.Spec)
				}
			}
		},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			s := lone(t)
			lose(s)
			succeeded(t, s, 4)
		})
	}
}

// elsewhere has the members of site b be in the pool that is asked for, and the witness there not.
func elsewhere(s *world.Snapshot) {
	s.Zones["node-x"] = world.Zone{Name: "zone-b"}
	zone := s.Zones["node-b"]
	zone.Labels = map[string]string{corev1.LabelTopologyZone: "zone-b"}
	s.Zones["node-b"] = zone
	seen(s, 4).Pod.Spec.NodeName = "node-x"
}

// A witness that is away for a short time, or that members hear, is left alone.
func TestDedicatedWitnessesAreNotReplacedForNothing(t *testing.T) {
	for name, lose := range map[string]func(*world.Snapshot){
		"shortly": func(s *world.Snapshot) {
			away(s, 4)
			seen(s, 4).Pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.Now.Add(-time.Second))
		},
		"heard": func(s *world.Snapshot) {
			away(s, 4)
			for _, m := range s.Members {
				for i := range m.Report.Witnesses {
					m.Report.Witnesses[i].Reachable = true
				}
			}
		},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			s := lone(t)
			lose(s)
			if got := sets(Next(*s)); len(got) != 3 {
				t.Errorf("StatefulSets of witnesses: %q", got)
			}
			if c := views.Of(*s).Coming; len(c) > 0 {
				t.Errorf("%v come", c)
			}
		})
	}
}

func TestDedicatedWitnessesAreUpdated(t *testing.T) {
	s := lone(t)
	slots := int32(64)
	s.Cluster.Spec.CURP.Witness.Slots = &slots
	says(t, Next(*s),
		"Progressing=True StatefulSetNotUpdated: Witness 2 (site a) is to be restarted with the changed spec, and "+
			"waits: "+
			"its StatefulSet would make the former pod again")
	for i := range s.Witnesses {
		s.Witnesses[i].StatefulSet.Spec.Template.Annotations[build.SpecHashAnnotation] = build.WitnessHash(s.Cluster)
	}
	step, ok := Next(*s).Step.(rules.DeletePod)
	if !ok || step.Name != "demo--a--witness-2-0" || !step.Evict {
		t.Fatalf("%+v", step)
	}
	seen(s, 6).Pod.Status.Conditions[0].Status = corev1.ConditionFalse
	says(t, Next(*s),
		"Progressing=True AnotherWitnessIsNotReady: Witness 2 (site a) is to be restarted with the changed spec, and "+
			"waits: "+
			"witness 6 (site c) is not ready")
	w := seen(s, 6) // of the former spec, and it can't start: it goes at once
	w.Witness = nil
	if step, ok := Next(*s).Step.(rules.DeletePod); !ok || step.Name != "demo--c--witness-6-0" || step.Evict {
		t.Errorf("%+v", step)
	}
	now := metav1.NewTime(s.Now)
	w.Pod.DeletionTimestamp = &now
	says(t, Next(*s), "Progressing=True WitnessRestarts: Witness 6 (site c) restarts with the changed spec")
}

// A witness waits for a member with a lower number, which could not join any more after it, but not for ever.
func TestADedicatedWitnessWaitsForItsTurn(t *testing.T) {
	s := lone(t)
	seen(s, 4).Witness.Disk = "another"
	s.Witnesses = append(s.Witnesses, witnessOf(s, 8, "b"))
	gone(s, 5)
	s.Cluster.Spec.Sites[2].NodePool = nil
	newcomer(s, 7, "c")
	s.Member(7).Pod.CreationTimestamp = metav1.NewTime(s.Now)
	if got := views.Of(*s).NamedWitnesses(); len(got) != 0 {
		t.Errorf("%v come before member 7", got)
	}
	s.Now = s.Now.Add(settings.LostAfter)
	if got := views.Of(*s).NamedWitnesses(); len(got) != 1 || got[0].ID != 8 {
		t.Errorf("%v come", got)
	}
}

// The network of a site is emulated for the pod of its witness too, and made again when that is another one.
func TestTheNetworkOfDedicatedWitnesses(t *testing.T) {
	s := lone(t)
	s.Cluster.Spec.WAN = &v1alpha1.WAN{Provider: v1alpha1.ChaosMesh, Links: []v1alpha1.Link{
		{Between: []string{"a", "b"}, RTT: "10ms"}, {Between: []string{"c", "a"}, RTT: "20ms"},
		{Between: []string{"b", "c"}, RTT: "30ms"},
	}}
	s.Emulation = world.Emulation{Kind: true, Known: true}
	for _, m := range slices.Concat(s.Members, s.Witnesses) {
		m.Pod.UID, m.Pod.Status.PodIP = types.UID(m.Pod.Name), fmt.Sprintf("10.0.0.%d", m.ID)
	}
	names := func() (all []string) {
		for _, o := range Next(*s).Emulation.Make {
			all = append(all, o.GetName())
		}
		return all
	}
	before := names()
	seen(s, 4).Pod.UID = "another"
	after := names()
	if len(before) != 6 || len(after) != 6 {
		t.Fatalf("%q, then %q", before, after)
	}
	for i := range after {
		if between := strings.Contains(after[i], "-b-"); (before[i] != after[i]) != between {
			t.Errorf("with another pod of b's witness %s is %s", before[i], after[i])
		}
	}
	seen(s, 4).Pod = nil
	if got := names(); len(got) != 2 {
		t.Errorf("while b's witness has no pod: %q", got)
	}
}

// A site that is not asked for any more loses its witness.
func TestTheWitnessOfASiteThatGoes(t *testing.T) {
	s := lone(t)
	s.Cluster.Spec.Sites = s.Cluster.Spec.Sites[:2]
	if got := views.Of(*s).Retiring(); len(got) > 0 {
		t.Errorf("%v retire before the member", got)
	}
	s.Record.View.Members, s.Record.View.Epoch = s.Record.View.Members[:2], 2
	if got := views.Of(*s).Retiring(); !slices.Equal(got, []view.MemberID{6}) {
		t.Errorf("%v retire", got)
	}
}

// Two keepers of a shard in one zone are named.
func TestZonesOfDedicatedWitnesses(t *testing.T) {
	s := lone(t)
	s.Zones["node-x"] = world.Zone{Name: "zone-b"}
	seen(s, 6).Pod.Spec.NodeName = "node-x"
	p := Next(*s)
	says(t, p, "ToleratesZoneLoss=False ZoneHoldsPartition: Partition 0 is kept by 3 and 6 in one zone, zone-b; "+
		"with dedicated witnesses all of its keepers are to be in zones of their own")
	seen(s, 6).Pod.Spec.NodeName = "node-y"
	s.Zones["node-y"] = world.Zone{}
	says(t, Next(*s),
		"ToleratesZoneLoss=False ZoneHoldsPartition: Without zone zone-a, partition 0 has no witness to recover from")
}
