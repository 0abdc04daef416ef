package world

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Emulation is what emulates the network between the sites, as far as the apiserver tells.
type Emulation struct {
	// Kind is whether the apiserver has the kind of Chaos Mesh that does it, NetworkChaos.
	Kind bool
	// Known is whether all of them were read; without it Links says nothing.
	Known bool
	// Links are all of the cluster, whatever made them, by name.
	Links []Injection
}

// Injection is an object of Chaos Mesh that emulates the network from one site to another.
type Injection struct {
	Name     string
	UID      types.UID
	From, To string // sites
	Created  time.Time
	// Deleting is when it was asked to go, zero while it wasn't: it undoes itself first.
	Deleting time.Time
	// Looked is whether Chaos Mesh has begun with it. It looks for pods once.
	Looked bool
	// Chosen names the pods that it found, of both sites, sorted. Injected names those of them that are done with.
	Chosen, Injected []string
	// AllInjected is what Chaos Mesh says of all that it chose, and Since is when the last of them was done with.
	AllInjected bool
	Since       time.Time
	// Unconfirmed are pods in which it was undone, and Chaos Mesh waits to hear so. Held is whether it may still be in
	// force in others.
	Unconfirmed []Undoing
	Held        bool
	// Forced is whether Chaos Mesh was told to let it go in any case.
	Forced bool
	// Problem is what Chaos Mesh says is wrong, or empty.
	Problem string
}

// Undoing is a pod in which an object of Chaos Mesh was undone.
type Undoing struct {
	Pod     string
	Applied time.Time // when it had been injected there
}
