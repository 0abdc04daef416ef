// Package decide says what the operator does next for one cluster: a pure function of what was observed.
package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Plan is what to do now, in this order: apply the objects, take the step and tell its events, write the status.
// A plan has one step at most: the next one is decided from a new observation.
type Plan struct {
	// Apply is the desired objects of the cluster, applied by server-side apply where they differ.
	Apply []client.Object
	// Prune is objects that were wanted once and are not any more.
	Prune []client.Object
	Step  Step
	// Status is the whole new status; times of unchanged conditions are kept by the writer.
	Status v1alpha1.GeoRegisterClusterStatus
	Events []Event
	// Emulation is what to do about the emulated network between the sites. It stops no member, so it waits for no step
	// and is none.
	Emulation EmulationChanges
	// Lives are what witnesses are to be told of the recorded view. It may be repeated, so it is no step.
	Lives Lives
	// Links are the pairs of sites whose network is emulated, as they are now.
	Links []Link
	// Again is when to look again though nothing changed in the apiserver: members are not watched.
	Again time.Duration
}

// Step is the one thing that must not happen together with another.
type Step interface{ step() }

// FoundCluster creates the record of the first view; it must not exist. Then members are told by SendView.
type FoundCluster struct{ View view.View }

// ChangeView replaces the record by a next view, if it is still the one that was observed. It is written
// before any member is told.
type ChangeView struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
	Kind            string // a word that says which change it is, for the condition
	Reason          string // for the event
}

// RebuildRecord writes a record that is missing or behind from what members hold. Without a UID it is created.
type RebuildRecord struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

// KeepRecordMetadata writes the record as it is once more, with the labels and the owner that it should have.
type KeepRecordMetadata struct {
	View            view.View
	UID             types.UID
	ResourceVersion string
}

// SendView gives members the recorded view.
type SendView struct {
	View    view.View
	Members []view.MemberID
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

// Discard removes what is left of a member that no view names any more: its StatefulSet, and its volume where
// the retention says so.
type Discard struct {
	Member  view.MemberID
	Who     string          // for people; empty: the member
	Volume  string          // an unused volume that is made again, if that is what it is about
	Why     string          // how that differs from what is asked for
	Objects []client.Object // with UID and resourceVersion as preconditions
}

func (FoundCluster) step()       {}
func (ChangeView) step()         {}
func (RebuildRecord) step()      {}
func (KeepRecordMetadata) step() {}
func (SendView) step()           {}
func (DeletePod) step()          {}
func (Discard) step()            {}

// EmulationChanges are what to do about the emulated network between the sites, in this order: remove objects, and
// annotate such as are being removed so that Chaos Mesh lets go of them, each only if it has the UID that was observed;
// make others, and tell the events.
type EmulationChanges struct {
	Remove, Release, Make []client.Object
	Events                []Event
}

// Lives are those that witnesses are to begin and to end (membership.Lives).
type Lives struct{ Start, End []membership.Life }

// Link is the network between two sites.
type Link struct {
	Between  string        // the sites' names
	Declared time.Duration // round trip
	Measured time.Duration // the shortest lately; zero while nobody measured one
}

// Event is told to the people who watch the resource.
type Event struct {
	Type    string // corev1.EventTypeNormal or EventTypeWarning
	Reason  string // a word in CamelCase
	Action  string // what the operator did, as a verb
	Message string
}

// Normal is an event of ordinary business.
func Normal(reason, action, message string) Event {
	return Event{corev1.EventTypeNormal, reason, action, message}
}

// Warning is an event that somebody should look at.
func Warning(reason, action, message string) Event {
	return Event{corev1.EventTypeWarning, reason, action, message}
}
