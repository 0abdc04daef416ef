package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/capability"
)

// Bounds of what protocol CURP has, and of faultTolerance.
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
		switch f := s.FaultTolerance; {
		case f == nil:
		case s.Protocol != gus:
			add(field.Forbidden(faults, fmt.Sprintf(
				"protocol %s survives the loss of any minority; remove it, or use protocol %s or %s", s.Protocol, curp, gus)))
		case *f < 1 || *f > maxFaults:
			add(validateRange(faults, f, maxFaults)...)
		case counted:
			if row, err := capability.Find(s.Protocol); err != nil {
				add(field.InternalError(faults, err))
			} else if err := row.CheckFaults(s.MemberCount(), int(*f)); err != nil {
				add(field.Invalid(faults, *f, err.Error()))
			}
		}
		if s.Witness != nil {
			add(field.Forbidden(witness, fmt.Sprintf(
				"protocol %s has no witnesses; remove it, or use protocol %s", s.Protocol, curp)))
		}
		if len(s.Homes) > 0 {
			add(field.Forbidden(path.Child("homes"), fmt.Sprintf(
				"protocol %s has no masters to give homes to; remove it, or use protocol %s", s.Protocol, curp)))
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
	add(validateHomes(path.Child("homes"), s)...)
	if s.Witness != nil {
		add(validateWitness(witness, *s.Witness)...)
		if need := 2*s.Faults() + 1; counted && s.Dedicated() && len(s.Sites) < need {
			add(field.Invalid(witness.Child("placement"), Dedicated, fmt.Sprintf("a master, %[1]d backups and %[1]d witnesses at sites of their own need %d sites, "+
				"and there are %d; add sites, lower faultTolerance, or use Sidecar", s.Faults(), need, len(s.Sites))))
		}
	}
	return errs
}

func validateHomes(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	var errs field.ErrorList
	if shards := s.ShardCount(); len(s.Homes) > shards {
		errs = append(errs, field.Invalid(path, len(s.Homes), fmt.Sprintf("it has more entries than the %d shards; remove the last ones", shards)))
	}
	for i, home := range s.Homes {
		if home != "" && !slices.ContainsFunc(s.Sites, func(site Site) bool { return site.Name == home }) {
			errs = append(errs, field.Invalid(path.Index(i), home, fmt.Sprintf(
				"is not in spec.sites; correct it, add the site there, or give shard %d another home first", i)))
		}
	}
	return errs
}

func validateWitness(path *field.Path, w Witness) field.ErrorList {
	var errs field.ErrorList
	placements := []WitnessPlacement{Sidecar, Dedicated}
	if w.Placement != "" && !slices.Contains(placements, w.Placement) {
		errs = append(errs, field.NotSupported(path.Child("placement"), w.Placement, placements))
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
