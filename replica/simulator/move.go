package simulator

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// Move is a change of worlds with masters: the master of a partition gets another home, as an administrator does it,
// and goes there once a member at that site has the state.
const Move FaultKind = "move"

// movePaths are what happens to masters that are moved.
func movePaths() []string { return []string{"curp.moved", "curp.moved.meanwhile", "curp.moved-back"} }

// ofParts are kinds that worlds with masters draw by themselves.
func ofParts(kinds []FaultKind) []FaultKind {
	return without(without(without(without(kinds, Lose), Move), Ruin), Split)
}

// drawMoves adds moves of masters to a schedule, from a stream of its own: several in turn, often of one partition,
// also to where it belongs without them.
func (s *Schedule) drawMoves(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 3)
	if !slices.Contains(options.Faults, Move) || !draw.Chance(250) {
		return
	}
	partition, retry := draw.Below(s.env.shards), s.env.retry
	for range 1 + draw.Below(5) {
		home := draw.Below(n+1) - 1
		f := Fault{Kind: Move, Node: max(home, 0), ByDefault: home < 0, Partition: partition, At: draw.Between(s.Settle/20, s.Settle*6/10)}
		if draw.Chance(300) {
			partition = draw.Below(s.env.shards)
		}
		s.Faults = append(s.Faults, f)
		if draw.Chance(300) && slices.Contains(options.Faults, Crash) { // somebody stops while it goes on
			s.Faults = append(s.Faults, Fault{Kind: Crash, Node: draw.Below(n), At: f.At + draw.Between(0, 4*retry), For: draw.Between(retry/4, 4*retry), Rate: 500})
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// drawSites makes some worlds ones of many partitions, and some of them of few sites: then masters live together.
func (s *Schedule) drawSites(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 4)
	if !slices.Contains(options.Faults, Move) || !draw.Chance(80) {
		return
	}
	s.env.shards = n + 1 + draw.Below(n)
	if draw.Chance(500) {
		sites := slices.Clone(s.env.network.Sites)
		for i := range sites {
			sites[i] = sites[i%2]
		}
		s.env.network.Sites = sites
	}
}

// rehome is the fault Move.
func (m *manager) rehome(f *fault) {
	w := m.world
	for len(m.homes) <= f.Partition {
		m.homes = append(m.homes, "")
	}
	home := ""
	if !f.ByDefault {
		home = w.env.network.Sites[f.Node]
	}
	if m.homes[f.Partition] == home {
		return
	}
	f.hit = w.Busy > 0
	m.homes[f.Partition] = home
	w.trace.remark("the home of partition %d is now %q", f.Partition, home)
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

// Moved is a move of a master in an experiment.
type Moved struct {
	At        time.Duration
	Partition int
	To        string // the site
}

// moves are those of an experiment, as faults.
func (c *Partitions) moves(sites []string) (faults []Fault) {
	for _, m := range c.Moves {
		faults = append(faults, Fault{Kind: Move, Node: slices.Index(sites, m.To), Partition: m.Partition, At: m.At})
	}
	return faults
}
