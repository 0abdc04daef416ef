package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CURPOptions are the options of protocol CURP alone.
type CURPOptions struct {
	// Witness says where the witnesses run, and how much they hold.
	// +optional
	Witness *Witness `json:"witness,omitempty"`
}

// Witness says where the witnesses of protocol CURP run, and how much they hold.
type Witness struct {
	// Placement is Sidecar, where each member has a witness in its pod, on the same volume, or Dedicated, where each
	// site has one with a pod and a volume of its own, which serves masters elsewhere. A shard's master, backups and
	// dedicated witnesses are at sites of their own, so this needs twice as many sites as losses are to be survived,
	// and one. It can't be changed later. Default: Sidecar.
	// +optional
	// +kubebuilder:validation:Enum=Sidecar;Dedicated
	Placement WitnessPlacement `json:"placement,omitempty"`

	// Slots is how many requests a witness has room for in each shard that it serves: those that clients sent and
	// that the backups don't have yet. It must be a power of two. Each takes up to 2112 bytes of memory: a witness
	// requests that for each slot of each shard, and 48 MiB. The volume of a dedicated one has 12 times that, for
	// four terms of each shard and a log that is three times as long while it is rewritten, and 64 MiB; at least 1Gi.
	// Default: 4096.
	// +optional
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=1048576
	// +kubebuilder:validation:XValidation:rule="self in [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576]",message="slots must be a power of two, such as 4096"
	Slots *int32 `json:"slots,omitempty"`
}

// WitnessPlacement is where witnesses run.
type WitnessPlacement string

// The placements.
const (
	// Sidecar has a witness in the pod of each member.
	Sidecar WitnessPlacement = "Sidecar"
	// Dedicated has a pod for a witness alone at each site.
	Dedicated WitnessPlacement = "Dedicated"
)

// Witness is spec.curp.witness, or nil.
func (s GeoRegisterClusterSpec) Witness() *Witness {
	if s.CURP == nil {
		return nil
	}
	return s.CURP.Witness
}

// Dedicated reports whether witnesses have pods of their own, one at each site.
func (s GeoRegisterClusterSpec) Dedicated() bool {
	w := s.Witness()
	return s.Partitioned() && w != nil && w.Placement == Dedicated
}

// WitnessSlots is spec.curp.witness.slots or its default.
func (s GeoRegisterClusterSpec) WitnessSlots() int {
	if w := s.Witness(); w != nil {
		return int(valueOr(w.Slots, DefaultWitnessSlots))
	}
	return DefaultWitnessSlots
}

// Bounds of witness.slots, as witnesses have them.
const (
	minSlots = 4
	maxSlots = 1 << 20
)

// validateWitness checks where witnesses run, and how much they hold, with protocol CURP; counted says that the sites
// are right, so that they can be counted.
func validateWitness(path *field.Path, s GeoRegisterClusterSpec, counted bool) field.ErrorList {
	w, at := s.Witness(), path.Child("slots")
	if w == nil || !s.Partitioned() {
		return nil
	}
	need, n := 2*s.Faults()+1, valueOr(w.Slots, DefaultWitnessSlots)
	within := n >= minSlots && n <= maxSlots
	return slices.Concat(
		validateChoice(path.Child("placement"), w.Placement, Sidecar, Dedicated),
		refuse(counted && s.Dedicated() && len(s.Sites) < need,
			field.Invalid(path.Child("placement"), Dedicated, fmt.Sprintf(
				"a master, %[1]d backups and %[1]d witnesses at sites of their own need %d sites, and there are %d; "+
					"add sites, lower faultTolerance, or use Sidecar", s.Faults(), need, len(s.Sites)))),
		refuse(!within, field.Invalid(at, n, fmt.Sprintf("must be between %d and %d", minSlots, maxSlots))),
		refuse(within && n&(n-1) != 0,
			field.Invalid(at, n, fmt.Sprintf("must be a power of two, such as %d", DefaultWitnessSlots))))
}
