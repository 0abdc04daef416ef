package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/capability"
)

// maxFaults is the most that faultTolerance can be: three of seven members.
const maxFaults = 3

// validateProtocol checks what depends on the protocol, which is known; counted says that the sites are right, so
// that members can be counted.
func validateProtocol(
	path *field.Path, s GeoRegisterClusterSpec, protocol capability.Protocol, counted bool,
) field.ErrorList {
	d := s.Storage.DurabilityOrDefault()
	errs := slices.Concat(
		validateSection(path.Child("curp"), s.CURP != nil, s.Protocol, curp),
		validateSection(path.Child("gus"), s.Gus != nil, s.Protocol, gus),
		validateFaultTolerance(path.Child("faultTolerance"), s, protocol, counted),
		refuse(s.Partitioned() && (d == Interval || d == Memory),
			field.Invalid(path.Child("storage", "durability"), d, fmt.Sprintf(
				"protocol %s needs durability Sync: with another one, a master and its backups that restart together "+
					"forget what they answered; remove it, or use another protocol", curp))),
		validateHomes(path.Child("homes"), s),
		validateWitness(path.Child("curp", "witness"), s, counted))
	return append(errs,
		validateErasureCoding(path.Child("gus", "erasureCoding"), s, protocol, counted && len(errs) == 0)...)
}

// validateSection refuses the section of another protocol than that of the manifest.
func validateSection(path *field.Path, given bool, protocol, of string) field.ErrorList {
	return refuse(given && protocol != of, field.Forbidden(path, fmt.Sprintf(
		"it is the section of protocol %[1]s alone, and spec.protocol is %[2]s; remove it, or use protocol %[1]s",
		of, protocol)))
}

func validateFaultTolerance(
	path *field.Path, s GeoRegisterClusterSpec, protocol capability.Protocol, counted bool,
) field.ErrorList {
	f := s.FaultTolerance
	switch {
	case f == nil:
		return nil
	case !s.Partitioned() && !protocol.CountsFaults():
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"protocol %s survives the loss of any minority; remove it, or use protocol %s", s.Protocol, tolerant()))}
	case *f < 1 || *f > maxFaults || !counted:
		return validateRange(path, f, maxFaults)
	case s.Partitioned():
		return refuse(2*int(*f) >= s.MemberCount(), field.Invalid(path, *f, fmt.Sprintf(
			"must be less than half of the %d members; lower it, or add members", s.MemberCount())))
	}
	return check(path, *f, protocol.CheckFaults(s.MemberCount(), int(*f)))
}

// tolerant spells the protocols that can be told how many members may be lost at once.
func tolerant() string {
	names := []string{curp}
	for _, row := range capability.Table() {
		if row.CountsFaults() {
			names = append(names, row.Name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func validateHomes(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	if !s.Partitioned() {
		return refuse(len(s.Homes) > 0, field.Forbidden(path, fmt.Sprintf(
			"protocol %s has no masters to give homes to; remove it, or use protocol %s", s.Protocol, curp)))
	}
	errs := refuse(len(s.Homes) > s.ShardCount(), field.Invalid(path, len(s.Homes), fmt.Sprintf(
		"it has more entries than the %d shards; remove the last ones", s.ShardCount())))
	for i, home := range s.Homes {
		known := slices.ContainsFunc(s.Sites, func(site Site) bool { return site.Name == home })
		errs = append(errs, refuse(home != "" && !known, field.Invalid(path.Index(i), home, fmt.Sprintf(
			"is not in spec.sites; correct it, add the site there, or give shard %d another home first", i)))...)
	}
	return errs
}
