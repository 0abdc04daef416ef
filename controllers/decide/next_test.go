package decide

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// line says a step in a line.
func line(step rules.Step) string {
	switch step := step.(type) {
	case rules.WriteRecord:
		switch step.Kind {
		case "Founding":
			return fmt.Sprintf("found %d", step.View.Size())
		case "RebuildingRecord":
			return fmt.Sprintf("rebuild %d over %q", step.View.Epoch, step.ResourceVersion)
		}
		return fmt.Sprintf("%s %d with %s", step.Kind, step.View.Epoch, who(step.View))
	case rules.SendView:
		return fmt.Sprintf("tell %d to %v", step.View.Epoch, step.Members)
	case rules.DeletePod:
		if step.Evict {
			return fmt.Sprintf("evict %d", step.Member)
		}
		return fmt.Sprintf("delete %d", step.Member)
	case rules.Discard:
		return fmt.Sprintf("discard %d, %d objects", step.Member, len(step.Objects))
	}
	return ""
}

// written is the step that writes the record, if it is one of that kind.
func written(step rules.Step, kind string) (rules.WriteRecord, bool) {
	writes, is := step.(rules.WriteRecord)
	return writes, is && writes.Kind == kind
}

// who names the members of a view: 1 2 -3 +4, of whom 3 leaves and 4 joins.
func who(v view.View) string {
	var all []string
	for _, m := range v.Members {
		sign := ""
		if m.Joining {
			sign = "+"
		} else if m.Leaving {
			sign = "-"
		}
		all = append(all, fmt.Sprint(sign, m.ID))
	}
	return strings.Join(all, " ")
}

type situationCase struct {
	name   string
	change func(*world.Snapshot)
	step   string
	// condition is one of the plan's, as Type=Status Reason: Message.
	condition string
}

func (c situationCase) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		s := healthy(3)
		c.change(s)
		p := Next(*s)
		if got := line(p.Step); got != c.step {
			t.Errorf("step %q, want %q", got, c.step)
		}
		if all := strings.Join(summary(p), "\n"); !strings.Contains("\n"+all+"\n", "\n"+c.condition+"\n") {
			t.Errorf("got\n%s\nwant\n%s", all, c.condition)
		}
		for _, have := range p.Status.Conditions {
			if have.ObservedGeneration != 7 {
				t.Errorf("%s is of generation %d", have.Type, have.ObservedGeneration)
			}
		}
	})
}

func newImage(s *world.Snapshot) { // the StatefulSets are updated, the pods are not
	s.Cluster.Spec.Image = "georegister:2"
	wanted := views.Of(*s).SpecHash()
	for _, m := range s.Members {
		m.StatefulSet.Spec.Template.Annotations = map[string]string{"georegister.io/spec-hash": wanted}
	}
}

func TestFirstView(t *testing.T) {
	for _, c := range []situationCase{
		{"every disk is named", empty, "found 3", "ViewKnown=False NotFounded: The cluster has no view yet"},
		{"nothing is there", func(s *world.Snapshot) { empty(s); s.Members = nil }, "",
			"Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its disk " +
				"holds; " +
				"missing: member 1 (site a) is not made yet; member 2 (site b) is not made yet; member 3 (site c) is " +
				"not made yet"},
		{"a majority is not enough", func(s *world.Snapshot) { empty(s); silent(s, 2) }, "",
			"ViewKnown=False WaitingForMembers: The cluster is founded once every first member tells what its disk " +
				"holds; " +
				"missing: member 2 (site b) does not answer: connection refused"},
		{"an image that is not there", func(s *world.Snapshot) {
			empty(s)
			silent(s, 2)
			s.Member(2).Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "georegister",
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
				}}}
		}, "",
			"Degraded=True ImageNotPulled: Member 2 (site b) can't start its container: ImagePullBackOff: no " +
				"such image"},
		{"a member of another view is there", func(s *world.Snapshot) {
			empty(s)
			s.Members = append(s.Members,
				world.Member{ID: 4, Site: "a", Volume: volumeOf(view.Member{ID: 4, Site: "a"})})
		}, "",
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing; it is rebuilt " +
				"from what the " +
				"members hold, and none tells a view: member 1 (site a) has an empty disk and waits for its view; " +
				"member 2 (site b) has an " +
				"empty disk and waits for its view; member 3 (site c) has an empty disk and waits for its view; " +
				"member 4 (site a) is not made yet"},
	} {
		c.run(t)
	}
}

