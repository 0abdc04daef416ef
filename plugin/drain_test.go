package plugin

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}} }

// remake plays the controllers: the pod comes back as change makes it.
func remake(change func(*corev1.Pod)) func(client.WithWatch, *corev1.Pod) error {
	return func(c client.WithWatch, pod *corev1.Pod) error {
		if err := c.Delete(context.Background(), pod.DeepCopy()); err != nil {
			return err
		}
		next := pod.DeepCopy()
		next.UID, next.ResourceVersion = "new", ""
		change(next)
		return c.Create(context.Background(), next)
	}
}

func TestDrainMovesMembers(t *testing.T) {
	// Two members are on the node: the second may leave only when the first one is back.
	second := member(1)
	second.Spec.NodeName = "node-a"
	var evicted []string
	elsewhere := remake(func(p *corev1.Pod) { p.Spec.NodeName = "node-d" })
	k := connect(t, func(c client.WithWatch, pod *corev1.Pod) error {
		evicted = append(evicted, pod.Name)
		return elsewhere(c, pod)
	}, healthy(), node(), member(0), second, member(2))
	var out bytes.Buffer
	if err := k.Drain(t.Context(), &out, "node-a"); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got := strings.Join(evicted, " "); got != "first--a--1-0 first--b--2-0" {
		t.Errorf("evicted %s", got)
	}
	var after corev1.Node
	if err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(node()), &after); err != nil ||
		!after.Spec.Unschedulable {
		t.Errorf("the node is not cordoned: %v", err)
	}
	if !strings.Contains(out.String(), "first--b--2-0 is ready on node node-d") ||
		!strings.Contains(out.String(), "kubectl uncordon node-a") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestDrainWaitsForTheQuorum(t *testing.T) {
	unwell := healthy()
	unwell.Status.Conditions[1].Status, unwell.Status.Conditions[1].Message = metav1.ConditionFalse,
		"2 of 3 members reach each other"
	learning := healthy()
	learning.Status.Members[2].Role, learning.Status.Members[2].State = "Learner", "takes its state from the others"
	unready := member(2)
	unready.Status.Conditions = nil
	master := healthy()
	master.Status.Partitions = []v1alpha1.PartitionStatus{
		{Number: 0, Master: 2}, {Number: 4, Master: 2, Backups: []int32{1}}, {Number: 5, Master: 1},
	}
	tests := []struct {
		name    string
		cluster *v1alpha1.GeoRegisterCluster
		third   *corev1.Pod
		want    string
	}{
		{"no quorum", unwell, member(2), "QuorumHealthy of cluster first is False: 2 of 3 members reach each other"},
		{"a learner", learning, member(2), "member 3 of cluster first is no voter: takes its state from the others"},
		{"a master", master, member(2),
			"the operator has others take over what it is master or backup of: shards 4, 5"},
		{"a pod that is not ready", healthy(), unready, "pod first--c--3-0 of the same cluster is not ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Eviction is refused by connect: nothing may be evicted.
			k := connect(t, nil, tt.cluster, node(), member(0), member(1), tt.third)
			ctx, end := context.WithCancel(t.Context())
			end()
			err := k.Drain(ctx, &bytes.Buffer{}, "node-a")
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "stays cordoned") {
				t.Errorf("got %v; want %s", err, tt.want)
			}
		})
	}
}

func TestDrainHonoursTheBudget(t *testing.T) {
	tries := 0
	elsewhere := remake(func(p *corev1.Pod) { p.Spec.NodeName = "node-d" })
	k := connect(t, func(c client.WithWatch, pod *corev1.Pod) error {
		if tries++; tries == 1 {
			return apierrors.NewTooManyRequests("the budget is used up", 1)
		}
		return elsewhere(c, pod)
	}, healthy(), node(), member(0), member(1), member(2))
	if err := k.Drain(t.Context(), &bytes.Buffer{}, "node-a"); err != nil || tries != 2 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestDrainLeavesWhatCanNotMove(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-first--a--1"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	onNode := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-a"}},
	}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{onNode}},
	}
	homeless := remake(func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available",
		}}
	})
	var out bytes.Buffer
	k := connect(t, homeless, healthy(), node(), member(0), member(1), member(2), claim, volume)
	if err := k.Drain(t.Context(), &out, "node-a"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "first--a--1-0 waits for the node") ||
		!strings.Contains(out.String(), "delete the claim data-first--a--1:") {
		t.Errorf("got:\n%s", out.String())
	}
}
