package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// Drain moves the members of the namespace's clusters off a node: it cordons the node, then evicts them one at a
// time, each only while all other members of its cluster vote, and waits until each is back elsewhere. A member whose
// volume can't leave the node is evicted too, and waits for the node. It gives up when ctx ends; the node stays
// cordoned, and what was moved stays moved.
func (k *Kubernetes) Drain(ctx context.Context, out io.Writer, name string) error {
	node := &corev1.Node{}
	if err := k.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if !node.Spec.Unschedulable {
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`))
		if err := k.Client.Patch(ctx, node, patch); err != nil {
			return fmt.Errorf("cordon node %s: %w", name, err)
		}
	}
	fmt.Fprintf(out, "node %s is cordoned: nothing new is scheduled to it\n", name)
	pods, err := k.memberPods(ctx, "", "")
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != name })
	if err := k.inOrder(ctx, pods); err != nil {
		return err
	}
	var stay []string
	for i := range pods {
		moved, err := k.move(ctx, out, &pods[i])
		if err != nil {
			return fmt.Errorf("%w; node %s stays cordoned: `kubectl uncordon %s` lets its members return",
				err, name, name)
		}
		if !moved {
			stay = append(stay, pods[i].Name)
		}
	}
	fmt.Fprintf(out,
		"node %s has no members any more; `kubectl uncordon %s` when its maintenance is over\n", name, name)
	for _, pod := range stay {
		fmt.Fprintf(out,
			"%s waits for the node, where its volume is. If the node never returns, delete the claim data-%s: "+
				"the operator then replaces the member\n", pod, pod[:len(pod)-len("-0")])
	}
	return nil
}

// inOrder sorts pods as the operator has their members hand over: who keeps the fewest shards first, then by id.
func (k *Kubernetes) inOrder(ctx context.Context, pods []corev1.Pod) error {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return err
	}
	rank := map[string][]int{} // by the pod's name
	for _, c := range clusters {
		for _, m := range c.Status.Members {
			rank[m.Pod] = []int{len(kept(&c, int32(m.ID))), int(m.ID)}
		}
	}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		return slices.Compare(rank[a.Name], rank[b.Name])
	})
	return nil
}

// move evicts a member's pod and waits until it runs elsewhere. It returns false for one that can't.
func (k *Kubernetes) move(ctx context.Context, out io.Writer, pod *corev1.Pod) (moved bool, err error) {
	cluster := pod.Labels[build.ClusterLabel]
	err = poll(ctx, pollEvery, func() (bool, string, error) {
		blocked, err := k.blocked(ctx, cluster, pod)
		if err != nil || blocked != "" {
			return false, fmt.Sprintf("member %s can't leave yet: %s", pod.Name, blocked), err
		}
		err = k.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
		})
		switch {
		case apierrors.IsTooManyRequests(err):
			return false, fmt.Sprintf("member %s can't leave yet: its PodDisruptionBudget allows no disruption now",
				pod.Name), nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return true, "", nil // it left on its own
		case err != nil:
			return false, "", fmt.Errorf("evict pod %s: %w", pod.Name, err)
		}
		return true, "", nil
	})
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%s was evicted\n", pod.Name)
	err = poll(ctx, pollEvery, func() (bool, string, error) {
		next := &corev1.Pod{}
		err := k.Client.Get(ctx, client.ObjectKeyFromObject(pod), next)
		switch {
		case apierrors.IsNotFound(err) || err == nil && next.UID == pod.UID:
			return false, fmt.Sprintf("%s was not made again yet", pod.Name), nil
		case err != nil:
			return false, "", fmt.Errorf("read pod %s: %w", pod.Name, err)
		case ready(next):
			moved = true
			fmt.Fprintf(out, "%s is ready on node %s\n", next.Name, next.Spec.NodeName)
			return true, "", nil
		}
		reason := unschedulable(next)
		if reason == "" {
			return false, fmt.Sprintf("%s is not ready on node %s yet", next.Name, next.Spec.NodeName), nil
		}
		tied, err := k.tied(ctx, pod)
		return tied, fmt.Sprintf("%s finds no node: %s", next.Name, reason), err
	})
	return moved, err
}

// blocked says why a pod must not leave now, or is empty.
func (k *Kubernetes) blocked(ctx context.Context, name string, leaving *corev1.Pod) (string, error) {
	c := &v1alpha1.GeoRegisterCluster{}
	if err := k.Client.Get(ctx, types.NamespacedName{Namespace: leaving.Namespace, Name: name}, c); err != nil {
		return "", fmt.Errorf("read cluster %s: %w", name, err)
	}
	quorum := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionQuorumHealthy)
	if quorum == nil {
		return fmt.Sprintf("cluster %s has no condition QuorumHealthy; is its operator running?", name), nil
	}
	// A member that is down itself takes nothing away by leaving.
	if quorum.Status != metav1.ConditionTrue && ready(leaving) {
		return fmt.Sprintf("QuorumHealthy of cluster %s is %s: %s", name, quorum.Status, quorum.Message), nil
	}
	for _, m := range c.Status.Members {
		if m.Pod != leaving.Name && m.Role != "Voter" {
			return fmt.Sprintf("member %d of cluster %s is no voter: %s", m.ID, name, m.State), nil
		}
		if kept := kept(c, int32(m.ID)); m.Pod == leaving.Name && len(kept) > 0 && ready(leaving) && readsNodes(c) {
			return fmt.Sprintf("the operator has others take over what it is master or backup of: shards %s",
				numbers(kept)), nil
		}
	}
	pods, err := k.memberPods(ctx, name, "")
	if err != nil {
		return "", err
	}
	for i := range pods {
		// The status may lag behind; pods do so less. Shards that have all their witnesses need no other one.
		if isWitness(&pods[i]) && !isWitness(leaving) &&
			meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionPartitionsServing) {
			continue
		}
		if pods[i].Name != leaving.Name && !ready(&pods[i]) {
			return fmt.Sprintf("pod %s of the same cluster is not ready", pods[i].Name), nil
		}
	}
	return "", nil
}

// kept are the shards that a member is master or backup of, with a protocol that has masters.
func kept(c *v1alpha1.GeoRegisterCluster, member int32) (shards []int32) {
	for _, p := range c.Status.Partitions {
		if p.Master == int64(member) || slices.Contains(p.Backups, member) {
			shards = append(shards, p.Number)
		}
	}
	return shards
}

// readsNodes reports whether the operator sees that a node is cordoned.
func readsNodes(c *v1alpha1.GeoRegisterCluster) bool {
	zones := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionToleratesZoneLoss)
	return zones == nil || zones.Reason != "NodesNotReadable"
}

// tied reports whether the volume of a member's pod can be used on few nodes only, such as a local disk.
func (k *Kubernetes) tied(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		if err := k.Client.Get(ctx, key, claim); err != nil {
			return false, fmt.Errorf("read claim %s: %w", key.Name, err)
		}
		volume := &corev1.PersistentVolume{}
		if err := k.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume); err != nil {
			return false, fmt.Errorf("read volume %s of claim %s: %w", claim.Spec.VolumeName, key.Name, err)
		}
		if onHost(volume) {
			return true, nil
		}
	}
	return false, nil
}

// onHost reports whether a volume's affinity names hosts, rather than zones.
func onHost(volume *corev1.PersistentVolume) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false
	}
	return slices.ContainsFunc(volume.Spec.NodeAffinity.Required.NodeSelectorTerms,
		func(t corev1.NodeSelectorTerm) bool {
			byName := func(r corev1.NodeSelectorRequirement) bool {
				return r.Key == corev1.LabelHostname || r.Key == metav1.ObjectNameField
			}
			return slices.ContainsFunc(t.MatchExpressions, byName) || slices.ContainsFunc(t.MatchFields, byName)
		})
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unschedulable is why no node takes a pod, or empty.
func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}
