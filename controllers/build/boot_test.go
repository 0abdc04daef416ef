package build

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// Members are started with the number of shards that their disks were made for, whatever spec.shards became since.
func TestBootHasTheFoundedShards(t *testing.T) {
	in := load(t, "curp")
	founded := in.View
	raised := int32(5)
	in.Cluster.Spec.Shards = &raised
	split := founded
	split.Founded = 3
	split.Partitions = append(split.Partitions[:3:3], view.Partition{Split: 1})
	for _, tt := range []struct {
		name    string
		view    view.View
		started int
		want    int
	}{
		{"nothing was started", view.View{}, 0, 5},
		{"members were started, and wait", view.View{}, 3, 3},
		{"members were started, and the view has no partitions yet", view.View{Members: founded.Members}, 3, 3},
		{"founded", founded, 0, 3},
		{"split", split, 5, 3},
	} {
		in.View, in.Shards = tt.view, tt.started
		if got := BootShards(boot(in)); got != tt.want {
			t.Errorf("%s: members are started with %d shards, want %d", tt.name, got, tt.want)
		}
	}
	if got := BootShards(&corev1.ConfigMap{Data: map[string]string{BootKey: "shards: {"}}); got != 0 {
		t.Errorf("a damaged file says %d", got)
	}
	other := load(t, "minimal")
	other.Shards = 1 + other.Cluster.Spec.ShardCount() // by a default that was another one
	if got := BootShards(boot(other)); got != other.Shards {
		t.Errorf("without masters members are started with %d shards", got)
	}
	other.View.Founded = 7
	if got := BootShards(boot(other)); got != 7 {
		t.Errorf("without masters members of a view of 7 shards are started with %d", got)
	}
}

// Members are told how large values are stored, and nothing of it where they are stored whole.
func TestBootTellsOfFragments(t *testing.T) {
	in := load(t, "minimal")
	if text := boot(in).Data[BootKey]; strings.Contains(text, "erasureCoding") {
		t.Errorf("without erasureCoding: %s", text)
	}
	for threshold, want := range map[int32]string{0: "thresholdBytes: 65536", 2048: "thresholdBytes: 2048"} {
		in.Cluster.Spec.Gus = &v1alpha1.GusOptions{ErasureCoding: &v1alpha1.ErasureCoding{DataFragments: 3}}
		if threshold > 0 {
			in.Cluster.Spec.Gus.ErasureCoding.ThresholdBytes = &threshold
		}
		if text := boot(in).Data[BootKey]; !strings.Contains(text, "dataFragments: 3") ||
			!strings.Contains(text, want) {
			t.Errorf("want %q in %s", want, text)
		}
	}
}
