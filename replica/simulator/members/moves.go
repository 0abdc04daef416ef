package members

import (
	"slices"

	"github.com/georegister/georegister/replica/simulator/cluster"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/view"
)

// Administrator is what is wanted of partitions: it survives everything that happens to the manager.
type Administrator struct {
	*cluster.Cluster
	homes  []string // sites of masters, by partition; where there is none they go round
	splits int      // that were asked for
}

// MoveHome is the fault Move.
func (a *Administrator) MoveHome(f *faults.Injected) {
	for len(a.homes) <= f.Partition {
		a.homes = append(a.homes, "")
	}
	home := ""
	if !f.ByDefault {
		home = a.Environment.Network.Sites[f.Node]
	}
	if a.homes[f.Partition] == home {
		return
	}
	f.Hit = a.Busy > 0
	a.homes[f.Partition] = home
	a.Diagram.Remark("the home of partition %d is now %q", f.Partition, home)
}

// homeOf is the site where the master of a partition belongs: where it was moved to, or else where distances say, or
// the one whose turn it is.
func (a *Administrator) homeOf(v view.View, partition int) string {
	if partition < len(a.homes) && a.homes[partition] != "" {
		return a.homes[partition]
	}
	if p := a.Environment.Partitioned.Placement; len(p.Distances) > 0 {
		p.Homes = nil
		return p.Home(&v, partition)
	}
	sites := v.After().Sites()
	return sites[partition%len(sites)]
}

// noteMove counts a hand-over by a move.
func (a *Administrator) noteMove(v view.View, partition int) {
	path := "curp.moved"
	switch given := partition < len(a.homes); {
	case !given:
		return
	case v.Partitions[partition].Split != 0:
		path = "curp.split-moved"
	case a.homes[partition] == "":
		path = "curp.moved-back"
	case !a.Settled:
		a.Took("curp.moved.meanwhile")
	}
	a.Took(path)
}

// Split is the fault Split.
func (a *Administrator) Split(f *faults.Injected) {
	f.Hit = a.Busy > 0
	a.splits++
	a.Diagram.Remark("there are to be %d partitions", a.partitions())
}

// partitions is how many there are to be.
func (a *Administrator) partitions() int {
	return a.Environment.Partitioned.Placement.Partitions + a.splits
}

// awayFromHome says which master is not at home though a member there could be it, or nothing.
func (a *Administrator) awayFromHome(v view.View, partition int) string {
	home := a.homeOf(v, partition)
	master := v.Members[v.Index(v.Partitions[partition].Master)]
	if master.Site == home || !slices.Contains(v.Sites(), home) {
		return ""
	}
	return home
}
