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
type Step interface {
	// says what the step does: a word for machines and a sentence for people.
	says() message.Cause
}

// FoundCluster creates the record of the first view; it must not exist. Then members are told by SendView.
type FoundCluster struct{ View view.View }

func (s FoundCluster) says() message.Cause {
	return message.Say("Founding", "Founds the cluster with %d members", s.View.Size())
}

// ChangeView replaces the record by a next view, if it is still the one that was observed. It is written
// before any member is told.
type ChangeView struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
	Kind            string // a word that says which change it is, for the condition
	Reason          string // for the event
}

func (s ChangeView) says() message.Cause { return message.Cause{Reason: s.Kind, Message: s.Reason} }

// RebuildRecord writes a record that is missing or behind from what members hold. Without a UID it is created.
type RebuildRecord struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

func (s RebuildRecord) says() message.Cause {
	return message.Say("RebuildingRecord", "Rebuilds the record of view %d from what the members hold", s.View.Epoch)
}

// KeepRecordMetadata writes the record as it is once more, with the labels and the owner that it should have.
type KeepRecordMetadata struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

func (KeepRecordMetadata) says() message.Cause {
	return message.Say("KeepingRecord", "Gives the record of the view the labels and the owner that it should have")
}

// SendView gives members the recorded view.
type SendView struct {
	View    view.View
	Members []view.MemberID
}

func (s SendView) says() message.Cause {
	return message.Say("TellingView", "Gives view %d to the members that lack it: %s", s.View.Epoch,
		message.Numbers(s.Members))
}

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

func (s DeletePod) says() message.Cause {
	return message.Say("RestartingMember", "Restarts %s: %s", cmp.Or(s.Who, fmt.Sprintf("member %d", s.Member)),
		s.Reason)
}

// Discard removes what is left of a member that no view names any more: its StatefulSet, and its volume where
// the retention says so.
type Discard struct {
	Member  view.MemberID
	Who     string          // for people; empty: the member
	Volume  string          // an unused volume that is made again, if that is what it is about
	Why     string          // how that differs from what is asked for
	Objects []client.Object // with UID and resourceVersion as preconditions
}

func (s Discard) says() message.Cause {
	if s.Volume != "" {
		return message.Say("RemakingVolume", "Makes volume %s again, which nobody has used: it %s", s.Volume, s.Why)
	}
	return message.Say("RemovingMember", "Removes what is left of %s, which is not in the view",
		cmp.Or(s.Who, fmt.Sprintf("member %d", s.Member)))
}

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
	return o.Step.says()
}

// Waits reports whether nothing is done, for want of what the reason names.
func (o *Outcome) Waits(reason string) bool {
	return o != nil && o.Wait != nil && o.Wait.Reason == reason
}

func act(step Step, events ...message.Event) *Outcome { return &Outcome{Step: step, Events: events} }

func waitFor(reason, format string, args ...any) *Outcome {
	return &Outcome{Wait: message.Because(reason, format, args...)}
}

// changeView is the step to a next view.
func changeView(s *views.Views, next view.View, step, reason string) ChangeView {
	return ChangeView{View: next, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion, Kind: step,
		Reason: reason}
}
