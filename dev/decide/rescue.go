package decide

import (
	"errors"
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/membership"
)

// RecoverAll names all members that are left.
const RecoverAll = "all"

// Rescue decides how the members go on that answer and are on the disks that the view names.
func (s Situation) Rescue(unheld []int) (membership.Rescue, error) {
	if s.View.Epoch == 0 {
		return membership.Rescue{}, errors.New("the cluster is being founded: nothing is lost yet")
	}
	now := s.snapshot()
	for _, said := range now.Members {
		if i := s.View.Index(said.Member); said.Disk == s.View.Members[i].Disk && said.Digest != s.View.Digest() {
			return membership.Rescue{}, fmt.Errorf("%s does not hold the view of epoch %d yet; try again in a moment",
				s.Label(said.Member), s.View.Epoch)
		}
	}
	d, err := membership.RecoverPartitions(now, unheld)
	if err == nil && len(d.Lost) > 0 {
		lost := membership.Numbers(d.Lost)
		err = fmt.Errorf("nobody who answers is certain to hold all of partitions %s; `restart` who held them, or "+
			"have %s: `recover %s %s`", lost, d.Consent("partitions"), RecoverAll, strings.ReplaceAll(lost, " ", ""))
	}
	return d, err
}
