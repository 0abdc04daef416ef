// Package membership decides on views: the first one, the joint and the plain one of each change of members, whether a
// view is committed, what the view is when its record is lost, and the one that a lost quorum is given up with. It only
// decides: who calls it writes the record and tells the members, in that order.
//
// A change has two steps. From a plain view a joint one is made, in which quorums are majorities before and after the
// change; in it the members that stay settle what they had voted on, and those that join fetch the state. Then the view
// after it is made (Finish), or the one before it again (Abandon). docs/protocols.md says why this is safe.
//
// If the protocol has masters, it also decides who is master, backup and witness of each partition (Place, Decide),
// and which witnesses begin and end (Lives).
package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Founder is a member of the first view, or one that joins, whose disk is known and empty.
type Founder struct {
	ID      view.MemberID
	Site    string
	Address string // where its peers reach it
	Disk    string // as the member itself reports it
}

func (f Founder) member() view.Member {
	return view.Member{ID: f.ID, Site: f.Site, Address: f.Address, Disk: f.Disk}
}

// Found makes the first view of a cluster. Every founder has to name its disk, so that the view can found that
// disk and no other. It must become the record of the cluster before a member is told.
func Found(cluster string, founders []Founder) (view.View, error) {
	v := view.View{Cluster: cluster, Epoch: 1}
	for _, f := range founders {
		if f.Disk == "" {
			return view.View{}, fmt.Errorf("found cluster %s: member %d has not named its disk yet", cluster, f.ID)
		}
		v.Members = append(v.Members, f.member())
	}
	v.Issued = v.LastIssued()
	if err := v.Validate(); err != nil {
		return view.View{}, fmt.Errorf("found cluster %s: %w", cluster, err)
	}
	return v, nil
}

// Committed reports whether a view is committed: a quorum of it holds it. Holders are the digests of the views that
// members hold, as far as they told. From then on no earlier view can serve anybody.
func Committed(v view.View, holders map[view.MemberID]string) bool {
	digest := v.Digest()
	return v.Quorum(func(id view.MemberID) bool { return holders[id] == digest })
}

// Report is what a member says of the view that it holds.
type Report struct {
	Member view.MemberID
	View   view.View // epoch 0: none
	Votes  bool      // its disk was never lost, and holds the latest view that the member was given
	Disk   string    // that it is on
}

// Rebuilt is what is known of the view of a cluster whose record is lost or may be old.
type Rebuilt struct {
	View      view.View // the cluster's or, while that is not known, the one that it may be
	Known     bool
	Committed bool            // a quorum of the view's members says that it holds it; of views with partitions
	Missing   []view.MemberID // of the view's members, those whose word does not count
	Err       error
}

// Rebuild finds the view of a cluster whose record is lost or may be old: the one of the highest epoch that is
// reported, once a quorum of that view's members has said what it holds. Any view that serves is held by a quorum of
// it, and each was committed before the next was made, but for a joint one that was abandoned, whose quorums are
// quorums of the views around it too; so no quorum of a view leaves out a later one that is in use. The next of a joint
// view may be either of two, which have no quorum in common, and may have been given to someone: there everybody
// answers who is not lost.
//
// The word of a member counts if it votes, or if it waits on the very disk that the view names, which was given nothing
// yet: another empty disk may stand in for one that held a later view. Whoever holds a view is a witness of it, also
// one that it removed: those who stay may not have been given it yet.
//
// Two views of one epoch are an error: somebody gave out a view that was not the record. Where there are partitions, of
// which each master asks who holds its view, the one that a quorum of its members holds is the cluster's; Decide
// leads the others to the next one.
func Rebuild(reports []Report, lost func(view.MemberID) bool) (d Rebuilt) {
	for _, r := range reports {
		if r.View.Epoch > d.View.Epoch {
			d.View = r.View
		}
	}
	answered, holders := map[view.MemberID]bool{}, map[view.MemberID]string{}
	for _, r := range reports {
		i := d.View.Index(r.Member)
		answered[r.Member] = true
		if r.Votes || i >= 0 && r.View.Epoch == 0 && r.Disk != "" && r.Disk == d.View.Members[i].Disk {
			holders[r.Member] = r.View.Digest()
		}
	}
	for _, r := range reports {
		if len(r.View.Partitions) > 0 && r.View.Epoch == d.View.Epoch && Committed(r.View, holders) {
			d.View, d.Committed = r.View, true
		}
	}
	for _, r := range reports {
		if !d.Committed && r.View.Epoch == d.View.Epoch && r.View.Digest() != d.View.Digest() {
			d.Err = fmt.Errorf("cluster %s: members hold two views of epoch %d, with digests %s and %s (member %d): "+
				"stop all that hold either, then remove the file VIEW from the volumes of those that hold the one "+
				"that fewer hold, and start them again",
				d.View.Cluster, d.View.Epoch, d.View.Digest(), r.View.Digest(), r.Member)
			return d
		}
	}
	d.Known = true
	for _, m := range d.View.Members {
		if _, counts := holders[m.ID]; !counts {
			d.Missing = append(d.Missing, m.ID)
		}
		d.Known = d.Known && (!d.View.Joint() || answered[m.ID] || lost(m.ID))
	}
	d.Known = d.Known && d.View.Quorum(func(id view.MemberID) bool { return !slices.Contains(d.Missing, id) })
	return d
}
