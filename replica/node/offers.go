package node

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/georegister/georegister/replica/view"
)

// named is whether the view has a member of that id.
func named(v view.View, id view.MemberID) bool { return v.Index(id) >= 0 }

// removed reports that the held view, if there is one, is without the member that holds it: another one took its
// place. IDs are never given again, so that lasts.
func removed(held view.View, self view.MemberID) bool { return held.Epoch > 0 && !named(held, self) }

// latest says which view a member starts with, of the one on its disk and the one of its configuration: the later
// one. Of the same epoch the configuration's counts, so that people can change addresses, but not members. Its
// epoch is 0 if the member has to wait for a view.
func latest(disk, file view.View, self view.MemberID) (view.View, error) {
	switch {
	case file.Epoch == 0 || file.Epoch < disk.Epoch || removed(disk, self):
		return disk, nil
	case file.Epoch == disk.Epoch:
		if !slices.Equal(ids(disk), ids(file)) {
			return view.View{},
				fmt.Errorf("members: the disk knows the members %d of epoch %d, the configuration names %d; "+
					"a change of members needs another epoch", ids(disk), disk.Epoch, ids(file))
		}
		// It may have been written by hand, and can't say who joins and who leaves.
		file.Issued, file.Since = max(file.Issued, disk.Issued), disk.Since
		file.Members = slices.Clone(file.Members)
		for i, d := range disk.Members {
			m := &file.Members[i]
			m.Disk, m.Joining, m.Leaving = cmp.Or(m.Disk, d.Disk), d.Joining, d.Leaving
		}
	case !named(file, self) && self > file.LastIssued():
		return disk, nil // the configuration is older than this member
	default: // nor does it tell what earlier changes settled
		file.Since = max(file.Since, disk.Since)
	}
	return file, nil
}

func ids(v view.View) (all []view.MemberID) {
	for _, m := range v.Members {
		all = append(all, m.ID)
	}
	return all
}

func witnesses(v view.View) (all []view.MemberID) {
	for _, w := range v.Witnesses {
		all = append(all, w.ID)
	}
	return all
}

// takesOn says whether a member takes on a view that it is offered. It does not if it holds that view already; whatever
// else speaks against it is an error for the one who offers.
func takesOn(held, offered view.View, c *Config) (bool, error) {
	unfit := c.fits(offered)
	switch {
	case offered.Cluster != c.Cluster:
		return false, status.Errorf(codes.FailedPrecondition, "the view is of cluster %q, this member's is %s",
			offered.Cluster, c.Cluster)
	case unfit != nil:
		return false, status.Error(codes.InvalidArgument, unfit.Error())
	case offered.Epoch < held.Epoch:
		return false, status.Errorf(codes.Aborted, "epoch %d is offered, and member %d holds epoch %d already",
			offered.Epoch, c.Self, held.Epoch)
	case offered.Epoch == held.Epoch && offered.Digest() != held.Digest():
		return false, status.Errorf(codes.Aborted,
			"epoch %d is offered with digest %s, and member %d holds epoch %d with digest %s: "+
				"an epoch has one view", offered.Epoch, offered.Digest(), c.Self, held.Epoch, held.Digest())
	case offered.Epoch == held.Epoch:
		return false, nil
	case offered.Epoch-held.Epoch > view.MaxEpochsMissed:
		return false, status.Errorf(codes.InvalidArgument,
			"epoch %d is offered, and member %d holds epoch %d: so many changes can't have been made since",
			offered.Epoch, c.Self, held.Epoch)
	}
	self := offered.Index(c.Self)
	switch {
	case self < 0 && c.Self > offered.LastIssued():
		return false, status.Errorf(codes.FailedPrecondition,
			"the view of epoch %d does not name member %d, whose id was not given yet", offered.Epoch, c.Self)
	case self >= 0 && removed(held, c.Self):
		return false, status.Errorf(codes.FailedPrecondition,
			"member %d was removed by epoch %d: an id is never used again", c.Self, held.Epoch)
	case self >= 0 && c.Site != "" && offered.Members[self].Site != c.Site:
		return false, status.Errorf(codes.FailedPrecondition,
			"member %d runs at site %s, not at %s as the view of epoch %d says",
			c.Self, c.Site, offered.Members[self].Site, offered.Epoch)
	}
	return true, nil
}
