// Package profile names sets of sites and the round-trip times between them, so that the simulator, the
// development cluster and the manifest speak of the same networks.
package profile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Local is the round trip between a client and the replica at its own site (Gryff, figure 5).
const Local = 200 * time.Microsecond

// Profile is a set of sites and the round-trip time of each pair.
type Profile struct {
	Name  string
	Sites []string
	// RTT is symmetric, by position in Sites; the diagonal is the round trip inside a site.
	RTT [][]time.Duration
}

// Pair is the round-trip time between two different sites, in either order.
type Pair struct {
	A, B string
	RTT  time.Duration
}

const ms = time.Millisecond

// Find returns a named profile.
func Find(name string) (Profile, error) {
	for _, p := range named() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("unknown profile %q; known are %s", name, strings.Join(Names(), ", "))
}

// Names lists the named profiles.
func Names() []string {
	var names []string
	for _, p := range named() {
		names = append(names, p.Name)
	}
	return names
}

func named() []Profile {
	return []Profile{
		// Gryff (NSDI '20), figure 5; the same as table 2 of the RSS paper (SOSP '21) and table 3 of Gus (SPAA '23).
		must("gryff", []string{"CA", "VA", "IR", "OR", "JP"}, []Pair{
			{"CA", "VA", 72 * ms}, {"CA", "IR", 151 * ms}, {"VA", "IR", 88 * ms},
			{"CA", "OR", 59 * ms}, {"VA", "OR", 93 * ms}, {"IR", "OR", 145 * ms},
			{"CA", "JP", 113 * ms}, {"VA", "JP", 162 * ms}, {"IR", "JP", 220 * ms}, {"OR", "JP", 121 * ms},
		}),
		// The RSS paper (SOSP '21), section 6: three data centres.
		must("rss", []string{"CA", "VA", "IR"}, []Pair{
			{"CA", "VA", 62 * ms}, {"CA", "IR", 136 * ms}, {"VA", "IR", 68 * ms},
		}),
	}
}

// must is for the tables above alone: an error in them is a bug of this package.
func must(name string, sites []string, pairs []Pair) Profile {
	p, err := New(name, sites, pairs)
	if err != nil {
		panic(err)
	}
	return p
}

// New makes a profile of the round trips of all pairs of sites. It refuses a site that is empty or named twice,
// and a pair that is missing, repeated, of unknown sites or not positive.
func New(name string, sites []string, pairs []Pair) (Profile, error) {
	p := Profile{Name: name, Sites: slices.Clone(sites), RTT: make([][]time.Duration, len(sites))}
	if len(sites) == 0 {
		return Profile{}, fmt.Errorf("no sites; name at least one")
	}
	for i, s := range sites {
		if s == "" {
			return Profile{}, fmt.Errorf("site %d has no name", i+1)
		}
		if slices.Index(sites, s) != i {
			return Profile{}, fmt.Errorf("site %q is named twice", s)
		}
		p.RTT[i] = make([]time.Duration, len(sites))
		p.RTT[i][i] = Local
	}
	for _, pair := range pairs {
		a, b := p.Index(pair.A), p.Index(pair.B)
		switch {
		case a < 0:
			return Profile{}, fmt.Errorf("round trip %s-%s: there is no site %q", pair.A, pair.B, pair.A)
		case b < 0:
			return Profile{}, fmt.Errorf("round trip %s-%s: there is no site %q", pair.A, pair.B, pair.B)
		case a == b:
			return Profile{}, fmt.Errorf("round trip %s-%s: name two different sites", pair.A, pair.B)
		case pair.RTT <= 0:
			return Profile{}, fmt.Errorf("round trip %s-%s is %v; it must be positive", pair.A, pair.B, pair.RTT)
		case p.RTT[a][b] != 0:
			return Profile{}, fmt.Errorf("round trip %s-%s is given twice", pair.A, pair.B)
		}
		p.RTT[a][b], p.RTT[b][a] = pair.RTT, pair.RTT
	}
	for a := range sites {
		for b := range a {
			if p.RTT[a][b] == 0 {
				return Profile{}, fmt.Errorf("round trip %s-%s is missing", sites[b], sites[a])
			}
		}
	}
	return p, nil
}

// Parse reads pairs such as "a-b=72ms,a-c=151ms,b-c=88ms". The sites are those named, in order of appearance.
func Parse(list string) (Profile, error) {
	var sites []string
	var pairs []Pair
	for _, item := range strings.Split(list, ",") {
		link, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		a, b, two := strings.Cut(link, "-")
		if !ok || !two || a == "" || b == "" {
			return Profile{}, fmt.Errorf("%q is not of the form SITE-SITE=DURATION, such as a-b=72ms", item)
		}
		rtt, err := time.ParseDuration(value)
		if err != nil {
			return Profile{}, fmt.Errorf("round trip %s-%s: %q is no duration; write it as 72ms or 0.5s", a, b, value)
		}
		for _, s := range []string{a, b} {
			if !slices.Contains(sites, s) {
				sites = append(sites, s)
			}
		}
		pairs = append(pairs, Pair{a, b, rtt})
	}
	return New("custom", sites, pairs)
}

// Index is the position of a site, or -1.
func (p Profile) Index(site string) int { return slices.Index(p.Sites, site) }

// Select returns the profile of some of the sites, in the order given. The case of names does not matter, as
// manifests write them small.
func (p Profile) Select(names []string) (Profile, error) {
	var pairs []Pair
	sites := slices.Clone(names)
	for i, name := range names {
		at := slices.IndexFunc(p.Sites, func(site string) bool { return strings.EqualFold(site, name) })
		if at < 0 {
			return Profile{}, fmt.Errorf("profile %s has no site %q; it has %s", p.Name, name,
				strings.Join(p.Sites, ", "))
		}
		a := p.Sites[at]
		sites[i] = a
		for _, b := range sites[:i] {
			if a != b {
				pairs = append(pairs, Pair{b, a, p.RTT[p.Index(a)][p.Index(b)]})
			}
		}
	}
	return New(p.Name, sites, pairs)
}

// First returns the profile of the first n sites.
func (p Profile) First(n int) (Profile, error) {
	if n < 1 || n > len(p.Sites) {
		return Profile{}, fmt.Errorf("profile %s has %d sites, not %d", p.Name, len(p.Sites), n)
	}
	return p.Select(p.Sites[:n])
}

// Largest is the longest round trip between two sites, or Local if there is one site only.
func (p Profile) Largest() time.Duration {
	largest := Local
	for _, row := range p.RTT {
		largest = max(largest, slices.Max(row))
	}
	return largest
}

// Nearest lists the positions of the other sites by distance from one, nearest first; of two equally
// distant ones, the earlier.
func (p Profile) Nearest(from int) []int {
	var others []int
	for i := range p.Sites {
		if i != from {
			others = append(others, i)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { return int(p.RTT[from][a] - p.RTT[from][b]) })
	return others
}
