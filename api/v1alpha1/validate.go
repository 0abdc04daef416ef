package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// MaxShards is how many shards a cluster can have.
const MaxShards = 256

const (
	maxNameLength     = 40 // names of objects are made from both: the Service of a site has 63 characters at most
	maxSiteNameLength = 20
	maxKeyBytes       = 64 << 10
	maxValueBytes     = 16 << 20
	minTransferRate   = 64 << 10
	maxTransferRate   = 1 << 40
	minCache          = 16 << 20
	maxCache          = 1 << 40
	maxClientMemory   = 1 << 40
)

// otherServices are those of a cluster that are no site's, and who they are for.
var otherServices = map[string]string{"peers": "the members among themselves", "clients": "clients of all sites"}

// Validate lists what is wrong with a manifest: one error per mistake, with the path of the field and the
// way to put it right. A mistake that follows from another one is not listed. Much of this the apiserver holds too, by
// the rules of the CRD; here it is for programs that have none, all at once, with the element of a list that is wrong.
func (c *GeoRegisterCluster) Validate() field.ErrorList {
	name := field.NewPath("metadata", "name")
	nameErrs := validateLabel(name, c.Name, maxNameLength)
	if len(nameErrs) == 0 {
		nameErrs = refuse(c.Name[0] < 'a' || c.Name[0] > 'z',
			field.Invalid(name, c.Name, "must begin with a letter: Services are named after it"))
	}
	return slices.Concat(
		refuse(c.APIVersion != APIVersion,
			field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{APIVersion})),
		refuse(c.Kind != Kind, field.NotSupported(field.NewPath("kind"), c.Kind, []string{Kind})),
		nameErrs,
		c.Spec.Validate(field.NewPath("spec")))
}

// refuse is a mistake, if it was made.
func refuse(made bool, mistake *field.Error) field.ErrorList {
	if !made {
		return nil
	}
	return field.ErrorList{mistake}
}

// check is the mistake that an error tells of, if it does.
func check(path *field.Path, value any, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, err.Error())}
}

// duplicate is the mistake that something was said before, with what to do, if it was.
func duplicate(made bool, path *field.Path, value any, detail string) field.ErrorList {
	twice := field.Duplicate(path, value)
	twice.Detail = detail
	return refuse(made, twice)
}

// Validate lists what is wrong with a spec that stands at path.
func (s GeoRegisterClusterSpec) Validate(path *field.Path) field.ErrorList {
	protocol, err := capability.Find(s.Protocol)
	known := err == nil && protocol.Name == s.Protocol
	siteErrs := validateSites(path.Child("sites"), s.Sites)
	counted := len(siteErrs) == 0
	errs := slices.Concat(
		refuse(s.Protocol == "",
			field.Required(path.Child("protocol"), "use one of "+strings.Join(capability.Names(), ", "))),
		refuse(s.Protocol != "" && !known,
			field.NotSupported(path.Child("protocol"), s.Protocol, capability.Names())),
		siteErrs)
	if known && counted {
		if err := protocol.CheckMembers(s.MemberCount()); err != nil {
			errs = append(errs, field.Invalid(path.Child("sites"), s.MemberCount(),
				fmt.Sprintf("%v, counted over all sites; add or remove sites or members", err)))
		}
	}
	errs = slices.Concat(errs,
		validateRange(path.Child("shards"), s.Shards, MaxShards),
		validateStorage(path.Child("storage"), s.Storage))
	if known {
		errs = append(errs, validateProtocol(path, s, protocol, counted)...)
	}
	return slices.Concat(errs,
		validateRange(path.Child("limits", "keyBytes"), s.Limits.KeyBytes, maxKeyBytes),
		validateRange(path.Child("limits", "valueBytes"), s.Limits.ValueBytes, maxValueBytes),
		validateClientMemory(path, s),
		validateCache(path, s),
		validateWAN(path, s),
		validateRecovery(path.Child("recovery"), s),
		validatePods(path, s))
}