func TestRecord(t *testing.T) {
	lose := func(s *world.Snapshot) { s.Record = world.Record{} }
	for _, c := range []situationCase{
		{"missing", lose, `rebuild 1 over ""`,
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing"},
		{"damaged", func(s *world.Snapshot) {
			s.Record.Problem, s.Record.View = "no view", view.View{}
		}, `rebuild 1 over "1"`,
			"Available=True Serving: 3 of 3 members serve clients"},
		{"missing, and one answers", func(s *world.Snapshot) { lose(s); silent(s, 2); silent(s, 3) }, "",
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing; it is rebuilt " +
				"once 2 of the 3 " +
				"members of view 1 tell what their disks hold, and 1 do; missing: member 2 (site b) does not answer: " +
				"connection refused; " +
				"member 3 (site c) does not answer: connection refused"},
		{"missing, and a lost disk vouches for nothing", func(s *world.Snapshot) {
			lose(s)
			silent(s, 2)
			s.Member(3).Report = &world.Report{Disk: "disk-9"}
		}, "",
			"Available=False QuorumLost: Nothing can be read or written: 1 of 3 members vote and reach a majority, " +
				"which is 2; " +
				"missing: member 2 (site b) does not answer: connection refused; member 3 (site c) has an empty disk " +
				"and waits for its view"},
		{"missing, and a member that joins vouches for nothing", func(s *world.Snapshot) {
			lose(s)
			silent(s, 2)
			s.Member(3).Report.Role, s.Member(3).Report.Disk = world.Learner, "disk-9"
		}, "",
			"Available=False QuorumLost: Nothing can be read or written: 1 of 3 members vote and reach a majority, " +
				"which is 2; " +
				"missing: member 2 (site b) does not answer: connection refused; member 3 (site c) takes a state " +
				"transfer: 2 of 2 shards vote"},
		{"missing, and the disks that it named are empty", func(s *world.Snapshot) {
			lose(s)
			silent(s, 2)
			s.Member(3).Report = &world.Report{Disk: "disk-3"}
		}, `rebuild 1 over ""`,
			"Progressing=True RebuildingRecord: Rebuilds the record of view 1 from what the members hold"},
		{"behind", func(s *world.Snapshot) {
			hold(s, 1, after(s.Record.View, 3))
			newcomer(s, 4, "c")
			s.Member(4).Report.Role = world.Voter
			hold(s, 4, after(s.Record.View, 3))
		},
			`rebuild 3 over "1"`,
			"ViewKnown=False RecordBehind: The record of the view, ConfigMap demo--view, is at epoch 1, but a member " +
				"holds epoch 3"},
		{"behind, and too few vouch for the later one", func(s *world.Snapshot) {
			hold(s, 1, after(s.Record.View, 3))
			silent(s, 2)
		}, "",
			"ViewKnown=False RecordBehind: The record of the view, ConfigMap demo--view, is at epoch 1, but a member " +
				"holds epoch 3; it is " +
				"rebuilt once 2 of the 3 members of view 3 tell what their disks hold, and 1 do; missing: member 2 " +
				"(site b) does not " +
				"answer: connection refused; member 4 (site c) is not made yet"},
		{"missing, and only who was removed was told", func(s *world.Snapshot) {
			growing(s)
			told(s)
			next, err := membership.Abandon(s.Record.View)
			if err != nil {
				panic(err)
			}
			hold(s, 4, next)
			s.Member(4).Report.Role = world.Removed
			lose(s)
		}, `rebuild 3 over ""`,
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing"},
		{"missing in a joint view", func(s *world.Snapshot) { begun(s); told(s); lose(s) }, `rebuild 2 over ""`,
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing"},
		{"missing in a joint view, and somebody may know the next one", func(s *world.Snapshot) {
			begun(s)
			told(s)
			lose(s)
			s.Member(3).Volume, s.Member(2).Report = volumeOf(view.Member{ID: 3, Site: "c"}), nil
		}, "",
			"ViewKnown=False RecordMissing: The record of the view, ConfigMap demo--view, is missing; it is rebuilt " +
				"once everybody of view 2, " +
				"in which the members change, tells what it holds, or is lost; missing: member 2 (site b) does not " +
				"answer; member 3 (site c) does " +
				"not answer: connection refused"},
		{"somebody waits whom nobody asked for", func(s *world.Snapshot) {
			newcomer(s, 4, "a")
		}, "discard 4, 2 objects",
			"ViewKnown=True Recorded: View 1 with 3 members is recorded"},
		{"another view of the same epoch", func(s *world.Snapshot) {
			other := s.Record.View
			other.Issued = 9
			hold(s, 2, other)
		}, "", "Degraded=True MemberDown: Member 2 (site b) holds another view 1"},
		{"another view of the same epoch, and too few hold the recorded one", func(s *world.Snapshot) {
			other := s.Record.View
			other.Issued = 9
			hold(s, 2, other)
			silent(s, 3)
		}, "",
			"ViewKnown=False ViewsDiffer: The record of the view, ConfigMap demo--view, and member 2 (site b) hold " +
				"different views " +
				"of epoch 1 (ed1db0907dd5f550 and 0d5aaa99b99caaf7); if the record was edited, delete it: it is " +
				"rebuilt from what the members hold"},
	} {
		c.run(t)
	}
}

func TestUpdate(t *testing.T) {
	const waits = "Member 1 (site a) is to be restarted with the changed spec, and waits: "
	for _, c := range []situationCase{
		{"at rest", func(*world.Snapshot) {}, "", "Progressing=False Settled: There is nothing to do"},
		{"one at a time", newImage, "evict 1",
			"Progressing=True RestartingMember: Restarts member 1: the spec changed"},
		{"who does not serve goes first", func(s *world.Snapshot) { newImage(s); silent(s, 2) }, "delete 2",
			"QuorumHealthy=False MembersMissing: 2 of 3 members vote, a majority is 2, so 0 more may be lost; " +
				"missing: " +
				"member 2 (site b) does not answer: connection refused"},
		{"another leaves", func(s *world.Snapshot) {
			newImage(s)
			s.Member(2).Pod.DeletionTimestamp = &metav1.Time{Time: epoch}
		}, "",
			"Progressing=True AnotherMemberRestarts: " + waits + "member 2 (site b) has no pod that stays"},
		{"the last one ends, and serves while it does", func(s *world.Snapshot) {
			newImage(s)
			for i := range s.Members {
				s.Members[i].Pod.Annotations[build.SpecHashAnnotation] = build.SpecHash(s.Cluster)
			}
			s.Member(3).Pod.Annotations[build.SpecHashAnnotation] = "former"
			s.Member(3).Pod.DeletionTimestamp = &metav1.Time{Time: epoch}
		}, "", "Progressing=True MemberRestarts: Member 3 (site c) restarts with the changed spec"},
		{"another is not ready", func(s *world.Snapshot) { newImage(s); s.Member(2).Pod.Status.Conditions = nil }, "",
			"Progressing=True AnotherMemberIsNotReady: " + waits + "the pod of member 2 (site b) is not ready"},
		{"another has no quorum", func(s *world.Snapshot) { newImage(s); s.Member(2).Report.Quorum = false }, "",
			"Progressing=True AnotherMemberHasNoQuorum: " + waits + "member 2 (site b) reaches no majority"},
		{"another has its quorum through it", func(s *world.Snapshot) {
			newImage(s)
			s.Member(2).Report.Peers[1].Reachable = false
		}, "",
			"Progressing=True NoQuorumWithoutIt: " + waits +
				"without it member 2 (site b) reaches 1 members, itself included, and a majority is 2"},
		{"the StatefulSet lags", func(s *world.Snapshot) { newImage(s); s.Member(1).StatefulSet.Generation = 2 }, "",
			"Progressing=True StatefulSetNotUpdated: " + waits + "its StatefulSet would make the former pod again"},
		{"who is down is named before a StatefulSet that lags", func(s *world.Snapshot) {
			newImage(s)
			silent(s, 2)
			s.Member(2).Pod.Annotations[build.SpecHashAnnotation] = build.SpecHash(s.Cluster)
			s.Member(1).StatefulSet.Generation = 2
		}, "",
			"Progressing=True AnotherMemberDoesNotVote: " + waits +
				"member 2 (site b) does not answer: connection refused"},
		{"a pod that can't start goes whatever the others do", func(s *world.Snapshot) {
			newImage(s)
			silent(s, 2)
			silent(s, 3)
			s.Member(3).Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "georegister",
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"},
				}}}
		}, "delete 3",
			"Available=False QuorumLost: Nothing can be read or written: 1 of 3 members vote and reach a majority, " +
				"which is 2; " +
				"missing: member 2 (site b) does not answer: connection refused; member 3 (site c) can't start its " +
				"container: CrashLoopBackOff: back-off"},
		{"paused", func(s *world.Snapshot) { newImage(s); s.Cluster.Spec.Paused = true }, "",
			"Paused=True Paused: Members serve on, but none is updated, repaired or replaced, until spec.paused is " +
				"removed"},
	} {
		c.run(t)
	}
}

