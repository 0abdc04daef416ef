package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// waits makes a member's container one that waits for a reason.
func waits(s *world.Snapshot, id view.MemberID, reason, message string) {
	silent(s, id)
	pod := s.Member(id).Pod
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: build.Container, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}}
}

// unplaced has no node take a member's pod, whose site is to be in a pool.
func unplaced(s *world.Snapshot, id view.MemberID) {
	silent(s, id)
	m := s.Member(id)
	s.Cluster.Spec.Sites[id-1].NodePool = &v1alpha1.NodePool{Value: "nowhere"}
	m.StatefulSet.Spec.Template.Spec.NodeSelector = build.NodeSelector(s.Cluster, m.Site)
	m.Pod.Spec.NodeName, m.Pod.Status.Phase = "", corev1.PodPending
	m.Pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"},
	}
}

// unmade takes a member's pod, with what an event of an object says.
func unmade(s *world.Snapshot, id view.MemberID, warnings ...world.Warning) {
	silent(s, id)
	s.Member(id).Pod, s.Member(id).Silence, s.Member(id).Warnings = nil, "has no pod", warnings
}

const quota = `create Pod demo--b--2-0 in StatefulSet demo--b--2 failed error: pods "demo--b--2-0" is forbidden: exceeded quota: pods`

// A cluster is ready only while it serves as it is asked to. Whatever keeps it from that is named in Ready, and in
// Degraded and Stalled with what the apiserver or a kubelet says of the cause, if somebody has to mend it.
func TestReadyNamesWhatIsNotAsAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*world.Snapshot)
		state   v1alpha1.State
		ready   metav1.ConditionStatus
		reason  string // of Ready
		says    string // in Ready
		stalled bool
	}{
		"at rest": {func(*world.Snapshot) {}, v1alpha1.StateReady, metav1.ConditionTrue, "AsAsked", "", false},
		"paused": {func(s *world.Snapshot) {
			s.Cluster.Spec.Paused = true
		}, v1alpha1.StatePaused, metav1.ConditionFalse, "Paused",
			"spec.paused", false},
		"a member is away": {func(s *world.Snapshot) {
			silent(s, 2)
		}, v1alpha1.StateDegraded, metav1.ConditionFalse, "MemberDown",
			"connection refused", false},
		"a majority is away": {func(s *world.Snapshot) {
			silent(s, 2)
			silent(s, 3)
		}, v1alpha1.StateUnavailable, metav1.ConditionFalse,
			"QuorumLost", "connection refused", false},
		"members start": {func(s *world.Snapshot) {
			empty(s)
			s.Members[1].Report = nil
		}, v1alpha1.StateStarting, metav1.ConditionFalse,
			facts.NotFounded, "no view yet", false},
		"a pool without nodes before the founding": {func(s *world.Snapshot) {
			empty(s)
			unplaced(s, 2)
			s.EmptyPools = []string{"b"}
		},
			v1alpha1.StateStarting, metav1.ConditionFalse, facts.NodePoolEmpty,
			"waits for a node with the label topology.kubernetes.io/zone=nowhere, and there is none: correct " +
				"spec.sites[1].nodePool", false},
		"a pool without nodes later": {func(s *world.Snapshot) { unplaced(s, 2); s.EmptyPools = []string{"b"} },
			v1alpha1.StateDegraded, metav1.ConditionFalse, facts.NodePoolEmpty, "0/3 nodes are available", false},
		"a pool whose nodes are full": {func(s *world.Snapshot) { empty(s); unplaced(s, 2) },
			v1alpha1.StateStarting, metav1.ConditionFalse, facts.PodNotPlaced, "0/3 nodes are available", false},
		"a member is to be restarted": {func(s *world.Snapshot) {
			s.Cluster.Spec.Image = "another:1"
		}, v1alpha1.StateChanging,
			metav1.ConditionFalse, "", "", false},
		"a quota before the founding": {func(s *world.Snapshot) {
			empty(s)
			unmade(s, 2, world.Warning{Kind: "StatefulSet", Reason: "FailedCreate", Message: quota})
		}, v1alpha1.StateStalled, metav1.ConditionFalse, facts.PodRefused, "exceeded quota", true},
		"a quota later": {func(s *world.Snapshot) {
			unmade(s, 2, world.Warning{Kind: "StatefulSet", Reason: "FailedCreate", Message: quota})
		}, v1alpha1.StateStalled, metav1.ConditionFalse, facts.PodRefused, "exceeded quota", true},
		"a pod that is just not there": {func(s *world.Snapshot) {
			unmade(s, 2)
		}, v1alpha1.StateDegraded, metav1.ConditionFalse,
			"MemberDown", "has no pod", false},
		"an image's name": {func(s *world.Snapshot) {
			empty(s)
			waits(s, 2, "InvalidImageName", `couldn't parse image name "A B"`)
		},
			v1alpha1.StateStalled, metav1.ConditionFalse, facts.ImageNotPulled,
			`InvalidImageName: couldn't parse image name "A B"`, true},
		"an image that is not there": {func(s *world.Snapshot) { waits(s, 2, "ErrImagePull", "not found") },
			v1alpha1.StateStalled, metav1.ConditionFalse, facts.ImageNotPulled, "ErrImagePull: not found", true},
		"a crash": {func(s *world.Snapshot) { waits(s, 2, "CrashLoopBackOff", "back-off 10s") }, v1alpha1.StateDegraded,
			metav1.ConditionFalse, facts.ContainerCrashes, "CrashLoopBackOff", false},
		"a class that is not there": {func(s *world.Snapshot) {
			empty(s)
			m := s.Member(2)
			m.Report, m.Volume.Status.Phase, m.Pod.Status.Phase = nil, corev1.ClaimPending, corev1.PodPending
			m.Pod.Status.Conditions = append(m.Pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
				Status: corev1.ConditionFalse, Message: "pod has unbound immediate PersistentVolumeClaims"})
			m.Warnings = []world.Warning{
				{Kind: "PersistentVolumeClaim", Reason: "ProvisioningFailed", Message: `storageclass "fsat" not found`},
			}
		}, v1alpha1.StateStalled, metav1.ConditionFalse, facts.VolumeNotProvided,
			`storageclass "fsat" not found`, true},
		"a zone that is not there": {func(s *world.Snapshot) {
			empty(s)
			m := s.Member(2)
			m.Report, m.Pod.Status.Phase = nil, corev1.PodPending
			m.Pod.Status.Conditions = append(m.Pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
				Status: corev1.ConditionFalse, Message: "0/3 nodes are available"})
		}, v1alpha1.StateStarting, metav1.ConditionFalse, facts.PodNotPlaced, "0/3 nodes are available", false},
		"what a pod mounts": {func(s *world.Snapshot) {
			silent(s, 2)
			m := s.Member(2)
			m.Pod.Status.Phase, m.Warnings = corev1.PodPending,
				[]world.Warning{{Kind: "Pod", Reason: "FailedMount", Message: "timed out"}}
		}, v1alpha1.StateDegraded, metav1.ConditionFalse, facts.PodNotStarted, "FailedMount: timed out", false},
		"all disks": {func(s *world.Snapshot) {
			gone(s, 1)
			gone(s, 2)
			gone(s, 3)
		}, v1alpha1.StateStalled, metav1.ConditionFalse,
			"MembersLost", "", true},
		"a number of members": {func(s *world.Snapshot) {
			s.Cluster.Spec.Sites = append(s.Cluster.Spec.Sites, v1alpha1.Site{Name: "z"})
		}, v1alpha1.StateStalled, metav1.ConditionFalse, "NumberOfMembers", "spec.sites", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(3)
			tt.change(s)
			status := Next(*s).Status
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
			if ready == nil || stalled == nil {
				t.Fatalf("the conditions are %v", status.Conditions)
			}
			if ready.Status != tt.ready || tt.reason != "" && ready.Reason != tt.reason ||
				!strings.Contains(ready.Message, tt.says) {
				t.Errorf("Ready is %s %s: %s", ready.Status, ready.Reason, ready.Message)
			}
			if (stalled.Status == metav1.ConditionTrue) != tt.stalled ||
				tt.stalled && !strings.Contains(stalled.Message, tt.says) {
				t.Errorf("Stalled is %s %s: %s", stalled.Status, stalled.Reason, stalled.Message)
			}
			if tt.stalled && tt.reason != "NumberOfMembers" && tt.reason != "MembersLost" &&
				!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded) {
				t.Errorf("Degraded is not True beside %s", ready.Message)
			}
			if status.State != tt.state || status.ObservedGeneration != s.Cluster.Generation ||
				ready.ObservedGeneration != s.Cluster.Generation {
				t.Errorf("the state is %s of generation %d, want %s", status.State, status.ObservedGeneration, tt.state)
			}
		})
	}
}