func validateSites(path *field.Path, sites []Site) field.ErrorList {
	errs := refuse(len(sites) == 0, field.Required(path, "name at least one site"))
	for i, site := range sites {
		at, named := path.Index(i), path.Index(i).Child("name")
		first := slices.IndexFunc(sites, func(o Site) bool { return o.Name == site.Name })
		errs = slices.Concat(errs,
			validateLabel(named, site.Name, maxSiteNameLength),
			duplicate(site.Name != "" && first < i, named, site.Name,
				"give every site a name of its own, or set members of the first one"),
			refuse(otherServices[site.Name] != "", field.Invalid(named, site.Name,
				"the Service of that name is for "+otherServices[site.Name]+"; choose another name")),
			refuse(site.MemberCount() < 1, field.Invalid(at.Child("members"), site.MemberCount(),
				"must be at least 1; leave the site out if it has no members")))
		if site.NodePool != nil {
			errs = append(errs, validateNodePool(at.Child("nodePool"), *site.NodePool)...)
		}
	}
	return errs
}

func validateStorage(path *field.Path, s Storage) field.ErrorList {
	if errs := validateChoice(path.Child("durability"), s.Durability, Sync, Interval, Memory); len(errs) > 0 {
		return errs
	}
	at := path.Child("interval")
	durations := validateDuration(at, s.Interval, time.Millisecond, maxInterval)
	if s.Interval != "" && s.DurabilityOrDefault() != Interval {
		durations = field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			"durability %s has no interval; remove it or set durability: Interval", s.DurabilityOrDefault()))}
	}
	return append(validateVolumes(path, s), durations...)
}

func validateRecovery(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	r, trust, empty := s.Recovery, path.Child("trustMember"), path.Child("emptyShards")
	if r == nil {
		return nil
	}
	errs := slices.Concat(
		refuse(s.Partitioned() && r.TrustMember != 0, field.Forbidden(trust,
			"with protocol "+curp+" all members that are left go on, since none has all shards; remove it")),
		refuse(!s.Partitioned() && (r.TrustMember < 1 || r.TrustMember > view.MaxMemberID),
			field.Invalid(trust, r.TrustMember, fmt.Sprintf(
				"must be the number of a member, which status.members has: between 1 and %d", view.MaxMemberID))),
		refuse(r.Epoch < 1, field.Invalid(path.Child("epoch"), r.Epoch,
			"must be the epoch that is given up, which is status.view.epoch: at least 1")))
	if !s.Partitioned() && len(r.EmptyShards) > 0 {
		return append(errs,
			field.Forbidden(empty, "a member has all shards or none with protocol "+s.Protocol+"; remove it"))
	}
	for i, n := range r.EmptyShards {
		errs = append(errs, refuse(int(n) < 0 || int(n) >= s.ShardCount(), field.Invalid(empty.Index(i), n,
			fmt.Sprintf("must be the number of a shard, between 0 and %d", s.ShardCount()-1)))...)
	}
	return errs
}

func validateLabel(path *field.Path, name string, limit int) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "give a name of lower case letters, digits and hyphens")}
	}
	if len(name) > limit {
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("must have at most %d characters", limit))}
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return field.ErrorList{field.Invalid(path, name,
			"must be a DNS label: lower case letters, digits and hyphens, with a letter or digit at both ends")}
	}
	if strings.Contains(name, "--") {
		return field.ErrorList{field.Invalid(path, name,
			"can't have two hyphens in a row: in names of objects they are between the cluster's name and the rest")}
	}
	return nil
}

func validateRange(path *field.Path, value *int32, most int32) field.ErrorList {
	n := valueOr(value, 1)
	return refuse(n < 1 || n > most, field.Invalid(path, n, fmt.Sprintf("must be between 1 and %d", most)))
}

func validateDuration(path *field.Path, d Duration, least, most time.Duration) field.ErrorList {
	parsed, err := d.parse()
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, string(d), err.Error())}
	case d != "" && parsed < 0:
		return field.ErrorList{field.Invalid(path, string(d), "must not be negative")}
	case d != "" && (parsed < least || parsed > most):
		return field.ErrorList{field.Invalid(path, string(d), fmt.Sprintf("must be between %s and %s", least, most))}
	}
	return nil
}
