package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/capability"
)

// maxFaults is the most that faultTolerance can be: three of seven members.
const maxFaults = 3

// validateProtocol checks what depends on the protocol, which is known; counted says that the sites are right, so
// that members can be counted.
func validateProtocol(path *field.Path, s GeoRegisterClusterSpec, counted bool) field.ErrorList {
	errs := validateSections(path, s)
	errs = append(errs, validateFaultTolerance(path.Child("faultTolerance"), s, counted)...)
	switch {
	case s.Partitioned():
		if d := s.Storage.DurabilityOrDefault(); d == Interval || d == Memory {
			errs = append(errs, field.Invalid(path.Child("storage", "durability"), d, fmt.Sprintf(
				"protocol %s needs durability Sync: with another one, a master and its backups that restart together "+
					"forget what they answered; remove it, or use another protocol", curp)))
		}
		errs = append(errs, validateHomes(path.Child("homes"), s)...)
		errs = append(errs, validateWitness(path.Child("curp", "witness"), s, counted)...)
	case len(s.Homes) > 0:
		errs = append(errs, field.Forbidden(path.Child("homes"), fmt.Sprintf(
			"protocol %s has no masters to give homes to; remove it, or use protocol %s", s.Protocol, curp)))
	}
	if s.Protocol == gus {
		errs = append(errs, validateErasureCoding(path.Child("gus", "erasureCoding"), s, counted && len(errs) == 0)...)
	}
	return errs
}

// validateSections refuses the sections of other protocols than that of the manifest.
func validateSections(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	var errs field.ErrorList
	for _, section := range []struct {
		name, protocol string
		given          bool
	}{
		{"curp", curp, s.CURP != nil},
		{"gus", gus, s.Gus != nil},
	} {
		if section.given && s.Protocol != section.protocol {
			errs = append(errs, field.Forbidden(path.Child(section.name), fmt.Sprintf(
				"it is the section of protocol %[1]s alone, and spec.protocol is %[2]s; remove it, or use "+
					"protocol %[1]s",
				section.protocol, s.Protocol)))
		}
	}
	return errs
}

func validateFaultTolerance(path *field.Path, s GeoRegisterClusterSpec, counted bool) field.ErrorList {
	f := s.FaultTolerance
	switch {
	case f == nil:
		return nil
	case !s.Partitioned() && s.Protocol != gus:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"protocol %s survives the loss of any minority; remove it, or use protocol %s or %s",
			s.Protocol, curp, gus))}
	case *f < 1 || *f > maxFaults:
		return validateRange(path, f, maxFaults)
	case !counted:
		return nil
	case s.Partitioned() && 2*int(*f) >= s.MemberCount():
		return field.ErrorList{field.Invalid(path, *f, fmt.Sprintf(
			"must be less than half of the %d members; lower it, or add members", s.MemberCount()))}
	case s.Partitioned():
		return nil
	}
	row, err := capability.Find(s.Protocol)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if err := row.CheckFaults(s.MemberCount(), int(*f)); err != nil {
		return field.ErrorList{field.Invalid(path, *f, err.Error())}
	}
	return nil
}

func validateHomes(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	var errs field.ErrorList
	if shards := s.ShardCount(); len(s.Homes) > shards {
		errs = append(errs, field.Invalid(path, len(s.Homes), fmt.Sprintf(
			"it has more entries than the %d shards; remove the last ones", shards)))
	}
	for i, home := range s.Homes {
		if home != "" && !slices.ContainsFunc(s.Sites, func(site Site) bool { return site.Name == home }) {
			errs = append(errs, field.Invalid(path.Index(i), home, fmt.Sprintf(
				"is not in spec.sites; correct it, add the site there, or give shard %d another home first", i)))
		}
	}
	return errs
}
