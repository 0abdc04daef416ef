package decide

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Moving says how far a partition is on the way to its home, if it is known whether its master serves.
func (s Situation) Moving(i int, serving bool) (text string, done bool) {
	p := s.View.Partitions[i]
	home, master := s.Home(i), s.Label(p.Master)
	here := func(id view.MemberID) bool { return s.View.Members[s.View.Index(id)].Site == home }
	switch {
	case here(p.Master) && serving:
		return fmt.Sprintf("partition %d: %s serves it", i, master), true
	case here(p.Master):
		return fmt.Sprintf("partition %d: %s takes over", i, master), false
	case slices.ContainsFunc(p.Backups, here):
		return fmt.Sprintf("partition %d: a backup at %s has its state; %s serves it still", i, home, master), false
	}
	return fmt.Sprintf("partition %d: it waits for a member at %s to have its state; %s serves it meanwhile",
		i, home, master), false
}

// Splitting says how far the split is that makes the partition of a number, after those of lower ones.
func (s Situation) Splitting(child int, served func(int) bool) (text string, done bool) {
	if child >= len(s.View.Partitions) {
		parent, next := s.View.NextSplit()
		return fmt.Sprintf("partition %d: %s; then half of its keys go to partition %d",
			parent, s.hinders(parent, served(parent)), next), false
	}
	p := s.View.Partitions[child]
	master, home := s.Label(p.Master), s.Home(child)
	switch {
	case !served(child):
		return fmt.Sprintf("partition %d: %s to take it over with half of the keys", child, master), false
	case s.View.Members[s.View.Index(p.Master)].Site != home:
		return fmt.Sprintf("partition %d: %s serves it until a member at %s does", child, master, home), true
	}
	return fmt.Sprintf("partition %d: %s serves it", child, master), true
}

// hinders is what a partition waits for before it is split, as the package membership sees it.
func (s Situation) hinders(i int, served bool) string {
	p, master := s.View.Partitions[i], s.Label(s.View.Partitions[i].Master)
	placement := s.placement(s.View.After())
	switch {
	case s.View.Joint():
		return "the change of members to be over"
	case len(p.Formers) > 0 && len(p.Witnesses) == 0:
		return fmt.Sprintf("its backups to hold all that %s has", master)
	case len(p.Formers) > 0:
		return master + " to recover it"
	case !served:
		return master + " to serve it"
	case len(p.Backups) < placement.Faults:
		return fmt.Sprintf("a member to be its backup, of which it has %d and should have %d", len(p.Backups),
			placement.Faults)
	case len(p.Witnesses) == 0:
		return fmt.Sprintf("the members to settle in the view of epoch %d", s.View.Epoch)
	case s.View.Members[s.View.Index(p.Master)].Site != s.Home(i):
		return fmt.Sprintf("a member at %s to be its master in place of %s", s.Home(i), master)
	}
	return "the members to settle, and its witnesses to go"
}
