//go:build controlplane

package controlplane

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
)

// NodeOf names the node of a site.
func NodeOf(site string) string { return "node-" + site }

// nodeFor names a node that a pod may run on, or is empty: that of its volume; else that of its site, or any other if
// that one is gone or the pod's selector does not allow it.
func (k *Kubelet) nodeFor(ctx context.Context, pod *corev1.Pod) (string, error) {
	tied, err := k.tiedTo(ctx, claimOf(pod))
	if err != nil {
		return "", err
	}
	var nodes corev1.NodeList
	if err := k.api.List(ctx, &nodes,
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(pod.Spec.NodeSelector)}); err != nil {
		return "", err
	}
	var names []string
	for _, node := range nodes.Items {
		if tied == "" || node.Name == tied {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	switch own := NodeOf(pod.Labels[build.SiteLabel]); {
	case slices.Contains(names, own):
		return own, nil
	case len(names) == 0:
		return "", nil
	}
	return names[0], nil
}

// tiedTo is the node that a claim's volume is on, or empty while it is nowhere.
func (k *Kubelet) tiedTo(ctx context.Context, claim string) (string, error) {
	c := &corev1.PersistentVolumeClaim{}
	if claim == "" {
		return "", nil
	}
	if err := k.api.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: claim}, c); err != nil ||
		c.Spec.VolumeName == "" {
		return "", client.IgnoreNotFound(err)
	}
	volume := &corev1.PersistentVolume{}
	if err := k.api.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, volume); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0], nil
}

// bind gives a pod that was made without a node one, as soon as there is any.
func (k *Kubelet) bind(ctx context.Context, pod *corev1.Pod) error {
	node, err := k.nodeFor(ctx, pod)
	if err != nil {
		return err
	}
	if node == "" {
		return k.report(ctx, pod, nil, false)
	}
	return k.api.SubResource("binding").Create(ctx, pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	})
}

// userOf is the node of the pod that uses a claim, or empty: a volume is bound where its first pod is placed.
func (k *Kubelet) userOf(ctx context.Context, claim string) (string, error) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: k.namespace, Name: strings.TrimPrefix(claim, "data-") + "-0"}
	if err := k.api.Get(ctx, key, pod); err != nil || claimOf(pod) != claim {
		return "", client.IgnoreNotFound(err)
	}
	return pod.Spec.NodeName, nil
}
