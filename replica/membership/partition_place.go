package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Place gives the first view of a cluster its partitions, before it is recorded. The witnesses wait on empty disks that
// they have named, under IDs that no member has.
func Place(v view.View, witnesses []view.Witness, p Placement) (view.View, error) {
	if err := p.Validate(v); err != nil {
		return view.View{}, err
	}
	if len(v.Partitions) > 0 {
		return view.View{}, fmt.Errorf("place partitions: the view of epoch %d has some already", v.Epoch)
	}
	for _, w := range witnesses {
		if w.Disk == "" {
			return view.View{}, fmt.Errorf("place partitions: witness %d has not named its disk yet", w.ID)
		}
	}
	v.Witnesses = slices.Clone(witnesses)
	for i := range p.Partitions {
		c := chooser{view: &v, placement: &p, able: anyone}
		next := view.Partition{Term: v.Epoch}
		next.Master = c.master(i)
		next.Backups = c.members(next, p.Faults)
		if len(next.Backups) < p.Faults {
			return view.View{}, fmt.Errorf("place partition %d: %d backups need as many members beside its master, "+
				"and there are %d; add members or lower faults",
				i, p.Faults, len(next.Backups))
		}
		wanted := p.witnesses(p.Faults)
		next.Witnesses = c.witnesses(next, wanted)
		if len(next.Witnesses) < wanted {
			return view.View{}, fmt.Errorf("place partition %d: it needs %d witnesses that are not beside its master "+
				"%d, and there are %d; add witnesses or lower faults",
				i, wanted, next.Master, len(next.Witnesses))
		}
		v.Partitions = append(v.Partitions, next)
	}
	v.Issued = v.LastIssued()
	if err := v.Validate(); err != nil {
		return view.View{}, fmt.Errorf("place partitions: %w", err)
	}
	return v, nil
}

// chooser gives roles to those who are able to take them.
type chooser struct {
	view      *view.View
	placement *Placement
	able      func(master, id view.MemberID) bool
}

// master is a member at the home site of a partition, one after the other where there are several, or else any.
func (c *chooser) master(partition int) view.MemberID {
	var there []view.MemberID
	home := c.placement.Home(c.view, partition)
	for _, m := range c.view.Members {
		if m.Site == home {
			there = append(there, m.ID)
		}
	}
	return there[partition/max(1, len(c.view.Sites()))%len(there)]
}

// members picks up to count backups for a partition that has none yet: away from the master and from each other if
// there are domains enough, else where distances say, else those behind the master in the view's order, so that the
// load is spread.
func (c *chooser) members(p view.Partition, count int) (picked []view.MemberID) {
	var candidates []view.MemberID
	n, at := c.view.Size(), c.view.Index(p.Master)
	for i := range n {
		id := c.view.Members[(at+1+i)%n].ID
		if id != p.Master && c.able(p.Master, id) {
			candidates = append(candidates, id)
		}
	}
	return c.pick(candidates, count, func(id view.MemberID, picked []view.MemberID) int {
		return 2*c.clashes(id, p.Master, picked) + c.far(id, p.Master, false)
	})
}

// witnesses picks up to count witnesses, none beside the master. Those who have served it go on, and others are where
// distances say.
func (c *chooser) witnesses(p view.Partition, count int) []view.MemberID {
	var candidates []view.MemberID
	n := len(c.view.Witnesses)
	for i := range n {
		w := c.view.Witnesses[(i+int(p.Master))%n]
		if w.Beside != p.Master && c.able(p.Master, w.ID) {
			candidates = append(candidates, w.ID)
		}
	}
	return c.pick(candidates, count, func(id view.MemberID, picked []view.MemberID) int {
		cost := 4 * c.clashes(id, p.Master, picked)
		w, _ := c.view.Witness(id)
		switch {
		case c.placement.Dedicated:
			cost += 2 * min(1, c.clashes(id, 0, p.Backups))
		case !slices.Contains(p.Backups, w.Beside):
			cost += 2
		}
		if !slices.Contains(p.Witnesses, id) {
			cost++
		}
		return 2*cost + c.far(id, p.Master, true)
	})
}

// saved is the configuration with as many witnesses as it should have, rather those that are preferred, or none.
func (c *chooser) saved(next view.Partition, preferred []view.MemberID) view.Partition {
	next.Witnesses = preferred
	next.Witnesses = all(c.witnesses(next, c.placement.witnesses(len(next.Backups))), next)
	return next
}

// all are witnesses, if they are as many as the partition has backups, or none: what they save counts only if it is
// on as many disks, with the master's, as what is synced. With fewer of them a recovery could miss one that is lost,
// and gain nothing from the others.
func all(witnesses []view.MemberID, p view.Partition) []view.MemberID {
	if len(witnesses) < len(p.Backups) {
		return nil
	}
	return witnesses
}

// spread are as many witnesses as a partition has, of which fewer would be lost with its master, with each other or
// with its backups, where witnesses are dedicated; those that it has if there are none. They clash after others had to
// stand in for who was lost, and is there again.
func (c *chooser) spread(p view.Partition, has []view.MemberID) []view.MemberID {
	if !c.placement.Dedicated {
		return has
	}
	p.Witnesses = has // whom to prefer
	if better := c.witnesses(p, len(has)); len(better) == len(has) && c.shared(p, better) < c.shared(p, has) {
		return better
	}
	return has
}

// shared counts the clashes of a partition's witnesses.
func (c *chooser) shared(p view.Partition, witnesses []view.MemberID) (count int) {
	for i, id := range witnesses {
		count += 2*c.clashes(id, p.Master, witnesses[:i]) + min(1, c.clashes(id, 0, p.Backups))
	}
	return count
}

// clashes counts who would be lost together with a member or a witness; the master counts more than all others.
func (c *chooser) clashes(id, master view.MemberID, others []view.MemberID) (count int) {
	domain := c.placement.domain(c.view, id)
	if master != 0 && c.placement.domain(c.view, master) == domain {
		count += 1000
	}
	for _, other := range others {
		if c.placement.domain(c.view, other) == domain {
			count++
		}
	}
	return count
}

// pick takes the cheapest of the candidates, one after the other; the first of equals.
func (c *chooser) pick(
	candidates []view.MemberID, count int, cost func(id view.MemberID, picked []view.MemberID) int,
) (picked []view.MemberID) {
	for len(picked) < count && len(candidates) > 0 {
		best := slices.MinFunc(candidates, func(a, b view.MemberID) int { return cost(a, picked) - cost(b, picked) })
		picked = append(picked, best)
		candidates = slices.DeleteFunc(candidates, func(id view.MemberID) bool { return id == best })
	}
	return picked
}
