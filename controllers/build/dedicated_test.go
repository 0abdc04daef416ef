package build

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// What is for members selects no dedicated witness, and the other way round; what is done to a site is done to both.
func TestDedicatedWitnessesAreToldFromMembers(t *testing.T) {
	in := load(t, "dedicated")
	var members, witnesses []map[string]string
	for _, o := range all(in) {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			if !labels.SelectorFromSet(s.Spec.Selector.MatchLabels).Matches(labels.Set(s.Spec.Template.Labels)) {
				t.Errorf("%s does not select its pod", s.Name)
			}
			if s.Spec.Template.Spec.Containers[0].Name == WitnessContainer {
				witnesses = append(witnesses, s.Spec.Template.Labels)
			} else {
				members = append(members, s.Spec.Template.Labels)
				if len(s.Spec.Template.Spec.InitContainers) > 0 {
					t.Errorf("%s has a sidecar", s.Name)
				}
			}
		}
	}
	count := func(selector map[string]string, pods []map[string]string) (n int) {
		for _, pod := range pods {
			if labels.SelectorFromSet(selector).Matches(labels.Set(pod)) {
				n++
			}
		}
		return n
	}
	atB := selected(in.Cluster.Name)
	atB[SiteLabel] = "b"
	for name, c := range map[string]struct {
		selector           map[string]string
		members, witnesses int
	}{
		"the budget of members": {disruptionBudget(in).Spec.Selector.MatchLabels, 5, 0},
		"the budget of witnesses": {
			dedicatedObjects(in)[0].(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels, 0, 3,
		},
		"the Service of clients":   {clients(in).Spec.Selector, 5, 0},
		"the Service of a site":    {site(in, "b").Spec.Selector, 2, 0},
		"the names in the DNS":     {peers(in).Spec.Selector, 5, 3},
		"the policy of members":    {networkPolicy(in).Spec.PodSelector.MatchLabels, 5, 0},
		"what is scraped":          {podMonitor(in).Spec.Selector.MatchLabels, 5, 3},
		"what emulates a network":  {atB, 2, 1},
		"experiments on witnesses": {map[string]string{ComponentLabel: "witness"}, 0, 3},
	} {
		if m, w := count(c.selector, members), count(c.selector, witnesses); m != c.members || w != c.witnesses {
			t.Errorf("%s selects %d members and %d witnesses, want %d and %d", name, m, w, c.members, c.witnesses)
		}
	}
}

// One may be evicted while the others are ready.
func TestTheBudgetOfDedicatedWitnesses(t *testing.T) {
	in := load(t, "dedicated")
	for name, c := range map[string]struct {
		change func(*view.View)
		want   int
	}{
		"founded":     {func(*view.View) {}, 2},
		"not founded": {func(v *view.View) { *v = view.View{} }, 2},
		"one came": {func(v *view.View) {
			v.Witnesses = append(slices.Clone(v.Witnesses), view.Witness{ID: 10})
		}, 3},
		"they all went": {func(v *view.View) { v.Witnesses = nil }, 0},
	} {
		in := in
		c.change(&in.View)
		if got := dedicatedObjects(in)[0].(*policyv1.PodDisruptionBudget).Spec.MinAvailable.IntValue(); got != c.want {
			t.Errorf("%s: %d must stay, want %d", name, got, c.want)
		}
	}
}

func TestTheSizeOfADedicatedWitness(t *testing.T) {
	for _, c := range []struct {
		shards, slots int32
		size, memory  string
	}{
		{3, 4096, "1Gi", "73Mi"},
		{256, 4, "1Gi", "51Mi"},
		{64, 4096, "6400Mi", "576Mi"},
	} {
		spec := v1alpha1.GeoRegisterClusterSpec{
			Protocol: "CURP", Shards: &c.shards,
			CURP: &v1alpha1.CURPOptions{Witness: &v1alpha1.Witness{Slots: &c.slots}},
		}
		size, memory := DedicatedSize(spec), witnessRequest(spec)
		if size.String() != c.size || memory.String() != c.memory {
			t.Errorf("%d shards of %d slots: %s and %s, want %s and %s", c.shards, c.slots, size.String(),
				memory.String(), c.size, c.memory)
		}
	}
}

