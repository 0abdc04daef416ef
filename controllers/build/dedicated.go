package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
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

// FirstWitnesses are the dedicated witnesses to found a cluster with, one at each site, without the names of their
// disks; none where they are in members' pods.
func FirstWitnesses(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings) (all []view.Witness) {
	if !cluster.Spec.Dedicated() {
		return nil
	}
	for i, id := range membership.DedicatedIDs(0, len(cluster.Spec.Sites)) {
		w := view.Witness{ID: id, Site: cluster.Spec.Sites[i].Name}
		w.Address = DedicatedAddress(cluster, settings, w)
		all = append(all, w)
	}
	return all
}

// replicas are the labels that select members alone.
func replicas(cluster *v1alpha1.GeoRegisterCluster) map[string]string {
	labels := selected(cluster.Name)
	if cluster.Spec.Dedicated() {
		labels[ComponentLabel] = ReplicaComponent
	}
	return labels
}

// podLabels are those of a member's pod.
func podLabels(cluster *v1alpha1.GeoRegisterCluster, m view.Member) map[string]string {
	labels := MemberLabels(cluster.Name, m)
	if cluster.Spec.Dedicated() {
		labels[ComponentLabel] = ReplicaComponent
	}
	return labels
}

// onlyWitnesses are the labels that select dedicated witnesses.
func onlyWitnesses(cluster string) map[string]string {
	labels := selected(cluster)
	labels[ComponentLabel] = WitnessComponent
	return labels
}

// dedicatedLabels are those of an object that belongs to one dedicated witness, and of its pod.
func dedicatedLabels(cluster string, w view.Witness) map[string]string {
	labels := SiteLabels(cluster, w.Site)
	labels[ComponentLabel] = WitnessComponent
	labels[WitnessLabel] = strconv.FormatUint(uint64(w.ID), 10)
	return labels
}

// WitnessHash tells whether what a user wrote reaches the pods of dedicated witnesses in another form than before, as
// SpecHash does for members.
func WitnessHash(cluster *v1alpha1.GeoRegisterCluster) string {
	spec := cluster.Spec
	text, err := json.Marshal(
		map[string]any{"image": spec.Image, "podTemplate": spec.PodTemplate, "witness": spec.Witness()})
	if err != nil {
		panic(fmt.Sprintf("build: what was decoded from JSON has none: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Dedicated are the objects of one dedicated witness, in the order to apply them in: its volume and its StatefulSet.
func Dedicated(in Input, w view.Witness) []client.Object {
	return []client.Object{dedicatedVolume(in, w), dedicatedSet(in, w)}
}

// DedicatedSize is what the volume of a dedicated witness has: room for the log at its longest. Its lives together may
// take livesPerShard times what each shard's slots take; the log is at most twice as long as what is live, and is there
// beside the next one while it is rewritten. 64 MiB are for the rest, and few volumes are smaller than 1 GiB.
func DedicatedSize(spec v1alpha1.GeoRegisterClusterSpec) resource.Quantity {
	const log, rest, least, mebibyte = 3, 64 << 20, 1 << 30, 1 << 20
	size := max(log*livesPerShard*witnessMemory(spec)+rest, least)
	return *resource.NewQuantity((size+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
}

func dedicatedVolume(in Input, w view.Witness) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   kind("v1", "PersistentVolumeClaim"),
		ObjectMeta: kept(in, DedicatedVolumeName(in.Cluster.Name, w), dedicatedLabels(in.Cluster.Name, w)),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: DedicatedSize(in.Cluster.Spec)},
			},
		},
	}
	if class := in.Cluster.Spec.Storage.Class; class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}

// dedicatedSet runs one witness, as statefulSet runs one member, and for the same reasons.
func dedicatedSet(in Input, w view.Witness) *appsv1.StatefulSet {
	one, history := int32(1), int32(2)
	labels := dedicatedLabels(in.Cluster.Name, w)
	selector := onlyWitnesses(in.Cluster.Name)
	selector[SiteLabel], selector[WitnessLabel] = labels[SiteLabel], labels[WitnessLabel]
	return &appsv1.StatefulSet{
		TypeMeta:   kind("apps/v1", "StatefulSet"),
		ObjectMeta: owned(in, DedicatedName(in.Cluster.Name, w), labels),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &one,
			ServiceName:          PeersName(in.Cluster.Name),
			Selector:             &metav1.LabelSelector{MatchLabels: selector},
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: &history,
			Template:             dedicatedTemplate(in, w),
		},
	}
}

