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

// Validate lists what is wrong with a spec that stands at path.
func (s GeoRegisterClusterSpec) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(more ...*field.Error) { errs = append(errs, more...) }

	known := slices.Contains(capability.Names(), s.Protocol)
	switch {
	case s.Protocol == "":
		add(field.Required(path.Child("protocol"), "use one of "+strings.Join(capability.Names(), ", ")))
	case !known:
		add(field.NotSupported(path.Child("protocol"), s.Protocol, capability.Names()))
	}
	siteErrs := validateSites(path.Child("sites"), s.Sites)
	add(siteErrs...)
	if known && len(siteErrs) == 0 {
		if protocol, err := capability.Find(s.Protocol); err != nil {
			add(field.InternalError(path.Child("protocol"), err))
		} else if err := protocol.CheckMembers(s.MemberCount()); err != nil {
			add(field.Invalid(path.Child("sites"), s.MemberCount(),
				fmt.Sprintf("%v, counted over all sites; add or remove sites or members", err)))
		}
	}
	add(validateRange(path.Child("shards"), s.Shards, MaxShards)...)
	add(validateStorage(path.Child("storage"), s.Storage)...)
	if known {
		add(validateProtocol(path, s, len(siteErrs) == 0)...)
	}
	return slices.Concat(errs,
		validateRange(path.Child("limits", "keyBytes"), s.Limits.KeyBytes, maxKeyBytes),
		validateRange(path.Child("limits", "valueBytes"), s.Limits.ValueBytes, maxValueBytes),
		validateClientMemory(path, s),
		validateWAN(path, s),
		validateRecovery(path.Child("recovery"), s),
		validatePods(path, s))
}

func validateSites(path *field.Path, sites []Site) field.ErrorList {
	if len(sites) == 0 {
		return field.ErrorList{field.Required(path, "name at least one site")}
	}
	var errs field.ErrorList
	for i, site := range sites {
		at := path.Index(i)
		errs = append(errs, validateLabel(at.Child("name"), site.Name, maxSiteNameLength)...)
		if site.Name != "" && slices.IndexFunc(sites, func(o Site) bool { return o.Name == site.Name }) != i {
			twice := field.Duplicate(at.Child("name"), site.Name)
			twice.Detail = "give every site a name of its own, or set members of the first one"
			errs = append(errs, twice)
		}
		if whose, taken := otherServices[site.Name]; taken {
			errs = append(errs, field.Invalid(at.Child("name"), site.Name,
				"the Service of that name is for "+whose+"; choose another name"))
		}
		if site.Members != nil && *site.Members < 1 {
			errs = append(errs, field.Invalid(at.Child("members"), *site.Members,
				"must be at least 1; leave the site out if it has no members"))
		}
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
	errs := validateVolumes(path, s)
	if s.Interval == "" {
		return errs
	}
	at := path.Child("interval")
	if s.DurabilityOrDefault() != Interval {
		return append(errs, field.Forbidden(at, fmt.Sprintf(
			"durability %s has no interval; remove it or set durability: Interval", s.DurabilityOrDefault())))
	}
	return append(errs, validateDuration(at, s.Interval, time.Millisecond, maxInterval)...)
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