// A changed slot restarts witnesses and no member, a changed limit members and no witness.
func TestTheHashOfADedicatedWitness(t *testing.T) {
	hashes := func(change func(*v1alpha1.GeoRegisterClusterSpec)) (members, witnesses string) {
		in := load(t, "dedicated")
		change(&in.Cluster.Spec)
		return SpecHash(in.Cluster), WitnessHash(in.Cluster)
	}
	m, w := hashes(func(*v1alpha1.GeoRegisterClusterSpec) {})
	more, bytes := int32(2048), int32(9000)
	for name, c := range map[string]struct {
		change            func(*v1alpha1.GeoRegisterClusterSpec)
		members, witneses bool
	}{
		"slots":  {func(s *v1alpha1.GeoRegisterClusterSpec) { s.CURP.Witness.Slots = &more }, false, true},
		"limits": {func(s *v1alpha1.GeoRegisterClusterSpec) { s.Limits.KeyBytes = &bytes }, true, false},
		"image":  {func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "next" }, true, true},
		"sites":  {func(s *v1alpha1.GeoRegisterClusterSpec) { s.Sites = s.Sites[:2] }, false, false},
	} {
		if members, witnesses := hashes(c.change); (members != m) != c.members || (witnesses != w) != c.witneses {
			t.Errorf("%s: members restart: %t, witnesses: %t", name, members != m, witnesses != w)
		}
	}
}

func TestTheLongestNamesOfDedicatedWitnesses(t *testing.T) {
	in := load(t, "dedicated")
	in.Cluster.Name, in.Cluster.Namespace = strings.Repeat("c", 20), strings.Repeat("n", 63)
	w := view.Witness{ID: view.MaxMemberID, Site: strings.Repeat("s", 15)}
	for _, o := range Dedicated(in, w) {
		if problems := validation.IsDNS1123Label(o.GetName()); len(problems) > 0 {
			t.Errorf("%q: %v", o.GetName(), problems)
		}
		if s, ok := o.(*appsv1.StatefulSet); ok {
			if problems := validation.IsValidLabelValue(s.Name + "-1234567890"); len(problems) > 0 {
				t.Errorf("%s: %v", s.Name, problems)
			}
		}
	}
	host := strings.TrimSuffix(DedicatedAddress(in.Cluster, in.Settings, w), fmt.Sprintf(":%d", WitnessPort))
	if problems := validation.IsDNS1123Subdomain(host); len(problems) > 0 {
		t.Errorf("%q: %v", host, problems)
	}
}

// A user's affinity counts, and else the witness is kept out of the zones of other sites.
func TestTheAffinityOfADedicatedWitness(t *testing.T) {
	in := load(t, "dedicated")
	terms := dedicatedAffinity(in.Cluster, "b").PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	apart := slices.ContainsFunc(terms, func(term corev1.WeightedPodAffinityTerm) bool {
		at := term.PodAffinityTerm.LabelSelector.MatchExpressions
		return term.PodAffinityTerm.TopologyKey == corev1.LabelTopologyZone && len(at) == 1 && at[0].Key == SiteLabel &&
			slices.Equal(at[0].Values, []string{"b"})
	})
	if !apart {
		t.Errorf("it may share a zone with other sites: %+v", terms)
	}
	in.Cluster.Spec.PodTemplate.Affinity = &corev1.Affinity{}
	if got := dedicatedAffinity(in.Cluster, "b"); got.PodAntiAffinity != nil || got.PodAffinity != nil {
		t.Errorf("%+v", got)
	}
}
