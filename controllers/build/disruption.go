package build

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// disruptionBudget lets one member be evicted at a time, while all others are ready. It counts what must stay: a budget
// of what may go would grow with a StatefulSet that is scaled down or orphaned. Members that were left out may look
// ready for a while, so they count here too. Newcomers that wait for a view are not ready before it has them, and one
// that can't start must not keep the others from being evicted: they don't count. A joint view has two sides, and one
// member that goes is one of each at most. Where a side has no one to spare, no one goes.
func disruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	all := members(in)
	spare := 1
	for _, side := range sides(in) {
		spare = min(spare, side.Faults())
	}
	unhealthy := policyv1.AlwaysAllow // a member that is not ready adds nothing to a quorum, and its disk is kept
	if in.Cluster.Spec.Storage.DurabilityOrDefault() != v1alpha1.Sync {
		unhealthy = policyv1.IfHealthyBudget // a member that is evicted may lose what it has: not beside another one
	}
	return budget(in, MembersName(in.Cluster.Name), Labels(in.Cluster.Name), replicas(in.Cluster),
		all+in.Beside-spare, unhealthy)
}

// budget has so many of the selected pods stay.
func budget(
	in Input, name string, labels, selector map[string]string, stay int,
	unhealthy policyv1.UnhealthyPodEvictionPolicyType,
) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   kind("policy/v1", "PodDisruptionBudget"),
		ObjectMeta: owned(in, name, labels),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               new(intstr.FromInt(stay)),
			Selector:                   &metav1.LabelSelector{MatchLabels: selector},
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

// sides are the two of the view, which are alike where the view is not joint; or one of as many members as the first
// view will have.
func sides(in Input) []view.View {
	if in.View.Epoch > 0 {
		return []view.View{in.View.Before(), in.View.After()}
	}
	return []view.View{{Members: make([]view.Member, members(in))}}
}
