package controllers

import (
	"fmt"
	"net"
	"strconv"
	"time"

	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
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

// targetOf is where a process in a pod can be called at a port, or why it can't.
func targetOf(id view.MemberID, clusterID string, pod *corev1.Pod, port int) (target members.Target, silence string) {
	switch {
	case pod == nil:
		return target, "has no pod"
	case pod.Status.PodIP == "":
		return target, "its pod has no address yet"
	}
	return members.Target{
		ID: id, ClusterID: clusterID, Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)),
	}, ""
}

// memberOf is where a member can be called, or why it can't.
func memberOf(s *world.Snapshot, m *world.Member) (members.Target, string) {
	return targetOf(m.ID, s.ClusterID, m.Pod, build.AdminPort)
}

// witnessOf is where the witness in a pod can be called, or why it can't.
func witnessOf(s *world.Snapshot, m *world.Member) (members.Target, string) {
	id := m.ID
	if !s.Cluster.Spec.Dedicated() {
		id = membership.WitnessOf(m.ID)
	}
	return targetOf(id, s.ClusterID, m.Pod, build.WitnessPort)
}

// witnessing are those in whose pods witnesses are: members, or dedicated witnesses.
func witnessing(s *world.Snapshot) []world.Member {
	if s.Cluster.Spec.Dedicated() {
		return s.Witnesses
	}
	return s.Members
}

// reason is an error without the wrapping of gRPC; empty if there is none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := grpcstatus.FromError(err); ok {
		return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	}
	return err.Error()
}