func TestOtherConditions(t *testing.T) {
	for _, c := range []situationCase{
		{"spread", func(*world.Snapshot) {}, "",
			"ToleratesZoneLoss=True ZonesSpread: The loss of any one of 3 zones leaves a majority of 2"},
		{"two in a zone", func(s *world.Snapshot) { s.Zones["node-b"] = s.Zones["node-a"] }, "",
			"ToleratesZoneLoss=False ZoneHoldsMajority: Without zone zone-a, 1 of 3 members vote, and a majority is 2"},
		{"nodes are not read", func(s *world.Snapshot) { s.ZonesKnown = false }, "",
			"ToleratesZoneLoss=Unknown NodesNotReadable: The operator may not read nodes, so it does not know their " +
				"zones; " +
				"allow it to get, list and watch nodes"},
		{"no Prometheus operator", func(s *world.Snapshot) { s.Cluster.Spec.Monitoring.Enabled = true }, "",
			"MonitoringReady=False KindsMissing: The apiserver has no PodMonitor and no PrometheusRule; " +
				"install the Prometheus operator, or set spec.monitoring.enabled to false"},
		{"a volume grows", func(s *world.Snapshot) {
			s.Member(1).Volume.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
				{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}}
		}, "", "Progressing=True VolumeGrows: Member 1 (site a) grows its volume data-demo--a--1 to 0"},
		{"a volume can't grow", func(s *world.Snapshot) { s.Member(1).Refused = "forbidden" }, "",
			"Degraded=True VolumeCannotGrow: Member 1 (site a) can't be given its volume data-demo--a--1 as asked: " +
				"forbidden; " +
				"if its provisioner can grow volumes, set allowVolumeExpansion in its storage class"},
	} {
		c.run(t)
	}
}

