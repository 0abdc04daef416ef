package check

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Yields holds it that a master which is cut off from so many members that it can't have its backups does not stay
// master, if a backup can take its place that hears more members, and enough to have as many backups.
func Yields(s membership.Snapshot, d membership.Decision) error {
	ahead := slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool { return r.Epoch > s.View.Epoch })
	ofPartitions := slices.ContainsFunc(d.Changes, func(c membership.Move) bool { return c.Partition >= 0 })
	if ahead || d.Changed() && !ofPartitions {
		return nil
	}
	for i, p := range s.View.Partitions {
		if d.Changed() && d.Next.Partitions[i].Term != p.Term {
			continue
		}
		y := yielding{judgement{Snapshot: s}, i, p}
		if !y.cutOff() {
			continue
		}
		y.digest = s.View.Digest() // it takes longer than all else here
		if s.View.Quorum(func(id view.MemberID) bool { return y.holds(id) && y.onDisk(id) }) {
			return fmt.Errorf("in epoch %d partition %d stays with its master %d, which hears too few members to have "+
				"its backups %v, and one of them hears more", s.View.Epoch, i, p.Master, p.Backups)
		}
	}
	return nil
}

// onDisk reports whether a member did not say that it is on another disk than the view names.
func (j *judgement) onDisk(id view.MemberID) bool {
	disk := j.said(id).Disk
	return disk == "" || disk == j.View.Members[j.View.Index(id)].Disk
}

// yielding is a partition whose master may be cut off.
type yielding struct {
	judgement
	i int
	p view.Partition
}

// cutOff reports whether the master is to leave its place to a backup.
func (y *yielding) cutOff() bool {
	master, _ := y.part(y.p.Master)
	least := min(len(y.p.Backups), y.Placement.Faults)
	if len(y.p.Formers) > 0 || !y.there(y.p.Master) || master.Restarted || y.links(y.p.Master, false) >= least {
		return false
	}
	if len(y.p.Witnesses) > 0 && !slices.ContainsFunc(y.p.Witnesses, y.Alive) {
		return false
	}
	fit := 0
	for _, id := range y.p.Backups {
		part, told := y.part(id)
		switch {
		case !y.there(id) || y.departs(id) || part.Copying:
			continue
		case !told, y.links(id, false) <= y.links(y.p.Master, false), y.links(id, true) < least:
			return false // it may be the one that is chosen
		}
		fit++
	}
	return fit > 0
}

// part is what a member says of its part in the partition's term, and whether it says so.
func (y *yielding) part(id view.MemberID) (membership.Part, bool) {
	r := y.said(id)
	if y.i >= len(r.Partitions) || r.Partitions[y.i].Term != y.p.Term {
		return membership.Part{}, false
	}
	return r.Partitions[y.i], true
}

// there reports whether a member is heard, and has what its part needs.
func (y *yielding) there(id view.MemberID) bool {
	part, _ := y.part(id)
	return y.Alive(id) && !y.Suspected(id) && y.onDisk(id) && !part.Lost
}

// departs reports whether a member is gone when its change is over.
func (y *yielding) departs(id view.MemberID) bool {
	m := y.View.Members[y.View.Index(id)]
	return m.Leaving && !y.Abandon || m.Joining && y.Abandon
}

// links counts the other members that are there, but for those that say, as the member does, that they don't hear each
// other; only those that stay, if that is asked for.
func (y *yielding) links(id view.MemberID, stay bool) (count int) {
	deaf := func(a, b view.MemberID) bool { return y.answers(a) && !slices.Contains(y.said(a).Hears, b) }
	for _, o := range y.View.IDs() {
		if o != id && y.there(o) && !(deaf(id, o) && deaf(o, id)) && !(stay && y.departs(o)) {
			count++
		}
	}
	return count
}