func dedicatedTemplate(in Input, w view.Witness) corev1.PodTemplateSpec {
	user := in.Cluster.Spec.PodTemplate.DeepCopy()
	grace, no := int64(graceSeconds), false
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      joined(user.Labels, dedicatedLabels(in.Cluster.Name, w)),
			Annotations: joined(user.Annotations, map[string]string{SpecHashAnnotation: WitnessHash(in.Cluster)}),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:           MembersName(in.Cluster.Name),
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			SecurityContext:              podSecurity(),
			NodeSelector:                 NodeSelector(in.Cluster, w.Site),
			Affinity:                     dedicatedAffinity(in.Cluster, w.Site),
			Tolerations:                  user.Tolerations,
			PriorityClassName:            user.PriorityClassName,

			TerminationGracePeriodSeconds: &grace,

			Containers: []corev1.Container{witness(in, w.ID)},
			Volumes: []corev1.Volume{
				{Name: bootVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: BootName(in.Cluster.Name)},
				}}},
				{Name: dataVolume,
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: DedicatedVolumeName(in.Cluster.Name, w),
					}}},
			},
		},
	}
}

// dedicatedAffinity is the user's, or a preference: no zone has pods of two sites, so that nobody else who keeps a
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
	return &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			avoid(50, at(metav1.LabelSelectorOpIn), corev1.LabelTopologyZone),
		}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			avoid(100, at(metav1.LabelSelectorOpNotIn), corev1.LabelTopologyZone),
			avoid(100, at(metav1.LabelSelectorOpNotIn), corev1.LabelHostname),
			avoid(25, &metav1.LabelSelector{MatchLabels: selected(cluster.Name)}, corev1.LabelHostname),
		}},
	}
}

// dedicatedObjects are what the dedicated witnesses of a cluster share: a budget that lets one of them be evicted at a
// time, while the others are ready, since a shard may have its updates with one of them alone; and what keeps others
// than members and the operator from it. Their names are in the DNS by the Service of the peers.
func dedicatedObjects(in Input) []client.Object {
	if !in.Cluster.Spec.Dedicated() {
		return nil
	}
	all := 0
	for _, w := range in.View.Witnesses {
		all += 1 - min(1, int(w.Beside))
	}
	if in.View.Epoch == 0 {
		all = len(in.Cluster.Spec.Sites)
	}
	stay, unhealthy := intstr.FromInt(max(all-1, 0)), policyv1.AlwaysAllow
	labels := Labels(in.Cluster.Name)
	labels[ComponentLabel] = WitnessComponent
	return []client.Object{
		&policyv1.PodDisruptionBudget{
			TypeMeta:   kind("policy/v1", "PodDisruptionBudget"),
			ObjectMeta: owned(in, WitnessesName(in.Cluster.Name), labels),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable:               &stay,
				Selector:                   &metav1.LabelSelector{MatchLabels: onlyWitnesses(in.Cluster.Name)},
				UnhealthyPodEvictionPolicy: &unhealthy,
			},
		},
		&networkingv1.NetworkPolicy{
			TypeMeta:   kind("networking.k8s.io/v1", "NetworkPolicy"),
			ObjectMeta: owned(in, WitnessesName(in.Cluster.Name), labels),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: onlyWitnesses(in.Cluster.Name)},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{
					allow([]networkingv1.NetworkPolicyPeer{theMembers(in), theOperator(in)}, named(WitnessPortName)),
					allow(nil, named(WitnessHTTPPortName)),
				},
			},
		},
	}
}
