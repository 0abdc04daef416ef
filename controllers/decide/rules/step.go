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

// WriteRecord replaces the record of the view, if it is still the one that was observed; without a UID it is created,
// and must not exist. It is written before any member is given the view.
type WriteRecord struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
	Kind            string // a word that says what for
	Reason          string // for people
}

func (s WriteRecord) says() message.Cause { return message.Cause{Reason: s.Kind, Message: s.Reason} }

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

// writeRecord is the step that makes a view the record.
func writeRecord(s *views.Views, v view.View, kind, reason string, args ...any) WriteRecord {
	return WriteRecord{View: v, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion, Kind: kind,
		Reason: fmt.Sprintf(reason, args...)}
}