func TestDeletedAndPausedAreLeftAlone(t *testing.T) {
	s := healthy(3)
	s.Cluster.Status.Ready = "3/3"
	s.Cluster.DeletionTimestamp = &metav1.Time{Time: epoch}
	if p := Next(*s); p.Apply != nil || p.Prune != nil || p.Step != nil || p.Status.Ready != "3/3" {
		t.Errorf("a deleted resource has the plan %+v", p)
	}
	s = healthy(3)
	gone(s, 3)
	s.Cluster.Spec.Paused = true
	if p := Next(*s); p.Apply != nil || p.Prune != nil || p.Step != nil || p.Status.Ready != "2/3" {
		t.Errorf("a paused resource has the plan %+v", p)
	}
}

func kindsOf(p Plan, id view.MemberID) (kinds string) {
	for _, object := range p.Apply {
		if of, _, ok := owner(object); ok && of == id {
			kinds += object.GetObjectKind().GroupVersionKind().Kind + " "
		}
	}
	return strings.TrimSpace(kinds)
}

// A volume that vanishes between the look and the apply is not made again: what is applied is the one that was seen.
func TestVolumesArePinned(t *testing.T) {
	s := healthy(3)
	s.Member(3).Volume.UID = "seen"
	for _, object := range Next(*s).Apply {
		id, _, _ := owner(object)
		if _, volume := object.(*corev1.PersistentVolumeClaim); volume && id == 3 &&
			object.GetUID() != types.UID("seen") {
			t.Errorf("the volume of member 3 is applied with UID %q", object.GetUID())
		}
	}
	for size, want := range map[string]string{"99Ti": "99Ti", "1Mi": "10Gi"} {
		s.Member(3).Volume.Spec.Resources.Requests = corev1.ResourceList{
			corev1.ResourceStorage: resource.MustParse(size),
		}
		for _, object := range Next(*s).Apply {
			if v, ok := object.(*corev1.PersistentVolumeClaim); ok && v.UID == "seen" {
				if got := v.Spec.Resources.Requests.Storage().String(); got != want {
					t.Errorf("a volume of %s is to have %s, want %s", size, got, want)
				}
			}
		}
	}
	s.Member(3).Volume.DeletionTimestamp = &metav1.Time{Time: epoch}
	if p := Next(*s); kindsOf(p, 3) != "StatefulSet" {
		t.Errorf("with a volume that is being deleted, member 3 has %q", kindsOf(p, 3))
	}
}

func TestStatusIsTheProjection(t *testing.T) {
	got := Next(*healthy(3)).Status
	if got.Ready != "3/3" || got.SitesReady != "3/3" || got.Quorum != "3/2" || got.View.Epoch != 1 ||
		*got.View.FastQuorum != 2 ||
		got.ObservedGeneration != 7 {
		t.Errorf("status %+v", got)
	}
	m := got.Members[1]
	if m != (v1alpha1.MemberStatus{ID: 2, Site: "b", Pod: "demo--b--2-0", Node: "node-b", Incarnation: 1,
		Role: "Voter", State: "votes", Version: "1", Ready: true}) {
		t.Errorf("member %+v", m)
	}
	if site := got.Sites[2]; site.Redis != "demo--c.default.svc.cluster.local:6379" || site.Ready != "1/1" {
		t.Errorf("site %+v", site)
	}
}
