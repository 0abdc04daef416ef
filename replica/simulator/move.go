package simulator

import (
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// movePaths are what happens to masters that are moved.
func movePaths() []string { return []string{"curp.moved", "curp.moved.meanwhile", "curp.moved-back"} }

// rehome is the fault Move.
func (m *manager) rehome(f *fault) {
	w := m.world
	for len(m.homes) <= f.Partition {
		m.homes = append(m.homes, "")
	}
	home := ""
	if !f.ByDefault {
		home = w.env.Network.Sites[f.Node]
	}
	if m.homes[f.Partition] == home {
		return
	}
	f.hit = w.Busy > 0
	m.homes[f.Partition] = home
	w.trace.Remark("the home of partition %d is now %q", f.Partition, home)
}

// homeOf is the site where the master of a partition belongs: where it was moved to, or else the one whose turn it is.
func (m *manager) homeOf(v view.View, partition int) string {
	if partition < len(m.homes) && m.homes[partition] != "" {
		return m.homes[partition]
	}
	var sites []string
	for _, member := range v.After().Members {
		if !slices.Contains(sites, member.Site) {
			sites = append(sites, member.Site)
		}
	}
	return sites[partition%len(sites)]
}

// noteMove counts a hand-over by a move.
func (m *manager) noteMove(v view.View, partition int) {
	path := "curp.moved"
	switch given := partition < len(m.homes); {
	case !given:
		return
	case v.Partitions[partition].Split != 0:
		path = "curp.split-moved"
	case m.homes[partition] == "":
		path = "curp.moved-back"
	case !m.world.Settled:
		m.world.Took("curp.moved.meanwhile")
	}
	m.world.Took(path)
}

// astray says which master is not at home though a member there could be it, or nothing.
func (m *manager) astray(v view.View, partition int) string {
	home := m.homeOf(v, partition)
	at := func(i int) bool { return v.Members[i].Site == home }
	if at(v.Index(v.Partitions[partition].Master)) {
		return ""
	}
	for i := range v.Members {
		if at(i) {
			return home
		}
	}
	return "" // nobody lives there
}
