//go:build controlplane

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	storeclient "github.com/georegister/georegister/client"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/replica/view"
)

// fill writes values of a size, under keys that no load uses, and returns what reads them again.
func (w *World) fill(c *v1alpha1.GeoRegisterCluster, values, size int) (check func()) {
	w.t.Helper()
	return w.fillAt(c, values, size, sites...)
}

// fillAt has the members of the first of some sites that answers do so.
func (w *World) fillAt(c *v1alpha1.GeoRegisterCluster, values, size int, sites ...string) (check func()) {
	w.t.Helper()
	var endpoints []storeclient.Endpoint
	for _, site := range sites {
		endpoints = append(endpoints, storeclient.Endpoint{Site: site, Address: "passthrough:///" + site})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a bound that no test reaches
	w.t.Cleanup(cancel)
	store, err := w.kubelet.connect(ctx, c.Name, endpoints, impatience)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = store.Close() }) // of a store that may be gone
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, size) }
	for i := range values {
		eventually(w.t, "a value is written", func() string {
			if err := store.Set(ctx, fmt.Sprintf("filled-%d", i), value(i)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	return func() {
		w.t.Helper()
		for i := range values {
			eventually(w.t, "a value is read", func() string {
				got, err := store.Get(ctx, fmt.Sprintf("filled-%d", i))
				if err != nil {
					return err.Error()
				}
				if !bytes.Equal(got, value(i)) {
					w.t.Fatalf("value %d has %d bytes instead of %d, or other ones", i, len(got), size)
				}
				return ""
			})
		}
	}
}

// consent asks to go on with what a member holds.
func consent(member int32, epoch int64) func(*v1alpha1.GeoRegisterClusterSpec) {
	return func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Recovery = &v1alpha1.Recovery{TrustMember: member, Epoch: epoch}
	}
}

// A majority loses its volumes. Nothing is given up without a consent that names the epoch; with it, once.
func TestALostQuorumIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator := StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", nil)
	w.serving(c)
	before := w.record(c)
	w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionFalse)

	// With a quorum, a consent gives nothing up.
	w.change(c, consent(1, 1))
	eventually(t, "the condition tells that nothing is recovered", func() string {
		is := w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionFalse)
		if !strings.Contains(is.Message, "recovery does nothing") {
			return is.Message
		}
		return ""
	})
	w.holds(c, before)
	// Nor does one that is left lying there when a majority is down for a while.
	down := []string{build.PodName(c.Name, before.Members[1]), build.PodName(c.Name, before.Members[2])}
	for _, pod := range down {
		w.kubelet.Hold(pod)
	}
	eventually(t, "the condition tells that the members may come back", func() string {
		if is := w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionFalse); is.Reason != "QuorumMayComeBack" {
			return is.Reason + ": " + is.Message
		}
		return ""
	})
	for _, pod := range down {
		w.kubelet.Release(pod)
	}
	w.holds(c, before)
	w.change(c, consent(1, 7)) // of another epoch
	w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionFalse)

	// The member that is to be trusted holds these values: it coordinates their writes.
	check := w.fillAt(c, 5, 1000, "ca")
	check()
	w.loseVolume(c, before.Members[1])
	w.loseVolume(c, before.Members[2])
	lost := w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionTrue)
	for _, want := range []string{"member 2 (site va)", "member 3 (site ir)", "trustMember"} {
		if !strings.Contains(lost.Message, want) {
			t.Errorf("QuorumLost does not name %q: %s", want, lost.Message)
		}
	}
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionFalse)
	operator.Stop() // the next one finds out as well
	operator = StartOperator(t, w.config, settings(w.namespace))
	for range 3 { // looks of the operator, each at something new
		w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.DeletionProtection = !s.DeletionProtection })
		w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionTrue)
	}
	if v := w.record(c); v.Digest() != before.Digest() {
		t.Fatalf("without a consent for its epoch the view became %+v", v)
	}

	w.change(c, consent(1, 1))
	after := w.replaced(c, 4)
	w.consists(after, "1@ca", "4@va", "5@ir")
	recovered := func() v1alpha1.RecoveredStatus {
		w.get(c)
		if c.Status.Recovered == nil {
			t.Fatalf("the status tells of no recovery: %s", conditions(c))
		}
		return *c.Status.Recovered
	}
	is := recovered()
	if is.Epoch != 1 || is.TrustedMember != 1 || !slices.Equal(is.GivenUp, []int32{2, 3}) || is.Message == "" {
		t.Errorf("the status tells of the recovery %+v", is)
	}
	w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionFalse)
	check()
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)

	// The same manifest is applied again, and another operator reads it.
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Recovery = nil })
	w.change(c, consent(1, 1))
	operator.Stop()
	StartOperator(t, w.config, settings(w.namespace))
	w.noticed(c)
	load.Progress(50)
	w.holds(c, after)
	if again := recovered(); fmt.Sprint(again) != fmt.Sprint(is) {
		t.Errorf("the recovery %+v became %+v", is, again)
	}
	load.Finish()
}

