// Package decide says what the operator does next for one cluster: a pure function of what was observed.
//
// It is made of facts (what is known, with doubt), views (what the package membership decides from them), recovery
// (what a lost quorum leaves), rules (the next step), status (what is reported) and the emulation of a network. A rule
// needs facts, the status needs both, and nothing goes the other way.
package decide

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/emulation"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
)

// Plan is what to do now, in this order: apply the objects, take the step and tell its events, write the status.
// A plan has one step at most: the next one is decided from a new observation.
type Plan struct {
	// Apply is the desired objects of the cluster, applied by server-side apply where they differ.
	Apply []client.Object
	// Prune is objects that were wanted once and are not any more.
	Prune []client.Object
	Step  rules.Step
	// Status is the whole new status; times of unchanged conditions are kept by the writer.
	Status v1alpha1.GeoRegisterClusterStatus
	Events []message.Event
	// Emulation is what to do about the emulated network between the sites. It stops no member, so it waits for no step
	// and is none.
	Emulation emulation.Changes
	// Lives are what witnesses are to be told of the recorded view. It may be repeated, so it is no step.
	Lives Lives
	// Links are the pairs of sites whose network is emulated, as they are now.
	Links []emulation.Link
	// Again is when to look again though nothing changed in the apiserver: members are not watched.
	Again time.Duration
}

// Lives are those that witnesses are to begin and to end (membership.Lives).
type Lives struct{ Start, End []membership.Life }

// Members are asked, not watched, so a cluster is looked at again after these times.
const (
	soon = 2 * time.Second  // while something happens or is wrong
	late = 20 * time.Second // at rest
)

// Where shards have masters, a master that is lost stops its shard until somebody decides on another one. So members
// are asked more often than others: by this, at rest, a loss is noticed within two seconds.
const (
	partitionedSoon = time.Second
	partitionedLate = 2 * time.Second
)

// Next says what to do now for the cluster of a snapshot. It is a pure function.
//
// A resource that is being deleted is left alone: its objects go with it. Of a paused one
// the objects are left alone, too.
func Next(snapshot world.Snapshot) Plan {
	if !snapshot.Cluster.DeletionTimestamp.IsZero() {
		return Plan{Status: *snapshot.Cluster.Status.DeepCopy()}
	}
	s := views.Of(snapshot)
	outcome := rules.Next(s)
	network := emulation.Of(&s.Facts)
	projection := status.Of(s, outcome, network)
	p := Plan{Lives: lives(s), Status: projection.Status(), Links: network.Links}
	if outcome != nil {
		p.Step, p.Events = outcome.Step, outcome.Events
	}
	p.Events = append(p.Events, projection.Events()...)
	p.Emulation = network.Changes(p.Status)
	p.Again = again(s, projection.Rests(p.Status))
	if network.Again > 0 {
		p.Again = min(p.Again, network.Again)
	}
	if !s.Cluster.Spec.Paused && !s.Unclear() {
		in := input(s, outcome.Waits(rules.KeepingVolumes))
		p.Apply, p.Prune = wanted(s, in), unwanted(s, in)
	}
	return p
}

// again is when to look at a cluster again, at rest or not.
func again(s *views.Views, rests bool) time.Duration {
	switch partitioned := s.Cluster.Spec.Partitioned(); {
	case partitioned && rests:
		return partitionedLate
	case partitioned:
		return partitionedSoon
	case rests:
		return late
	}
	return soon
}

// lives are what witnesses are to be told of the recorded view.
func lives(s *views.Views) (lives Lives) {
	if s.Partitioned() && s.Doubt == nil {
		lives.Start, lives.End = membership.Lives(s.MembershipSnapshot())
	}
	return lives
}
