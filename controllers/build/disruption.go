package build

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/georegister/georegister/api/v1alpha1"
)

// disruptionBudget lets one member be evicted at a time. It counts what must stay: a budget of what may go would
// grow with a StatefulSet that is scaled down or orphaned.
func disruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	stay := intstr.FromInt(members(in) - 1)
	unhealthy := policyv1.AlwaysAllow // a member that is not ready adds nothing to a quorum, and its disk is kept
	if in.Cluster.Spec.Storage.DurabilityOrDefault() != v1alpha1.Sync {
		unhealthy = policyv1.IfHealthyBudget // a member that is evicted may lose what it has: not beside another one
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   kind("policy/v1", "PodDisruptionBudget"),
		ObjectMeta: owned(in, ClientsName(in.Cluster.Name), Labels(in.Cluster.Name)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               &stay,
			Selector:                   &metav1.LabelSelector{MatchLabels: selected(in.Cluster.Name)},
			UnhealthyPodEvictionPolicy: &unhealthy,
		},
	}
}

// members is how many the view has, or the first one will have.
func members(in Input) int {
	if in.View.Epoch > 0 {
		return in.View.Size()
	}
	return in.Cluster.Spec.MemberCount()
}