// Of five members three lose their volumes. Of the two that are left one is trusted, and the other is stopped before
// that one serves: the two could each serve what the other does not know.
func TestARecoveryStopsWhoIsLeftBesides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", five)
	w.serving(c)
	check := w.fillAt(c, 5, 1000, "ca")
	before := w.record(c)
	left := build.PodName(c.Name, before.Members[1])
	uid := w.pods()[left]
	for _, m := range before.Members[2:] {
		w.loseVolume(c, m)
	}
	w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionTrue)
	w.change(c, consent(1, 1))
	eventually(t, "the trusted member serves alone", func() string {
		w.get(c)
		if v := c.Status.View; v == nil || v.Epoch < 2 || c.Status.Quorum == "0/1" {
			return fmt.Sprintf("view %+v, quorum %s: %s", v, c.Status.Quorum, conditions(c))
		}
		return ""
	})
	if _, there := w.pods()[left]; there || uid == "" {
		t.Errorf("pod %s of a member that was given up is there while the trusted one serves", left)
	}
	after := w.replaced(c, 4)
	w.consists(after, "1@ca", "6@va", "7@ir", "8@or", "9@jp")
	if is := c.Status.Recovered; is == nil || !slices.Equal(is.GivenUp, []int32{2, 3, 4, 5}) {
		t.Errorf("the status tells of the recovery %+v", is)
	}
	check()
}

// followed waits until all members have heard of all that a shard has.
func (w *World) followed(c *v1alpha1.GeoRegisterCluster, v view.View, shard int) {
	w.t.Helper()
	talk := members.NewClient()
	w.t.Cleanup(talk.Close)
	eventually(w.t, "all follow the shard", func() string {
		var targets []members.Target
		for _, m := range v.Members {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PodName(c.Name, m)}}
			w.get(pod)
			targets = append(targets,
				members.Target{
					ID: m.ID, ClusterID: v.Cluster,
					Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(build.AdminPort)),
				})
		}
		var lengths []uint64
		for _, a := range talk.Ask(w.ctx, w.namespace+"/"+c.Name, targets) {
			if a.Err != nil || len(a.Report.Partitions) <= shard {
				return fmt.Sprint(a.Err)
			}
			lengths = append(lengths, a.Report.Partitions[shard].Length)
		}
		if slices.Min(lengths) == 0 || slices.Min(lengths) != slices.Max(lengths) {
			return fmt.Sprint(lengths)
		}
		return ""
	})
}

// With masters all who are left go on: two of five members, with what they hold of each shard but one, which goes on
// with what they have followed when that is asked for.
func TestALostQuorumOfMastersIsRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator := StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) { five(s); masters(s) })
	w.serving(c)
	before := w.record(c)
	written := func() (all []string) {
		for shard := range before.Partitions {
			all = append(all, keyOf(shard, len(before.Partitions)))
		}
		return all
	}()
	to := w.connect(c, before.Members[0].Site, within)
	for _, key := range written {
		if err := to.Set(w.ctx, key, []byte("kept")); err != nil {
			t.Fatal(err)
		}
	}
	left := before.Members[:2] // of shard 2 all three are among the others
	w.followed(c, before, 2)
	operator.Stop() // it would have others fetch what the pods that are about to end hold
	for _, m := range before.Members[2:] {
		w.loseVolume(c, m)
	}
	StartOperator(t, w.config, settings(w.namespace))
	eventually(t, "the condition names the shard that is lost", func() string {
		is := w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionTrue)
		before = w.record(c) // a backup that ended a little before the others may have been dropped
		if !strings.Contains(is.Message, fmt.Sprintf("{epoch: %d, emptyShards: [2]}", before.Epoch)) {
			return is.Message
		}
		return ""
	})
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Recovery = &v1alpha1.Recovery{Epoch: int64(before.Epoch)}
	})
	eventually(t, "the condition names what is not asked for", func() string {
		if is := w.condition(c, v1alpha1.ConditionQuorumLost, metav1.ConditionTrue); !strings.Contains(is.Message,
			"nobody who is left is certain to hold all of shards 2") {
			return is.Message
		}
		return ""
	})
	if v := w.record(c); v.Digest() != before.Digest() {
		t.Fatalf("without a consent for all shards that nobody holds the view became %+v", v)
	}
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Recovery.EmptyShards = []int32{2} })
	eventually(t, "there are five members again", func() string {
		v := w.record(c)
		if v.Joint() || v.Size() != 5 || len(v.Witnesses) != 5 || v.Index(left[0].ID) < 0 || v.Index(left[1].ID) < 0 {
			w.get(c)
			return fmt.Sprintf("%+v: %s", v, conditions(c))
		}
		return ""
	})
	w.serving(c)
	if is := c.Status.Recovered; is == nil || len(is.EmptyShards) > 0 || len(is.GivenUp) != 3 ||
		!strings.Contains(is.Message, "all of shards 2: these go on from the copy") {
		t.Errorf("the status tells of the recovery %+v", is)
	}
	for shard, key := range written {
		if value, err := to.Get(w.ctx, key); string(value) != "kept" {
			t.Errorf("shard %d has %q: %v", shard, value, err)
		}
	}
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)
	load.Finish()
}
