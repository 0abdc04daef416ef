//go:build controlplane

package controlplane

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/view"
)

// masters asks for a protocol with masters: one for each site.
func masters(s *v1alpha1.GeoRegisterClusterSpec) { s.Protocol, s.Shards = "CURP", nil }

// master is the member that is the master of a shard, by the record.
func (w *World) master(c *v1alpha1.GeoRegisterCluster, shard int) view.Member {
	w.t.Helper()
	v := w.record(c)
	return v.Members[v.Index(v.Partitions[shard].Master)]
}

// succeeded waits until another member than one serves a shard, as the status tells.
func (w *World) succeeded(c *v1alpha1.GeoRegisterCluster, shard int, than view.Member) {
	w.t.Helper()
	since := time.Now()
	eventually(w.t, fmt.Sprintf("somebody else is master of shard %d", shard), func() string {
		w.get(c)
		for _, p := range c.Status.Partitions {
			if p.Number == int32(shard) && p.Master != int64(than.ID) && p.Serving {
				return ""
			}
		}
		return fmt.Sprintf("partitions %+v; %s", c.Status.Partitions, conditions(c))
	})
	w.t.Logf("another member was master of shard %d after %v", shard, time.Since(since).Round(time.Millisecond))
}

// keyOf is a key of a shard that no load uses.
func keyOf(shard, shards int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("mine-", i); runtime.Shard(key, shards) == shard {
			return key
		}
	}
}

// Without an operator what has a master goes on, and what has none says so until there is an operator again.
func TestAMasterIsReplaced(t *testing.T) {
	t.Parallel()
	w, c, operator, load := foundedAs(t, masters)
	w.condition(c, v1alpha1.ConditionPartitionsServing, metav1.ConditionTrue)
	// Who is backup of what depends on the order in which members started: a shard that the lost one has no part in is
	// looked up.
	lost := w.master(c, 1)
	whole := slices.IndexFunc(w.record(c).Partitions, func(p view.Partition) bool {
		return p.Master != lost.ID && !slices.Contains(p.Backups, lost.ID) &&
			!slices.Contains(p.Witnesses, membership.WitnessOf(lost.ID))
	})
	if whole < 0 {
		t.Fatalf("member %d has a part in every partition: %+v", lost.ID, w.record(c).Partitions)
	}
	other := w.master(c, whole)
	to := w.connect(c, other.Site, within)
	operator.Stop()
	w.kubelet.Hold(build.PodName(c.Name, lost))
	load.Progress(20)
	if err := to.Set(w.ctx, keyOf(whole, 3), []byte("v")); err != nil {
		t.Errorf("a shard whose master lives: %v", err)
	}
	if err := w.connect(c, other.Site, time.Second).Set(w.ctx, keyOf(1, 3), []byte("v")); err == nil {
		t.Error("a shard whose master is lost answered")
	}
	eventually(t, "a member says what is missing", func() string {
		said := w.kubelet.quorum(w.ctx, build.PodName(c.Name, other))
		if !strings.Contains(said, fmt.Sprintf("partition 1, member %d", lost.ID)) {
			return said
		}
		return ""
	})

	StartOperator(t, w.config, settings(w.namespace))
	w.succeeded(c, 1, lost)
	if err := to.Set(w.ctx, keyOf(1, 3), []byte("w")); err != nil {
		t.Errorf("a shard that has a master again: %v", err)
	}
	w.kubelet.Release(build.PodName(c.Name, lost))
	w.serving(c)
	if home := w.master(c, 1); home.Site != lost.Site {
		t.Errorf("the master at rest is at %s, and its home is %s", home.Site, lost.Site)
	}
	load.Progress(50)
	load.Finish()
}

// connect is a client of one site, which waits for an answer for a time.
func (w *World) connect(c *v1alpha1.GeoRegisterCluster, site string, patience time.Duration) *client.Client {
	w.t.Helper()
	to, err := client.Dial(w.ctx, client.Options{
		Endpoints: []client.Endpoint{{Site: site, Address: "passthrough:///" + site}}, InOrder: true, Timeout: patience,
		AttemptTimeout: patience,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, site string) (net.Conn, error) {
			return w.kubelet.dialSite(ctx, c.Name, site)
		})},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = to.Close() }) // of a store that may be gone
	return to
}

