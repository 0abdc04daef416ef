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

func digests(reports []Report) map[view.MemberID]string {
	held := map[view.MemberID]string{}
	for _, r := range reports {
		held[r.Member] = r.View.Digest()
	}
	return held
}

// Report is the view that a member says it holds. One without a view, whose epoch is 0, tells nothing: its disk may
// be a lost one's successor.
type Report struct {
	Member view.MemberID
	View   view.View
}

// Rebuild finds the view of a cluster whose record is lost or may be old: the one of the highest epoch that is
// reported, once a quorum of that view's members has reported one. Any view that serves is held by a quorum of it, and
// each was committed before the next was made, but for a joint one that was abandoned, whose quorums are quorums of the
// views around it too; so no quorum of a view leaves out a later one that is in use. It is false while too few have
// reported.
//
// Two views of one epoch are an error: somebody gave out a view that was not the record. Where there are partitions, of
// which each master asks who holds its view, the one that a quorum of its members holds is the cluster's; Decide
// leads the others to the next one.
func Rebuild(reports []Report) (v view.View, known bool, err error) {
	for _, r := range reports {
		if r.View.Epoch > v.Epoch {
			v = r.View
		}
	}
	for _, r := range reports {
		if len(r.View.Partitions) > 0 && r.View.Epoch == v.Epoch && Committed(r.View, digests(reports)) {
			return r.View, true, nil
		}
	}
	for _, r := range reports {
		if r.View.Epoch == v.Epoch && r.View.Digest() != v.Digest() {
			return view.View{}, false, fmt.Errorf("cluster %s: members hold two views of epoch %d, with digests %s "+
				"and %s (member %d): "+
				"stop all that hold either, then remove the file VIEW from the volumes of those that hold the one "+
				"that fewer hold, and start them again",
				v.Cluster, v.Epoch, v.Digest(), r.View.Digest(), r.Member)
		}
	}
	if v.Epoch == 0 {
		return view.View{}, false, nil
	}
	if !v.Quorum(func(id view.MemberID) bool {
		return slices.ContainsFunc(reports, func(r Report) bool { return r.Member == id && r.View.Epoch > 0 })
	}) {
		return view.View{}, false, nil
	}
	return v, true, nil
}
