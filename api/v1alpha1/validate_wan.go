package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/profile"
)

// validateWAN is told the whole spec: links and profiles must fit the sites.
func validateWAN(spec *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	if s.WAN == nil {
		return nil
	}
	path := spec.Child("wan")
	errs := slices.Concat(
		validateChoice(path.Child("provider"), s.WAN.Provider, ChaosMesh, NoProvider),
		validateRange(path.Child("tolerancePercent"), s.WAN.TolerancePercent, 100))
	switch {
	case s.WAN.Profile != "" && s.WAN.Links != nil:
		errs = append(errs, field.Forbidden(path.Child("links"), "give either profile or links; remove one of them"))
	case s.WAN.Profile != "":
		errs = append(errs, validateProfile(path.Child("profile"), spec.Child("sites"), s)...)
	case len(s.WAN.Links) > 0:
		errs = append(errs, validateLinks(path.Child("links"), s)...)
	case len(s.Sites) > 1:
		errs = append(errs, field.Required(path, "give a profile or links, or remove wan for a network without delay"))
	}
	return errs
}

func validateProfile(path, sites *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	p, err := profile.Find(s.WAN.Profile)
	if err != nil {
		return field.ErrorList{field.NotSupported(path, s.WAN.Profile, profile.Names())}
	}
	var errs field.ErrorList
	for i, site := range s.Sites {
		errs = append(errs, refuse(site.Name != "" && !slices.Contains(profileSites(p), site.Name),
			field.Invalid(sites.Index(i).Child("name"), site.Name, fmt.Sprintf(
				"profile %s has no such site; use %s, or give wan.links instead of the profile",
				p.Name, strings.Join(profileSites(p), ", "))))...)
	}
	return errs
}

func validateLinks(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	var errs field.ErrorList
	for i, link := range s.WAN.Links {
		errs = append(errs, validateEnds(path.Index(i).Child("between"), link, s)...)
		first := slices.IndexFunc(s.WAN.Links, func(o Link) bool {
			return len(link.Between) == 2 && o.joins(link.Between[0], link.Between[1])
		})
		errs = append(errs, duplicate(first >= 0 && first < i,
			path.Index(i).Child("between"), strings.Join(link.Between, "-"),
			fmt.Sprintf("%s is the same pair; remove one of them", path.Index(first)))...)
	}
	if len(errs) == 0 { // else a pair that seems to be missing may only be misspelt
		errs = append(errs, missingPairs(path, s)...)
	}
	for i, link := range s.WAN.Links {
		at := path.Index(i)
		errs = slices.Concat(errs,
			refuse(link.RTT == "", field.Required(at.Child("rtt"), "write it like 72ms; 0s for no delay")),
			validateDuration(at.Child("rtt"), link.RTT, 0, maxRTT),
			validateTraffic(at, Direction{Jitter: link.Jitter, Loss: link.Loss, Rate: link.Rate}))
		for j, d := range link.Directions {
			errs = append(errs, validateDirection(at.Child("directions").Index(j), link, j, d)...)
		}
	}
	return errs
}

// validateDirection checks the direction of a link that is at a position among its directions.
func validateDirection(path *field.Path, link Link, position int, d Direction) field.ErrorList {
	known := slices.Contains(link.Between, d.From)
	first := slices.IndexFunc(link.Directions, func(o Direction) bool { return o.From == d.From })
	return slices.Concat(
		refuse(!known, field.NotSupported(path.Child("from"), d.From, link.Between)),
		duplicate(known && first < position, path.Child("from"), d.From, "say all that is different in one entry"),
		refuse(d == (Direction{From: d.From}),
			field.Required(path, "say what is different: give delay, jitter, loss or rate, or remove it")),
		validateDuration(path.Child("delay"), d.Delay, 0, maxRTT/2),
		validateTraffic(path, d))
}

// validateTraffic checks what a link and its directions have in common.
func validateTraffic(path *field.Path, d Direction) field.ErrorList {
	_, loss := d.Loss.parse()
	_, rate := d.Rate.parse()
	return slices.Concat(validateDuration(path.Child("jitter"), d.Jitter, 0, maxRTT),
		check(path.Child("loss"), d.Loss, loss), check(path.Child("rate"), d.Rate, rate))
}

// validateEnds checks that a link joins two different sites of the cluster.
func validateEnds(path *field.Path, link Link, s GeoRegisterClusterSpec) field.ErrorList {
	if len(link.Between) != 2 || link.Between[0] == link.Between[1] {
		return field.ErrorList{
			field.Invalid(path, strings.Join(link.Between, ", "), "name two different sites, like [a, b]"),
		}
	}
	var errs field.ErrorList
	for i, end := range link.Between {
		known := slices.ContainsFunc(s.Sites, func(site Site) bool { return site.Name == end })
		errs = append(errs, refuse(!known,
			field.Invalid(path.Index(i), end, "no such site in spec.sites; add it there or correct the name"))...)
	}
	return errs
}

func missingPairs(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	var names []string
	for _, site := range s.Sites {
		if !slices.Contains(names, site.Name) { // repeated names are a mistake of their own
			names = append(names, site.Name)
		}
	}
	var errs field.ErrorList
	for i, a := range names {
		for _, b := range names[i+1:] {
			if !slices.ContainsFunc(s.WAN.Links, func(l Link) bool { return l.joins(a, b) }) {
				errs = append(errs, field.Required(path, fmt.Sprintf(
					"no link between %s and %s; add {between: [%s, %s], rtt: ...}", a, b, a, b)))
			}
		}
	}
	return errs
}
