//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leavesWithin is how long a pod that was evicted may stay before the eviction counts as one that failed after all,
// such as for a pod that changed at that moment. With the disruption controller these are two minutes.
const leavesWithin = 5 * time.Second

// budgets counts, as the disruption controller does, how many pods may be evicted.
func (k *Kubelet) budgets(ctx context.Context) error {
	var budgets policyv1.PodDisruptionBudgetList
	if err := k.api.List(ctx, &budgets, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range budgets.Items {
		errs = append(errs, k.budget(ctx, &budgets.Items[i]))
	}
	return errors.Join(errs...)
}

func (k *Kubelet) budget(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := k.api.List(ctx, &pods, client.InNamespace(k.namespace),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	status := budget.Status.DeepCopy()
	status.ObservedGeneration, status.ExpectedPods = budget.Generation, int32(len(pods.Items))
	status.DesiredHealthy, status.CurrentHealthy = budget.Spec.MinAvailable.IntVal, 0
	evicted := map[string]metav1.Time{} // pods that the apiserver let go of and that are not seen to end yet
	for _, pod := range pods.Items {
		at, leaves := status.DisruptedPods[pod.Name]
		switch {
		case !pod.DeletionTimestamp.IsZero():
		case leaves && pod.CreationTimestamp.Time.Before(at.Time) && time.Since(at.Time) < leavesWithin:
			evicted[pod.Name] = at
		case conditionOf(&pod) == corev1.ConditionTrue:
			status.CurrentHealthy++
		}
	}
	status.DisruptedPods = evicted
	status.DisruptionsAllowed = max(0, status.CurrentHealthy-status.DesiredHealthy)
	if equality.Semantic.DeepEqual(*status, budget.Status) {
		return nil
	}
	budget.Status = *status
	return client.IgnoreNotFound(k.api.Status().Update(ctx, budget))
}
