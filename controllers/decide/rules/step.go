package rules

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/view"
)

// Step is the one thing that must not happen together with another.
type Step interface{ step() }

// FoundCluster creates the record of the first view; it must not exist. Then members are told by SendView.
type FoundCluster struct{ View view.View }

func (FoundCluster) step() {}

// ChangeView replaces the record by a next view, if it is still the one that was observed. It is written
// before any member is told.
type ChangeView struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
	Kind            string // a word that says which change it is, for the condition
	Reason          string // for the event
}

func (ChangeView) step() {}

// RebuildRecord writes a record that is missing or behind from what members hold. Without a UID it is created.
type RebuildRecord struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

func (RebuildRecord) step() {}

// KeepRecordMetadata writes the record as it is once more, with the labels and the owner that it should have.
type KeepRecordMetadata struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

func (KeepRecordMetadata) step() {}

// SendView gives members the recorded view.
type SendView struct {
	View    view.View
	Members []view.MemberID
}

func (SendView) step() {}

// DeletePod ends one pod, if it is still the one that was observed.
type DeletePod struct {
	// Evict has the disruption budget agree: it is asked of a pod that is ready. The budget is the judge between
	// operators that work at the same time.
	Evict           bool
	Member          view.MemberID
	Who             string // for people; empty: the member
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
}

func (DeletePod) step() {}

// Discard removes what is left of a member that no view names any more: its StatefulSet, and its volume where
// the retention says so.
type Discard struct {
	Member  view.MemberID
	Who     string          // for people; empty: the member
	Volume  string          // an unused volume that is made again, if that is what it is about
	Why     string          // how that differs from what is asked for
	Objects []client.Object // with UID and resourceVersion as preconditions
}

func (Discard) step() {}

// Outcome is what a rule says: a step with its events, or what it waits for.
type Outcome struct {
	Step   Step
	Events []message.Event
	Wait   *message.Cause
}

// Says is what the outcome comes to, for people: what the step does, or what is waited for.
func (o *Outcome) Says() message.Cause {
	if o.Wait != nil {
		return *o.Wait
	}
	reason, text := describe(o.Step)
	return message.Cause{Reason: reason, Message: text}
}

// Waits reports whether nothing is done, for want of what the reason names.
func (o *Outcome) Waits(reason string) bool {
	return o != nil && o.Wait != nil && o.Wait.Reason == reason
}

func act(step Step, events ...message.Event) *Outcome { return &Outcome{Step: step, Events: events} }

func waitFor(reason, format string, args ...any) *Outcome {
	return &Outcome{Wait: &message.Cause{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// describe says what a step does.
func describe(step Step) (reason, text string) {
	switch step := step.(type) {
	case FoundCluster:
		return "Founding", fmt.Sprintf("Founds the cluster with %d members", step.View.Size())
	case RebuildRecord:
		return "RebuildingRecord", fmt.Sprintf("Rebuilds the record of view %d from what the members hold", step.View.Epoch)
	case KeepRecordMetadata:
		return "KeepingRecord", "Gives the record of the view the labels and the owner that it should have"
	case SendView:
		return "TellingView", fmt.Sprintf("Gives view %d to the members that lack it: %s", step.View.Epoch, message.Numbers(step.Members))
	case Discard:
		if step.Volume != "" {
			return "RemakingVolume", fmt.Sprintf("Makes volume %s again, which nobody has used: it %s", step.Volume, step.Why)
		}
		return "RemovingMember", fmt.Sprintf("Removes what is left of %s, which is not in the view", cmp.Or(step.Who, fmt.Sprintf("member %d", step.Member)))
	case ChangeView:
		return step.Kind, step.Reason
	case DeletePod:
		return "RestartingMember", fmt.Sprintf("Restarts %s: %s", cmp.Or(step.Who, fmt.Sprintf("member %d", step.Member)), step.Reason)
	}
	return "Working", "Takes a step"
}

// changeView is the step to a next view.
func changeView(s *views.Views, next view.View, step, reason string) ChangeView {
	return ChangeView{View: next, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion, Kind: step, Reason: reason}
}
