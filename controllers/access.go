package controllers

import (
	"fmt"
	"net"
	"strconv"
	"time"

	grpcstatus "google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
)

// access is what clusters are reached by: the apiserver, and their members. Whoever observes and whoever carries out
// share it.
type access struct {
	options Options
	client  client.Client // reads from the cache
	live    client.Reader // reads from the apiserver
	applier *apply.Applier
	slots   slots
	now     func() time.Time
}

// targetOf is where a member can be called, or why it can't.
func targetOf(m *world.Member, clusterID string) (members.Target, string) {
	target := members.Target{ID: m.ID, ClusterID: clusterID}
	host, silence := hostOf(m)
	target.Address = net.JoinHostPort(host, strconv.Itoa(build.AdminPort))
	return target, silence
}

// witnessOf is where the witness in a pod can be called, or why it can't.
func witnessOf(s *world.Snapshot, m *world.Member) (members.Target, string) {
	target := members.Target{ID: m.ID, ClusterID: s.ClusterID}
	if !s.Cluster.Spec.Dedicated() {
		target.ID = membership.WitnessOf(m.ID)
	}
	host, silence := hostOf(m)
	target.Address = net.JoinHostPort(host, strconv.Itoa(build.WitnessPort))
	return target, silence
}

// hostOf is the address of a pod, or why it has none.
func hostOf(m *world.Member) (host, silence string) {
	switch {
	case m.Pod == nil:
		return "", "has no pod"
	case m.Pod.Status.PodIP == "":
		return "", "its pod has no address yet"
	}
	return m.Pod.Status.PodIP, ""
}

// witnessing are those in whose pods witnesses are: members, or dedicated witnesses.
func witnessing(s *world.Snapshot) []*world.Member {
	if s.Cluster.Spec.Dedicated() {
		return pointers(s.Witnesses)
	}
	return pointers(s.Members)
}

func pointers(all []world.Member) (to []*world.Member) {
	for i := range all {
		to = append(to, &all[i])
	}
	return to
}

// reason is an error without the wrapping of gRPC.
func reason(err error) string {
	if s, ok := grpcstatus.FromError(err); ok && err != nil {
		return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	}
	return err.Error()
}
