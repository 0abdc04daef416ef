package decide

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// placement is how partitions are to be kept by the members of a plain view: as the manifest wants it, as far as they
// are enough. A site keeps its place in the order of homes when its member is replaced.
func (s Situation) placement(v view.View) membership.Placement {
	p := membership.Placement{Partitions: s.Shards, Faults: min(s.Faults, (v.Size()-1)/2), Dedicated: s.Dedicated}
	if len(v.Partitions) > 0 { // else it is to be founded
		p.Partitions = s.WantedShards()
	}
	there := s.SitesOf(v)
	for i := range p.Partitions {
		home := s.Record.Home(i, there)
		if home == "" && len(s.Distances) == 0 {
			home = there[i%len(there)] // and not in the members' order, in which who replaces another one is the last
		}
		p.Homes = append(p.Homes, home)
	}
	p.Distances = s.Distances
	return p
}

// Home is the site where the master of a partition is at rest.
func (s Situation) Home(partition int) string {
	v := s.View.After()
	p := s.placement(v)
	return p.Home(&v, partition)
}

// addPartitions adds to a snapshot what decisions on partitions are made from. That this process does not hear somebody
// is not in it.
func (s Situation) addPartitions(now *membership.Snapshot) {
	now.Placement = s.placement(s.View.After())
	if now.Abandon {
		now.Placement = s.placement(s.View.Before())
	}
	now.Placement.Faults = min(s.Faults, membership.Faults(s.View, now.Abandon))
	for _, m := range s.Members {
		if said := s.Reports[m.ID].Member; said != nil && s.View.Index(m.ID) >= 0 {
			now.Members = append(now.Members, *said)
		}
	}
	for _, w := range s.witnesses() {
		if w.said != nil {
			now.Witnesses, now.Named = append(now.Witnesses, *w.said), append(now.Named, w.Witness)
		}
	}
	now.Retiring = s.retiring()
}

// witness is one of the record, as a view has it on the disk that it named, and what it said.
type witness struct {
	view.Witness
	said *membership.WitnessReport // nil: nothing
}

// witnesses are those beside members, or else the dedicated ones.
func (s Situation) witnesses() (all []witness) {
	for _, m := range s.Members {
		if m.Witness != 0 {
			all = append(all, witness{m.Beside(""), s.Reports[m.ID].Witness})
		}
	}
	for _, w := range s.Witnesses {
		all = append(all, witness{w.Entry(""), s.Reports[w.ID].Witness})
	}
	for i, w := range all {
		if w.said != nil {
			all[i].Disk = w.said.Disk
		}
	}
	return all
}

// retiring are the dedicated witnesses of the view that are to go: those of sites without members, and those that have
// a successor there.
func (s Situation) retiring() (ids []view.MemberID) {
	for _, w := range s.View.Witnesses {
		succeeded := slices.ContainsFunc(s.View.Witnesses,
			func(o view.Witness) bool { return o.Site == w.Site && o.ID > w.ID })
		if w.Beside == 0 && (succeeded || !slices.Contains(s.SitesOf(s.View.After()), w.Site)) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// Staff says which dedicated witnesses are to be started, by their sites, and which are over. One that is on another
// disk than the view names gets a successor; one that was killed is waited for. While members change none begins: the
// view takes IDs on in their order.
func (s Situation) Staff() (missing []string, over []view.MemberID) {
	if !s.Dedicated || s.View.Epoch == 0 || s.View.Joint() || s.Change != nil || !s.Committed() {
		return nil, nil
	}
	var kept []string // the sites of the others
	for _, w := range s.Witnesses {
		entry, known := s.View.Witness(w.ID)
		said := s.Reports[w.ID].Witness
		switch {
		case !known && w.ID <= s.View.LastIssued():
			over = append(over, w.ID)
		case known && said != nil && said.Disk != "" && said.Disk != entry.Disk:
		default:
			kept = append(kept, w.Site)
		}
	}
	for _, site := range s.SitesOf(s.View) {
		if !slices.Contains(kept, site) {
			missing = append(missing, site)
		}
	}
	return missing, over
}

// Lives are the lives of witnesses that are to begin and to end in the recorded view, and nothing without partitions.
func (s Situation) Lives() (begin, end []membership.Life) {
	if !s.Partitioned() || s.View.Epoch == 0 {
		return nil, nil
	}
	return membership.Lives(s.snapshot())
}

// Disturbs reports whether another view can wait, since it would interrupt a master that answers and is recovering its
// partition. Only a master or a backup that is lost is worth that.
func (s Situation) Disturbs(next view.View) bool {
	recovering := false
	for i, p := range s.View.Partitions {
		if to := next.Partitions[i]; to.Master != p.Master || len(p.Formers) > 0 && to.Term != p.Term {
			return false
		}
		said := s.Reports[p.Master].Member
		if len(p.Formers) > 0 && said != nil &&
			(i >= len(said.Partitions) || said.Partitions[i].Term != p.Term || !said.Partitions[i].Recovered) {
			recovering = true
		}
	}
	return recovering
}

// numbered are the words with which decisions name members and witnesses.
var numbered = regexp.MustCompile(`\b(members?|masters?|backups?|witness(?:es)?|become|hears,) (\d+|\[[\d ]*\])`)

// names has a decision name members and witnesses as people know them.
func (s Situation) names(text string) string {
	return numbered.ReplaceAllStringFunc(text, func(match string) string {
		word, ids, _ := strings.Cut(match, " ")
		var all []view.MemberID
		for _, id := range strings.Fields(strings.Trim(ids, "[]")) {
			n, _ := strconv.ParseUint(id, 10, 32) // digits
			all = append(all, view.MemberID(n))
		}
		return word + " " + cmp.Or(s.Labels(all), "none")
	})
}
