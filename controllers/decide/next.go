package decide

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// Members are asked, not watched, so a cluster is looked at again after these times.
const (
	soon = 2 * time.Second  // while something happens or is wrong
	late = 20 * time.Second // at rest
)

// rules are the decisions on the next step, in the order of what matters most. The first that has something to do, or
// to wait for, has the last word.
var rules = []func(*situation) *outcome{
	awaitFormerResource,
	restartStuckMember,
	foundCluster,
	rebuildRecord,
	requireTrustedRecord,
	recoverLostQuorum,
	concludeChange,
	sendView,
	assignPartitions,
	keepRecordMetadata,
	discardMember,
	discardWitness,
	awaitTakenNames,
	blockWithoutQuorum,
	advanceChange,
	updateOneWitness,
	updateOneMember,
	applySiteEdits,
	awaitWitnesses,
	awaitPartitions,
}

// outcome is what a rule says: a step with its events, or what it waits for.
type outcome struct {
	step   Step
	events []Event
	wait   *cause
}

func act(step Step, events ...Event) *outcome { return &outcome{step: step, events: events} }

func waitFor(reason, format string, args ...any) *outcome {
	return &outcome{wait: &cause{reason, fmt.Sprintf(format, args...)}}
}

// Next says what to do now for the cluster of a snapshot. It is a pure function.
//
// A resource that is being deleted is left alone: its objects go with it. A paused one is only looked at: its
// members serve on, but nothing is repaired or updated. A change of the view that was begun is told even so: members
// of two views do not serve each other.
func Next(snapshot world.Snapshot) Plan {
	if !snapshot.Cluster.DeletionTimestamp.IsZero() {
		return Plan{Status: *snapshot.Cluster.Status.DeepCopy()}
	}
	s := understand(snapshot)
	if s.Cluster.Spec.Paused {
		if s.doubt == nil && !s.settled() && !s.recovered() {
			return s.plan(sendView(s))
		}
		return s.plan(nil)
	}
	for _, rule := range rules {
		if o := rule(s); o != nil {
			return s.plan(o)
		}
	}
	return s.plan(nil)
}

// plan makes the plan with a rule's outcome, which is nil if none had anything to do.
func (s *situation) plan(o *outcome) Plan {
	p := Plan{Again: soon, Lives: s.lives()}
	if o != nil {
		p.Step, p.Events = o.step, o.events
	}
	p.Events = append(p.Events, s.damageEvents()...)
	s.emulation = s.emulatedNetwork()
	p.Status = s.status(o)
	if was := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionViewKnown); s.Record.Taken != "" && (was == nil || was.Reason != NameTaken) {
		p.Events = append(p.Events, Warning(NameTaken, "Block", SayTaken(s.Cluster, s.takenRecord())))
	}
	if o == nil && s.resting(p.Status) || s.blocked(o) {
		p.Again = late
	}
	if s.Cluster.Spec.Partitioned() {
		p.Again = partitionedSoon
		if o == nil && s.resting(p.Status) || s.blocked(o) {
			p.Again = partitionedLate
		}
	}
	p.Links = s.emulation.links()
	if in := s.emulation.again; in > 0 {
		p.Again = min(p.Again, in)
	}
	p.Emulation = s.emulation.changes(p.Status)
	if s.Cluster.Spec.Paused || s.unclear() {
		return p
	}
	in := s.input()
	p.Apply = build.Objects(in)
	for _, m := range s.members() {
		for _, object := range build.Member(in, m) {
			if s.wants(m, object) {
				p.Apply = append(p.Apply, s.pinned(m, object))
			}
		}
	}
	p.Apply = append(p.Apply, s.dedicatedWanted(in)...)
	p.Prune = s.unwanted(in)
	return p
}

// awaitFormerResource waits until nothing is left of a deleted resource of the same name. What goes with it proves
// nothing of this one: a record or members that are about to be removed would be taken for its own, and their disks
// would be missed for ever. Nor is anything done while it is not clear whose data this is.
func awaitFormerResource(s *situation) *outcome {
	if !s.unclear() {
		return nil
	}
	return &outcome{wait: s.doubt}
}

// unclear reports whether none of what is seen may be taken for this resource's.
func (s *situation) unclear() bool { return len(s.Former)+len(s.Stored) > 0 }

// resting reports whether nothing is wrong or under way.
func (s *situation) resting(status v1alpha1.GeoRegisterClusterStatus) bool {
	return !isTrue(status.Conditions, v1alpha1.ConditionProgressing) &&
		!isTrue(status.Conditions, v1alpha1.ConditionDegraded)
}