// What fails when a plan is carried out changes what the status comes to.
func TestFailuresChangeWhatAStatusComesTo(t *testing.T) {
	of := func(change func(*v1alpha1.GeoRegisterClusterStatus)) string {
		status := Next(*healthy(3)).Status
		change(&status)
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		return fmt.Sprintf("%s, Ready=%s %s, Stalled=%t", status.State, ready.Status, ready.Reason,
			meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled))
	}
	for want, got := range map[string]string{
		"Degraded, Ready=False OperatorFailed, Stalled=false": of(func(s *v1alpha1.GeoRegisterClusterStatus) {
			status.Failed(s, 7, "no answer", false)
		}),
		"Stalled, Ready=False Refused, Stalled=true": of(func(s *v1alpha1.GeoRegisterClusterStatus) {
			status.Failed(s, 7, "forbidden", true)
		}),
		"Changing, Ready=False EvictionRefused, Stalled=false": of(func(s *v1alpha1.GeoRegisterClusterStatus) {
			status.Waits(s, 7, "EvictionRefused", "a drain")
		}),
		"Unknown, Ready=Unknown OperatorFailed, Stalled=false": of(func(s *v1alpha1.GeoRegisterClusterStatus) {
			status.Unseen(s, 7, "no answer")
		}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A member that another one waits for is not in the way of what its own pod says.
func TestTroubleGoesBeforeSilence(t *testing.T) {
	s := healthy(3)
	waits(s, 2, "ImagePullBackOff", "no such image")
	s.Member(2).SilentFor = time.Hour
	if got := views.Of(*s).Silence(s.Record.View.Members[1]); !strings.Contains(got, "no such image") {
		t.Errorf("got %q", got)
	}
}
