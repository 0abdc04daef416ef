package plugin

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/georegister/georegister/api/v1alpha1"
)

// masters is a cluster with a master at each site, and three more.
func masters() *v1alpha1.GeoRegisterCluster {
	c := healthy()
	shards := int32(6)
	c.Spec.Protocol, c.Spec.Shards = "CURP", &shards
	for i := range shards {
		c.Status.Partitions = append(c.Status.Partitions,
			v1alpha1.PartitionStatus{Number: i, Term: 1, Master: int64(i%3 + 1), Serving: true})
	}
	return c
}

func TestMoveEditsHomesAndWaits(t *testing.T) {
	c := masters()
	c.Spec.Homes = []string{"", "c"}
	k := connect(t, nil, c)
	looks := 0
	k.Client = interceptor.NewClient(k.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if err := inner.Get(ctx, key, o, options...); err != nil {
				return err
			}
			looks++ // the operator goes on between two looks
			seen := o.(*v1alpha1.GeoRegisterCluster)
			p := &seen.Status.Partitions[3]
			switch {
			case looks == 3:
				p.Backups = []int32{2}
			case looks == 4:
				p.Master, p.Serving, p.Message = 2, false, "its master, member 2, does not serve yet"
			case looks > 4:
				p.Master = 2
			}
			return nil
		},
	})
	var out bytes.Buffer
	if err := k.Move(t.Context(), &out, "first", 3, "b"); err != nil {
		t.Fatal(err)
	}
	want := `the home of shard 3 is b; spec.homes is 1: c, 3: b
waiting for a member at b to have the state; member 1 serves meanwhile
a backup at b has the state; member 1 serves still
member 2 at b takes over: its master, member 2, does not serve yet
member 2 at b is the master of shard 3, and serves
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	after := &v1alpha1.GeoRegisterCluster{}
	if err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(c), after); err != nil ||
		fmt.Sprintf("%q", after.Spec.Homes) != `["" "c" "" "b"]` {
		t.Errorf("homes %q: %v", after.Spec.Homes, err)
	}
	out.Reset()
	ctx, end := context.WithCancel(t.Context())
	end()
	err := k.Move(ctx, &out, "first", 3, "") // what another one has is left
	if err == nil || !strings.Contains(err.Error(), "the move goes on") ||
		!strings.Contains(out.String(), "the home of shard 3 is a; spec.homes is 1: c\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// A shard that is about to be split off gets its home beforehand.
func TestMoveAwaitsASplit(t *testing.T) {
	c := masters()
	last := c.Status.Partitions[5]
	c.Status.Partitions = c.Status.Partitions[:5]
	meta.SetStatusCondition(&c.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue,
			Reason: "SplittingShards", Message: "There are 5 of 6 shards"})
	k := connect(t, nil, c)
	looks := 0
	k.Client = interceptor.NewClient(k.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if err := inner.Get(ctx, key, o, options...); err != nil {
				return err
			}
			if looks++; looks > 2 {
				seen := o.(*v1alpha1.GeoRegisterCluster)
				seen.Status.Partitions = append(seen.Status.Partitions, last)
				seen.Status.Partitions[5].Master = 2
			}
			return nil
		},
	})
	var out bytes.Buffer
	if err := k.Move(t.Context(), &out, "first", 5, "b"); err != nil {
		t.Fatal(err)
	}
	want := `the home of shard 5 is b; spec.homes is 5: b
shard 5 is not split off yet: There are 5 of 6 shards
member 2 at b is the master of shard 5, and serves
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestMoveRefuses(t *testing.T) {
	paused := masters()
	paused.Spec.Paused = true
	for _, tt := range []struct {
		cluster *v1alpha1.GeoRegisterCluster
		shard   int
		site    string
		want    string
	}{
		{healthy(), 0, "b", "cluster first has protocol Gryff, which has no masters that could move"},
		{masters(), 6, "b",
			"cluster first has no shard 6; they are numbered from 0 to 5, and raising spec.shards splits off more"},
		{masters(), 0, "d", `cluster first has no site "d" in spec.sites; there are a, b, c`},
		{paused, 0, "b", "cluster first is paused"},
	} {
		err := connect(t, nil, tt.cluster).Move(t.Context(), &bytes.Buffer{}, "", tt.shard, tt.site)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("shard %d to %s: %v, want %s", tt.shard, tt.site, err, tt.want)
		}
	}
}
