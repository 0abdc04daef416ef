// Package profile holds the wide-area topologies of the papers by name: sites and the round-trip times
// between them. Manifests and the simulator read it.
package profile

import (
	"fmt"
	"strings"
	"time"
)

// Site is a region of a profile.
type Site struct {
	Name string // as manifests spell it: a DNS label
	Code string // as the paper abbreviates it
}

// Profile is a named matrix of round-trip times.
type Profile struct {
	Name   string
	Source string // the paper, section and figure that the numbers are from
	Sites  []Site // in the paper's order: the first three are its three-replica experiments
	Local  time.Duration
	rtt    [][]float64 // milliseconds; row i has the columns below i
}

// The regions of the papers.
var (
	california = Site{"california", "CA"}
	virginia   = Site{"virginia", "VA"}
	ireland    = Site{"ireland", "IR"}
	oregon     = Site{"oregon", "OR"}
	japan      = Site{"japan", "JP"}
)

// localHop is the round trip between two nodes of one region, in both papers.
const localHop = 200 * time.Microsecond

// All lists the profiles, sorted by name.
func All() []Profile {
	return []Profile{
		{
			Name: "gryff", Source: "Gryff (NSDI '20), figure 5", Local: localHop,
			Sites: []Site{california, virginia, ireland, oregon, japan},
			rtt:   [][]float64{{}, {72}, {151, 88}, {59, 93, 145}, {113, 162, 220, 121}},
		},
		{
			Name: "rss", Source: "Regular Sequential Serializability (SOSP '21), section 6.2", Local: localHop,
			Sites: []Site{california, virginia, ireland},
			rtt:   [][]float64{{}, {62}, {136, 68}},
		},
	}
}

// Names lists the profiles by name, sorted.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns a profile by its name; the error names those there are.
func Find(name string) (Profile, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("unknown profile %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Site finds a site by its name or code, in any case.
func (p Profile) Site(name string) (Site, bool) {
	if i := p.index(name); i >= 0 {
		return p.Sites[i], true
	}
	return Site{}, false
}

// SiteNames lists the sites by name, in the paper's order.
func (p Profile) SiteNames() []string {
	var names []string
	for _, s := range p.Sites {
		names = append(names, s.Name)
	}
	return names
}

// RTT is the round-trip time between two sites, given by name or code; within a site it is Local. It reports
// false if the profile lacks one of them.
func (p Profile) RTT(a, b string) (time.Duration, bool) {
	i, j := p.index(a), p.index(b)
	switch {
	case i < 0 || j < 0:
		return 0, false
	case i == j:
		return p.Local, true
	}
	return time.Duration(p.rtt[max(i, j)][min(i, j)] * float64(time.Millisecond)), true
}

func (p Profile) index(name string) int {
	for i, s := range p.Sites {
		if strings.EqualFold(s.Name, name) || strings.EqualFold(s.Code, name) {
			return i
		}
	}
	return -1
}
