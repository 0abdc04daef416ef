// Package rules has the decisions on the operator's next step for a cluster, and the steps that there are.
package rules

import (
	"slices"

	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
)

// inOrder are the decisions on the next step, in the order of what matters most. The first that has something to do, or
// to wait for, has the last word.
var inOrder = []func(*views.Views) *Outcome{
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
	onceCommitted(discardMember),
	onceCommitted(discardWitness),
	awaitTakenNames,
	blockWithoutQuorum,
	advanceChange,
	updateOneWitness,
	updateOneMember,
	applySiteEdits,
	awaitWitnesses,
	awaitPartitions,
	refuseOtherShards,
}

// Next is what the rules say of a cluster; nil: none has anything to do or to wait for.
//
// While a cluster is paused, nothing is repaired or updated. A change of the view that was begun is told even so:
// members of two views do not serve each other.
func Next(s *views.Views) *Outcome {
	if s.Cluster.Spec.Paused {
		if s.Doubt == nil && !s.Committed() && !s.Recovered() {
			return sendView(s)
		}
		return nil
	}
	for _, rule := range inOrder {
		if o := rule(s); o != nil {
			return o
		}
	}
	return nil
}

// onceCommitted is a rule that has nothing to say before the view is committed.
func onceCommitted(rule func(*views.Views) *Outcome) func(*views.Views) *Outcome {
	return func(s *views.Views) *Outcome {
		if !s.Committed() {
			return nil
		}
		return rule(s)
	}
}

// awaitFormerResource waits until nothing is left of a deleted resource of the same name. What goes with it proves
// nothing of this one: a record or members that are about to be removed would be taken for its own, and their disks
// would be missed for ever. Nor is anything done while it is not clear whose data this is.
func awaitFormerResource(s *views.Views) *Outcome {
	if !s.Unclear() {
		return nil
	}
	return &Outcome{Wait: s.Doubt}
}

// requireTrustedRecord ends the rules while the recorded view is in doubt: each rule after it acts on that view.
func requireTrustedRecord(s *views.Views) *Outcome {
	if s.Doubt == nil {
		return nil
	}
	return waitFor(s.Doubt.Reason, "%s", s.Doubt.Message)
}

// awaitTakenNames ends the rules that start or restart pods while pods would use what is somebody else's.
func awaitTakenNames(s *views.Views) *Outcome {
	i := slices.IndexFunc(s.Taken, func(t world.Taken) bool { return t.Pods })
	if i < 0 {
		return nil
	}
	return waitFor(message.WhyTaken(s.Taken[i]), "No pod is started or restarted: %s",
		message.Taken(s.Cluster, s.Taken[i]))
}
