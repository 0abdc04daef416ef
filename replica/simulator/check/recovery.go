package check

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// recovery holds the view that a person would go on with from each member alone, if a quorum of a view was lost for
// good, against that view: it is the next one of the same cluster, that member is in it and does not change, and gives
// nobody an ID that somebody had.
func recovery(v view.View) error {
	if len(v.Partitions) > 0 {
		return nil // all who are left go on (Rescue)
	}
	for _, m := range v.Members {
		next, err := membership.Recover(v, m.ID)
		if err != nil {
			return fmt.Errorf("member %d can't be trusted: %w", m.ID, err)
		}
		m.Joining, m.Leaving = false, false
		switch {
		case !slices.Equal(next.Members, []view.Member{m}):
			return fmt.Errorf("with member %d trusted, the members are %v", m.ID, next.Members)
		case next.Cluster != v.Cluster || next.Level != v.Level || next.Epoch != v.Epoch+1 || next.Since != next.Epoch:
			return fmt.Errorf("with member %d trusted, the next view is epoch %d of %q since %d, at level %d",
				m.ID, next.Epoch, next.Cluster, next.Since, next.Level)
		case next.LastIssued() < v.LastIssued():
			return fmt.Errorf("with member %d trusted, an ID after %d may be given again, and %d was",
				m.ID, next.LastIssued(), v.LastIssued())
		case next.Validate() != nil:
			return fmt.Errorf("with member %d trusted: %w", m.ID, next.Validate())
		}
	}
	return nil
}
