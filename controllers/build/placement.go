package build

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

// NodeSelector keeps a site's members on its node pool; without one they may run anywhere.
func NodeSelector(cluster *v1alpha1.GeoRegisterCluster, name string) map[string]string {
	for _, site := range cluster.Spec.Sites {
		if site.Name == name && site.NodePool != nil {
			return map[string]string{site.NodePool.KeyOrDefault(): site.NodePool.Value}
		}
	}
	return nil
}

// affinity is the user's, or a preference: no node has two members, and no zone has two sites. It is a
// preference because a member that shares a node is worth more than one that can't run.
func affinity(cluster *v1alpha1.GeoRegisterCluster, name string) *corev1.Affinity {
	if written := cluster.Spec.PodTemplate.Affinity; written != nil {
		return written.DeepCopy()
	}
	anybody := &metav1.LabelSelector{MatchLabels: replicas(cluster)}
	ofOtherSites := &metav1.LabelSelector{
		MatchLabels: selected(cluster.Name),
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: SiteLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{name}},
		},
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			avoid(100, anybody, corev1.LabelHostname),
			avoid(50, ofOtherSites, corev1.LabelTopologyZone),
		},
	}}
}

func avoid(weight int32, whom *metav1.LabelSelector, within string) corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{
		Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: whom, TopologyKey: within},
	}
}
