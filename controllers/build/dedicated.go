package build

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// Dedicated witnesses have pods with the labels of the cluster and their site, as members have, so that what is done to
// a site is done to them too. What is for members alone, or for witnesses alone, asks for the component; where
// witnesses are in members' pods, no pod has one.
const (
	ComponentLabel   = "app.kubernetes.io/component"
	WitnessLabel     = "georegister.io/witness" // the id
	WitnessComponent = "witness"
	ReplicaComponent = "replica"
)

// replicas are the labels that select members alone.
func replicas(cluster *v1alpha1.GeoRegisterCluster) map[string]string {
	if !cluster.Spec.Dedicated() {
		return selected(cluster.Name)
	}
	return joined(selected(cluster.Name), map[string]string{ComponentLabel: ReplicaComponent})
}

// podLabels are those of a member's pod.
func podLabels(cluster *v1alpha1.GeoRegisterCluster, m view.Member) map[string]string {
	return joined(MemberLabels(cluster.Name, m), replicas(cluster))
}

// onlyWitnesses are the labels that select dedicated witnesses.
func onlyWitnesses(cluster string) map[string]string {
	return joined(selected(cluster), map[string]string{ComponentLabel: WitnessComponent})
}

// dedicatedLabels are those of an object that belongs to one dedicated witness, and of its pod.
func dedicatedLabels(cluster string, w view.Witness) map[string]string {
	return joined(SiteLabels(cluster, w.Site), map[string]string{
		ComponentLabel: WitnessComponent, WitnessLabel: number(w.ID),
	})
}

// WitnessHash tells whether what a user wrote reaches the pods of dedicated witnesses in another form than before, as
// SpecHash does for members.
func WitnessHash(cluster *v1alpha1.GeoRegisterCluster) string {
	spec := cluster.Spec
	return hashOf(map[string]any{"image": spec.Image, "podTemplate": spec.PodTemplate, "witness": spec.Witness()})
}

// Dedicated are the objects of one dedicated witness, in the order to apply them in: its volume and its StatefulSet.
func Dedicated(in Input, w view.Witness) []client.Object {
	disk := volume(in, DedicatedVolumeName(in.Cluster.Name, w), dedicatedLabels(in.Cluster.Name, w),
		DedicatedSize(in.Cluster.Spec))
	return []client.Object{disk, dedicatedSet(in, w)}
}

// DedicatedSize is what the volume of a dedicated witness has: room for the log at its longest. Its lives together may
// take livesPerShard times what each shard's slots take; the log is at most twice as long as what is live, and is there
// beside the next one while it is rewritten. 64 MiB are for the rest, and few volumes are smaller than 1 GiB.
func DedicatedSize(spec v1alpha1.GeoRegisterClusterSpec) resource.Quantity {
	const log, rest, least, mebibyte = 3, 64 << 20, 1 << 30, 1 << 20
	size := max(log*livesPerShard*witnessMemory(spec)+rest, least)
	return *resource.NewQuantity((size+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
}

// dedicatedSet runs one witness.
func dedicatedSet(in Input, w view.Witness) *appsv1.StatefulSet {
	labels := dedicatedLabels(in.Cluster.Name, w)
	selector := joined(onlyWitnesses(in.Cluster.Name), map[string]string{
		SiteLabel: w.Site, WitnessLabel: number(w.ID),
	})
	template := podTemplate(in, w.Site, labels, WitnessHash(in.Cluster))
	template.Spec.Affinity = dedicatedAffinity(in.Cluster, w.Site)
	template.Spec.Containers = []corev1.Container{witness(in, w.ID)}
	template.Spec.Volumes = append(template.Spec.Volumes,
		corev1.Volume{Name: dataVolume, VolumeSource: claimed(DedicatedVolumeName(in.Cluster.Name, w))})
	return oneReplica(in, DedicatedName(in.Cluster.Name, w), labels, selector, template)
}

// dedicatedAffinity is the user's, or a preference: no zone has pods of two sites, so that no one else who keeps a
// shard is lost with this witness; above all that it is in the zone of its site's members, which need no zone more for
// it; and no node has two pods.
func dedicatedAffinity(cluster *v1alpha1.GeoRegisterCluster, site string) *corev1.Affinity {
	if written := cluster.Spec.PodTemplate.Affinity; written != nil {
		return written.DeepCopy()
	}
	at := func(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: selected(cluster.Name),
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: SiteLabel, Operator: operator, Values: []string{site}},
			}}
	}
	near := []corev1.WeightedPodAffinityTerm{avoid(50, at(metav1.LabelSelectorOpIn), corev1.LabelTopologyZone)}
	apart := []corev1.WeightedPodAffinityTerm{
		avoid(100, at(metav1.LabelSelectorOpNotIn), corev1.LabelTopologyZone),
		avoid(100, at(metav1.LabelSelectorOpNotIn), corev1.LabelHostname),
		avoid(25, &metav1.LabelSelector{MatchLabels: selected(cluster.Name)}, corev1.LabelHostname),
	}
	return &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: near},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: apart},
	}
}

// dedicatedObjects are what the dedicated witnesses of a cluster share: a budget that lets one of them be evicted at a
// time, while the others are ready, since a shard may have its updates with one of them alone; and what keeps others
// than members and the operator from it. Their names are in the DNS by the Service of the peers.
func dedicatedObjects(in Input) []client.Object {
	if !in.Cluster.Spec.Dedicated() {
		return nil
	}
	all := len(in.Cluster.Spec.Sites)
	if in.View.Epoch > 0 {
		all = len(
			slices.DeleteFunc(slices.Clone(in.View.Witnesses), func(w view.Witness) bool { return w.Beside != 0 }))
	}
	labels := joined(Labels(in.Cluster.Name), map[string]string{ComponentLabel: WitnessComponent})
	return []client.Object{
		budget(in, WitnessesName(in.Cluster.Name), labels, onlyWitnesses(in.Cluster.Name), max(all-1, 0),
			policyv1.AlwaysAllow),
		ingressPolicy(in, WitnessesName(in.Cluster.Name), labels, onlyWitnesses(in.Cluster.Name),
			allow([]networkingv1.NetworkPolicyPeer{theMembers(in), theOperator(in)}, named(WitnessPortName)),
			allow(nil, named(WitnessHTTPPortName))),
	}
}
