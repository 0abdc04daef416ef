//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

func ownerOf(version, kind string, owner client.Object, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
	}
}

// collect removes what belongs to an owner that is gone.
func (k *Kubelet) collect(ctx context.Context) error {
	owners := map[types.UID]bool{}
	var objects []client.Object
	var clusters v1alpha1.GeoRegisterClusterList
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var maps corev1.ConfigMapList
	var volumes corev1.PersistentVolumeClaimList
	var services corev1.ServiceList
	var accounts corev1.ServiceAccountList
	var budgets policyv1.PodDisruptionBudgetList
	var policies networkingv1.NetworkPolicyList
	for _, list := range []client.ObjectList{
		&clusters, &sets, &pods, &maps, &volumes, &services, &accounts, &budgets, &policies,
	} {
		if err := k.api.List(ctx, list, client.InNamespace(k.namespace)); err != nil {
			return err
		}
	}
	for i := range clusters.Items {
		owners[clusters.Items[i].UID] = true
	}
	for i := range sets.Items {
		owners[sets.Items[i].UID] = true
	}
	objects = appendAll(objects, sets.Items, func(o *appsv1.StatefulSet) client.Object { return o })
	objects = appendAll(objects, pods.Items, func(o *corev1.Pod) client.Object { return o })
	objects = appendAll(objects, maps.Items, func(o *corev1.ConfigMap) client.Object { return o })
	objects = appendAll(objects, volumes.Items, func(o *corev1.PersistentVolumeClaim) client.Object { return o })
	objects = appendAll(objects, services.Items, func(o *corev1.Service) client.Object { return o })
	objects = appendAll(objects, accounts.Items, func(o *corev1.ServiceAccount) client.Object { return o })
	objects = appendAll(objects, budgets.Items, func(o *policyv1.PodDisruptionBudget) client.Object { return o })
	objects = appendAll(objects, policies.Items, func(o *networkingv1.NetworkPolicy) client.Object { return o })
	var errs []error
	for _, object := range objects {
		if !object.GetDeletionTimestamp().IsZero() || len(object.GetOwnerReferences()) == 0 {
			continue
		}
		alive := false
		for _, owner := range object.GetOwnerReferences() {
			alive = alive || owners[owner.UID] || k.lives(ctx, owner)
		}
		if !alive {
			errs = append(errs, client.IgnoreNotFound(k.api.Delete(ctx, object)))
		}
	}
	return errors.Join(errs...)
}

// lives asks the apiserver itself: the cache may not have an owner yet.
func (k *Kubelet) lives(ctx context.Context, owner metav1.OwnerReference) bool {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schemaOf(owner))
	err := k.direct.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: owner.Name}, object)
	return err == nil && object.UID == owner.UID || err != nil && !apierrors.IsNotFound(err)
}

func appendAll[T any](to []client.Object, items []T, object func(*T) client.Object) []client.Object {
	for i := range items {
		to = append(to, object(&items[i]))
	}
	return to
}

// volumes binds claims, lets them grow, and lets go of those that are deleted once no pod uses them.
func (k *Kubelet) volumes(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	if err := k.api.List(ctx, &claims, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		errs = append(errs, k.volume(ctx, &claims.Items[i]))
	}
	return errors.Join(errs...)
}

func (k *Kubelet) volume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if !claim.DeletionTimestamp.IsZero() {
		if len(claim.Finalizers) == 0 || k.inUse(ctx, claim.Name) {
			return nil
		}
		claim.Finalizers = nil
		return errors.Join(client.IgnoreNotFound(k.api.Update(ctx, claim)), os.RemoveAll(k.directoryOf(claim)))
	}
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound && has.Cmp(asked) >= 0 {
		return nil
	}
	if claim.Spec.VolumeName == "" {
		node, err := k.userOf(ctx, claim.Name)
		if err != nil || node == "" {
			return err
		}
		volume := volumeOf(claim, node)
		if err := k.api.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := os.MkdirAll(k.directoryOf(claim), 0o700); err != nil {
			return err
		}
		claim.Spec.VolumeName = volume.Name
		if err := k.api.Update(ctx, claim); err != nil {
			return err
		}
	}
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.AccessModes = claim.Spec.AccessModes
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: asked}
	return k.api.Status().Update(ctx, claim)
}

// volumeOf is a volume that is tied to a node.
func volumeOf(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    claim.Spec.Resources.Requests,
			AccessModes: claim.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/disks/" + string(claim.UID)},
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
	}
}

func (k *Kubelet) directoryOf(claim *corev1.PersistentVolumeClaim) string {
	return filepath.Join(k.directory, string(claim.UID))
}

// inUse reports whether a pod uses a claim.
func (k *Kubelet) inUse(ctx context.Context, claim string) bool {
	var pods corev1.PodList
	if err := k.api.List(ctx, &pods, client.InNamespace(k.namespace)); err != nil {
		return true // unknown: it looks again
	}
	for _, pod := range pods.Items {
		if claimOf(&pod) == claim && k.process(pod.Name) != nil {
			return true
		}
	}
	return false
}

func claimOf(pod *corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			return volume.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// placed reports whether a pod's node is there.
func (k *Kubelet) placed(ctx context.Context, pod *corev1.Pod) (bool, error) {
	err := k.api.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &corev1.Node{})
	return err == nil, client.IgnoreNotFound(err)
}

// mount is the directory that a pod's member runs in, or empty while its volume is not there.
func (k *Kubelet) mount(ctx context.Context, pod *corev1.Pod) (string, error) {
	name := claimOf(pod)
	if name == "" {
		directory := filepath.Join(k.directory, string(pod.UID))
		return directory, os.MkdirAll(directory, 0o700)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := k.api.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, claim); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if claim.Status.Phase != corev1.ClaimBound || !claim.DeletionTimestamp.IsZero() {
		return "", nil
	}
	return k.directoryOf(claim), nil
}

// report writes the pod's status if it says something new. The process is nil while the pod is pending.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, p *process, ready bool) error {
	status := pod.Status.DeepCopy()
	status.Phase, status.PodIP, status.PodIPs = corev1.PodPending, "", nil
	if p != nil {
		status.Phase, status.PodIP, status.PodIPs = corev1.PodRunning, p.address, []corev1.PodIP{{IP: p.address}}
	}
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	if pod.Status.Phase == status.Phase && pod.Status.PodIP == status.PodIP && conditionOf(pod) == is {
		return nil
	}
	now := metav1.Now()
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: now}}
	if pod.Spec.NodeName == "" {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: now, Message: "0 nodes are available: none matches the pod's node selector",
		})
	}
	status.StartTime = &now
	pod.Status = *status
	return client.IgnoreNotFound(k.api.Status().Update(ctx, pod))
}

func conditionOf(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}