// Before a pod is restarted others take over what its member is master and backup of.
func TestMastersHandOverBeforeAnUpdate(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, masters)
	before := w.record(c)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	w.updated(c, "georegister:next")
	w.serving(c)
	load.Progress(50)
	load.Finish()
	after := w.record(c)
	for i, p := range after.Partitions {
		if p.Term <= before.Partitions[i].Term || len(p.Formers) > 0 {
			t.Errorf("partition %d was not handed over: %+v", i, p)
		}
	}
	if least := w.kubelet.LeastRunning(); least < 2 {
		t.Errorf("%d members ran at a moment of the update", least)
	}
}

// A member that is lost with its disk, and so with the witness beside it, is replaced by another one with a witness;
// and so is the record of the view, if that is lost.
func TestAMemberWithAMasterIsReplaced(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, masters)
	lost := w.master(c, 0)
	w.loseVolume(c, lost)
	eventually(t, "another member has joined", func() string {
		if v := w.record(c); v.Joint() || v.Size() != 3 || v.Index(lost.ID) >= 0 || len(v.Witnesses) != 3 {
			w.get(c)
			return fmt.Sprintf("the view is %+v: %s", v, conditions(c))
		}
		return ""
	})
	w.serving(c)
	v := w.record(c)
	if next := v.Members[2]; next.ID != 7 || v.Witnesses[2].ID != 8 || v.Witnesses[2].Beside != 7 {
		t.Errorf("member %d came, and witnesses are %+v", next.ID, v.Witnesses)
	}
	if err := w.api.Delete(w.ctx, w.recordObject(c)); err != nil {
		t.Fatal(err)
	}
	w.holds(c, v) // made again from what members hold, partitions and witnesses included
	load.Progress(50)
	load.Finish()
}

// Operators are killed, one after the other, at the writes by which a master is replaced: records, what members are
// told, and the lives of witnesses.
func TestOperatorsAreKilledWhileAMasterIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fuse := NewFuse()
	operator := StartValvedOperator(t, w.config, settings(w.namespace), fuse)
	c := w.create("store", masters)
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)
	lost := w.master(c, 0)
	fuse.Arm()
	w.kubelet.Hold(build.PodName(c.Name, lost))
	const most = 6 // of some that could be: each costs seconds
	for range most {
		eventually(t, "an operator is killed on the way", func() string {
			select {
			case <-fuse.Blown():
				return ""
			default:
				return "it lives"
			}
		})
		operator.Stop()
		fuse.Renew()
		operator = StartValvedOperator(t, w.config, settings(w.namespace), fuse)
	}
	operator.Stop()
	StartOperator(t, w.config, settings(w.namespace))
	w.succeeded(c, 0, lost)
	w.kubelet.Release(build.PodName(c.Name, lost))
	w.noticed(c)
	w.serving(c)
	load.Progress(50)
	load.Finish()
}

// Masters of more shards than sites move to other homes and back while clients work, and what is not moved stays as it
// is.
func TestMastersMove(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) {
		masters(s)
		shards := int32(7)
		s.Shards = &shards
	})
	move := func(homes ...string) {
		t.Helper()
		w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Homes = homes })
		eventually(t, "masters are at home", func() string {
			v := w.record(c)
			for i, p := range v.Partitions {
				if home := c.Spec.Home(i); v.Members[v.Index(p.Master)].Site != home || len(p.Formers) > 0 {
					return fmt.Sprintf("partition %d is not at %s: %+v", i, home, p)
				}
			}
			return ""
		})
		w.serving(c)
		load.Progress(20)
	}
	before := w.record(c)
	move("va", "", "", "ir")
	move("va", "", "", "ca", "ca")
	move()
	after := w.record(c)
	for i, p := range after.Partitions {
		moved := i == 0 || i == 3 || i == 4
		if moved != (p.Term > before.Partitions[i].Term) || p.Master != before.Partitions[i].Master {
			t.Errorf("partition %d was %+v and is %+v", i, before.Partitions[i], p)
		}
	}
	load.Finish()
}
