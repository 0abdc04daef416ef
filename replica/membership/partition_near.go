package membership

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// Distances are the round trips between sites, by one name and the other, of each pair in one order or in both. Without
// those of all pairs nothing is placed by them.
type Distances map[string]map[string]time.Duration

// between is the round trip between two sites, and whether it is known; none within a site.
func (d Distances) between(a, b string) (rtt time.Duration, known bool) {
	if a == b {
		return 0, true
	}
	if rtt, known = d[a][b]; !known {
		rtt, known = d[b][a]
	}
	return rtt, known
}

// cover reports whether the distances of all pairs of sites are known.
func (d Distances) cover(sites []string) bool {
	for i, a := range sites {
		for _, b := range sites[:i] {
			if _, known := d.between(a, b); !known {
				return false
			}
		}
	}
	return true
}

// reach is how long updates take in one round trip (section 3.2.1 of the CURP paper) with a master and witnesses at
// some sites: from the slowest site, from all together, and how long a sync takes if backups are where witnesses are.
type reach struct{ slowest, all, sync time.Duration }

// better orders by the slowest site first: nobody is to pay for the others.
func (r reach) better(o reach) bool {
	if r.slowest != o.slowest {
		return r.slowest < o.slowest
	}
	if r.all != o.all {
		return r.all < o.all
	}
	return r.sync < o.sync
}

// reach of a master with witnesses, from all sites.
func (d Distances) reach(sites []string, master string, witnesses []string) (r reach) {
	for _, site := range sites {
		longest, _ := d.between(site, master)
		for _, w := range witnesses {
			rtt, _ := d.between(site, w)
			longest = max(longest, rtt)
		}
		r.slowest, r.all = max(r.slowest, longest), r.all+longest
	}
	for _, w := range witnesses {
		rtt, _ := d.between(master, w)
		r.sync = max(r.sync, rtt)
	}
	return r
}

// nearest are the sites, other than a master's, at which so many witnesses serve all sites best, and how well; all
// others if they are no more. There are few: of seven sites, three are chosen in 20 ways.
func (d Distances) nearest(sites []string, master string, count int) (best []string, r reach) {
	others := slices.DeleteFunc(slices.Clone(sites), func(site string) bool { return site == master })
	count = min(count, len(others))
	found := false
	var choose func(from int, chosen []string)
	choose = func(from int, chosen []string) {
		if len(chosen) == count {
			if got := d.reach(sites, master, chosen); !found || got.better(r) {
				found, best, r = true, slices.Clone(chosen), got
			}
			return
		}
		for i := from; i < len(others); i++ {
			choose(i+1, append(chosen, others[i]))
		}
	}
	choose(0, nil)
	return best, r
}

// A site is as good for a master as the best one if no update takes more than a 50th longer in one round trip. A master
// stays where it takes no more than a quarter longer: distances that are measured vary, and a move stops the shard for
// a few round trips.
const (
	asGood = 50
	stays  = 4
)

// near are the sites that a master should be at, in the members' order, and how long updates of the slowest site take
// with a master there; none if a placement does not go by distances.
func (p *Placement) near(sites []string) (good []string, best time.Duration) {
	if len(sites) < 2 || !p.Distances.cover(sites) {
		return nil, 0
	}
	slowest := make([]time.Duration, len(sites))
	for i, site := range sites {
		_, r := p.Distances.nearest(sites, site, p.partners())
		slowest[i] = r.slowest
	}
	best = slices.Min(slowest)
	for i, site := range sites {
		if slowest[i] <= best+best/asGood {
			good = append(good, site)
		}
	}
	return good, best
}

// partners is how many witnesses a partition has.
func (p *Placement) partners() int { return max(p.Faults, p.Alone) }

// Home is the site where the master of a partition belongs: that of Homes, or one from which updates of the slowest
// site take least, in turn where several are as good; and without distances the sites in turn. A master that is at a
// site nearly as good stays there, and so does one as long as a site is there of which no distance is known. One of a
// partition that was split off begins where the other one is, and takes its turn.
func (p *Placement) Home(v *view.View, partition int) string {
	if partition < len(p.Homes) && p.Homes[partition] != "" {
		return p.Homes[partition]
	}
	sites := v.After().Sites()
	at := ""
	if partition < len(v.Partitions) {
		if i := v.Index(v.Partitions[partition].Master); i >= 0 && slices.Contains(sites, v.Members[i].Site) {
			at = v.Members[i].Site
		}
	}
	good, best := p.near(sites)
	switch {
	case len(good) == 0 && (len(p.Distances) == 0 || at == ""):
		return sites[partition%len(sites)]
	case len(good) == 0:
		return at
	case at != "" && v.Partitions[partition].Split == 0:
		if _, r := p.Distances.nearest(sites, at, p.partners()); r.slowest <= best+best/stays {
			return at
		}
	}
	return good[partition%len(good)]
}

// far is 1 for a member or witness that is not at one of the sites where witnesses of a master serve all sites best,
// and 0 otherwise, or without distances. Backups are there, too, unless witnesses are kept away from them.
func (c *chooser) far(id, master view.MemberID, witness bool) int {
	sites := c.view.After().Sites()
	i := c.view.Index(master)
	if len(sites) < 2 || i < 0 || !c.placement.Distances.cover(sites) {
		return 0
	}
	site := ""
	if w, known := c.view.Witness(id); known {
		site = w.Site
	} else if at := c.view.Index(id); at >= 0 {
		site = c.view.Members[at].Site
	}
	best, _ := c.placement.Distances.nearest(sites, c.view.Members[i].Site, c.placement.partners())
	away := !slices.Contains(best, site)
	if c.placement.Dedicated && !witness {
		away = !away
	}
	return index(away)
}
