package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of what protocol CURP alone has.
const (
	maxFaults = 3       // of seven members
	minSlots  = 4       // as witnesses do
	maxSlots  = 1 << 20 // as witnesses do
)

// validatePartitions checks what protocol CURP alone has, and what it can't do without; counted says that the sites are
// right, so that members can be counted.
func validatePartitions(path *field.Path, s GeoRegisterClusterSpec, counted bool) field.ErrorList {
	var errs field.ErrorList
	add := func(more ...*field.Error) { errs = append(errs, more...) }
	faults, witness := path.Child("faultTolerance"), path.Child("witness")
	if !s.Partitioned() {
		if s.FaultTolerance != nil {
			add(field.Forbidden(faults, fmt.Sprintf(
				"protocol %s survives the loss of any minority; remove it, or use protocol %s", s.Protocol, curp)))
		}
		if s.Witness != nil {
			add(field.Forbidden(witness, fmt.Sprintf(
				"protocol %s has no witnesses; remove it, or use protocol %s", s.Protocol, curp)))
		}
		return errs
	}
	if f := s.FaultTolerance; f != nil {
		switch {
		case *f < 1 || *f > maxFaults:
			add(validateRange(faults, f, maxFaults)...)
		case counted && 2*int(*f) >= s.MemberCount():
			add(field.Invalid(faults, *f, fmt.Sprintf(
				"must be less than half of the %d members; lower it, or add members", s.MemberCount())))
		}
	}
	if d := s.Storage.DurabilityOrDefault(); d == Interval || d == Memory {
		add(field.Invalid(path.Child("storage", "durability"), d, fmt.Sprintf("protocol %s needs durability Sync: with another one, "+
			"a master and its backups that restart together forget what they answered; remove it, or use another protocol", curp)))
	}
	if s.Witness != nil {
		add(validateWitness(witness, *s.Witness)...)
	}
	return errs
}

func validateWitness(path *field.Path, w Witness) field.ErrorList {
	var errs field.ErrorList
	placements := []WitnessPlacement{Sidecar, Dedicated}
	switch at := path.Child("placement"); {
	case w.Placement == Dedicated:
		errs = append(errs, field.Forbidden(at, "placement Dedicated is not built yet; remove it, or use Sidecar"))
	case w.Placement != "" && !slices.Contains(placements, w.Placement):
		errs = append(errs, field.NotSupported(at, w.Placement, placements))
	}
	if w.Slots == nil {
		return errs
	}
	switch at, n := path.Child("slots"), *w.Slots; {
	case n < minSlots || n > maxSlots:
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("must be between %d and %d", minSlots, maxSlots)))
	case n&(n-1) != 0:
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("must be a power of two, such as %d", DefaultWitnessSlots)))
	}
	return errs
}
