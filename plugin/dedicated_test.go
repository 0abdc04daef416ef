package plugin

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// witness is the pod of a dedicated witness at the first site, whose volume can't leave the node.
func witness() (*corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	pod := member(0)
	pod.Name = "first--a--witness-2-0"
	delete(pod.Labels, build.MemberLabel)
	pod.Labels[build.ComponentLabel] = build.WitnessComponent
	pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "data-first--a--witness-2"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-first--a--witness-2"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	onNode := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-a"}},
	}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{onNode}},
	}
	return pod, claim, volume
}

// A dedicated witness that waits for its node does not keep the member there from leaving, as long as the shards have
// others.
func TestDrainMovesDedicatedWitnesses(t *testing.T) {
	homeless := remake(func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available",
		}}
	})
	elsewhere := remake(func(p *corev1.Pod) { p.Spec.NodeName = "node-d" })
	for whole, want := range map[metav1.ConditionStatus]string{ // order is irrelevant: each is a test
		metav1.ConditionTrue: "first--a--witness-2-0 first--a--1-0", metav1.ConditionFalse: "first--a--witness-2-0",
	} {
		cluster := healthy()
		cluster.Status.Conditions = append(cluster.Status.Conditions,
			metav1.Condition{Type: v1alpha1.ConditionPartitionsServing, Status: whole})
		pod, claim, volume := witness()
		var evicted []string
		ctx, end := context.WithCancel(t.Context())
		defer end()
		k := connect(t, func(c client.WithWatch, pod *corev1.Pod) error {
			if evicted = append(evicted, pod.Name); isWitness(pod) {
				if whole == metav1.ConditionFalse {
					end() // what is asked from now on is asked once
				}
				return homeless(c, pod)
			}
			return elsewhere(c, pod)
		}, cluster, node(), member(0), member(1), member(2), pod, claim, volume)
		var out bytes.Buffer
		err := k.Drain(ctx, &out, "node-a")
		if got := strings.Join(evicted, " "); got != want {
			t.Errorf("PartitionsServing %s: evicted %q: %v\n%s", whole, got, err, out.String())
		}
		if whole == metav1.ConditionFalse &&
			(err == nil ||
				!strings.Contains(err.Error(), "pod first--a--witness-2-0 of the same cluster is not ready")) {
			t.Errorf("%v", err)
		}
	}
}

func TestLogsOfDedicatedWitnesses(t *testing.T) {
	pod, _, _ := witness()
	k := connect(t, nil, healthy(), member(0), pod)
	var out bytes.Buffer
	err := k.Logs(t.Context(), &out, "first", LogOptions{Tail: -1})
	if err != nil || !strings.Contains(out.String(), "[first--a--witness-2-0] fake logs") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
