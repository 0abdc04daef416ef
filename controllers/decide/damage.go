package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
)

// foundDamaged begins what is told of a member that lost its disk to damage.
const foundDamaged = "found its disk damaged"

// damage says what happened to the disk of a member that does not vote again yet.
func damage(l *world.Loss) string {
	what := fmt.Sprintf("%s, and joins again on an empty one: %s", foundDamaged, l.Cause)
	if l.Aside != "" {
		what += fmt.Sprintf("; what is left is kept in %s until it votes", l.Aside)
	}
	return what
}

// damageEvents tell of each damaged disk once: also of one that was joined again between two looks.
func (s *situation) damageEvents() (events []Event) {
	for _, m := range s.view.Members {
		r := s.report(m.ID)
		if r == nil || r.Loss == nil {
			continue
		}
		i := slices.IndexFunc(s.Cluster.Status.Members, func(o v1alpha1.MemberStatus) bool { return o.ID == int64(m.ID) })
		before := v1alpha1.MemberStatus{}
		if i >= 0 {
			before = s.Cluster.Status.Members[i]
		}
		told := strings.Contains(before.State, foundDamaged)
		if r.Loss.Over { // else its incarnation is not known yet
			told = told || before.Incarnation == 0 || before.Incarnation >= int64(r.Incarnation)
		}
		if !told {
			events = append(events, Warning("DiskDamaged", "JoinAgain", sentence(name(m))+" "+damage(r.Loss)))
		}
	}
	return events
}
