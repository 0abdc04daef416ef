package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// workers are the reconciles that a stand-in runs at the same time.
const workers = 8

// kubelet stands in for what brings pods up: the controllers of StatefulSets and volumes, the scheduler and the
// kubelets. A pod is an object with an address of this machine; no container runs.
type kubelet struct {
	api     client.Client // reads from a cache
	members *members
	told    chan event.TypedGenericEvent[types.NamespacedName]
}

// newKubelet sets up the stand-ins of a manager. Stop them after it has ended.
func newKubelet(m manager.Manager) (*kubelet, error) {
	k := &kubelet{api: m.GetClient(), told: make(chan event.TypedGenericEvent[types.NamespacedName], 1<<10)}
	k.members = newMembers(func(set types.NamespacedName) {
		k.told <- event.TypedGenericEvent[types.NamespacedName]{Object: set}
	})
	options := controller.Options{MaxConcurrentReconciles: workers}
	taken := source.TypedChannel(k.told, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName],
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			queue.Add(reconcile.Request{NamespacedName: e.Object})
		},
	})
	return k, errors.Join(
		builder.ControllerManagedBy(m).For(&appsv1.StatefulSet{}).Owns(&corev1.Pod{}).WatchesRawSource(taken).
			WithOptions(options).Complete(reconcile.Func(k.statefulSet)),
		builder.ControllerManagedBy(m).For(&corev1.PersistentVolumeClaim{}).
			WithOptions(options).Complete(reconcile.Func(k.claim)),
	)
}

// statefulSet makes the pod of a StatefulSet, runs it, and has it ready when its member votes.
func (k *kubelet) statefulSet(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := k.api.Get(ctx, request.NamespacedName, set); err != nil {
		return again(client.IgnoreNotFound(err))
	}
	pod := &corev1.Pod{}
	err := k.api.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: set.Name + "-0"}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return again(k.api.Create(ctx, podOf(set)))
	case err != nil:
		return again(err)
	case !pod.DeletionTimestamp.IsZero():
		return reconcile.Result{},
			reconcile.TerminalError(fmt.Errorf("pod %s is being deleted, and nobody asked for that", pod.Name))
	case pod.Status.PodIP == "":
		return again(k.run(ctx, set, pod))
	case len(pod.Status.Conditions) == 0 && k.members.votes(pod.Status.PodIP):
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}
		set.Status.ReadyReplicas, set.Status.AvailableReplicas = 1, 1
		return again(errors.Join(k.api.Status().Update(ctx, pod), k.api.Status().Update(ctx, set)))
	}
	return reconcile.Result{}, nil
}

// again tries again at once after a lost race: the cache is behind.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: retryAfter}, nil
	}
	return reconcile.Result{}, err
}

// run gives a pod its address, where its member answers from now on.
func (k *kubelet) run(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	id, err := strconv.ParseUint(set.Labels[build.MemberLabel], 10, 32)
	if err != nil {
		return fmt.Errorf("StatefulSet %s has no member: %w", set.Name, err)
	}
	ip, err := k.members.start(client.ObjectKeyFromObject(set), view.MemberID(id), "disk-of-"+string(set.UID))
	if err != nil {
		return err
	}
	now := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now,
	}
	set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, 1
	return errors.Join(k.api.Status().Update(ctx, pod), k.api.Status().Update(ctx, set))
}

func podOf(set *appsv1.StatefulSet) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-0"
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	pod.Spec.NodeName = nodeOf(set)
	return pod
}

// claim binds a claim to a volume that is tied to a node of its site.
func (k *kubelet) claim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := k.api.Get(ctx, request.NamespacedName, claim); err != nil {
		return again(client.IgnoreNotFound(err))
	}
	if claim.Status.Phase == corev1.ClaimBound {
		return reconcile.Result{}, nil
	}
	volume := volumeOf(claim)
	if err := client.IgnoreAlreadyExists(k.api.Create(ctx, volume)); err != nil {
		return again(err)
	}
	if claim.Spec.VolumeName == "" {
		claim.Spec.VolumeName = volume.Name
		if err := k.api.Update(ctx, claim); err != nil {
			return again(err)
		}
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
	}
	return again(k.api.Status().Update(ctx, claim))
}

func volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/disks/" + string(claim.UID)},
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
					Values: []string{nodeOf(claim)},
				}},
			}}}},
		},
	}
}

// nodeOf is the node that a member and its volume are on: one of its site, the same for all of a cluster.
func nodeOf(object client.Object) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(object.GetNamespace() + "/" + object.GetLabels()[build.ClusterLabel])) // never fails
	return nodeName(object.GetLabels()[build.SiteLabel], int(hash.Sum32()%nodesPerSite))
}

func nodeName(site string, n int) string { return fmt.Sprintf("%s-%d", site, n) }
