// Package manager decides on views: the first one, one with a lost member replaced, whether a change took place,
// and what the view is when its record is lost. It only decides: who calls it writes the record and tells the
// members, in that order.
//
// A change is safe because a member that holds an epoch speaks to no one of another. Once a majority of the old
// view holds the next one, the old one can serve nobody; and every quorum that it ever had meets that majority in a
// member that brought its state along.
package manager

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Founder is a member of the first view, whose disk is known and empty.
type Founder struct {
	ID      view.MemberID
	Site    string
	Address string // where its peers reach it
	Disk    string // as the member itself reports it
}

// Found makes the first view of a cluster. Every founder has to name its disk, so that the view can found that
// disk and no other. It must become the record of the cluster before a member is told.
func Found(cluster string, founders []Founder) (view.View, error) {
	v := view.View{Cluster: cluster, Epoch: 1}
	for _, f := range founders {
		if f.Disk == "" {
			return view.View{}, fmt.Errorf("found cluster %s: member %d has not named its disk yet", cluster, f.ID)
		}
		v.Members = append(v.Members, view.Member(f))
	}
	v.Issued = v.LastIssued()
	if err := v.Validate(); err != nil {
		return view.View{}, fmt.Errorf("found cluster %s: %w", cluster, err)
	}
	return v, nil
}

// Replace makes the view that follows v, with a new member at the place of the lost one: its id was never given
// before, and address says where peers reach the member of that id. It fails if the lost member is not in the view, or
// no id is left.
func Replace(v view.View, lost view.MemberID, site string, address func(view.MemberID) string) (view.View, error) {
	i := v.Index(lost)
	if i < 0 {
		return view.View{}, fmt.Errorf("replace member %d: it is not in the view of epoch %d", lost, v.Epoch)
	}
	id := v.LastIssued() + 1
	if id > view.MaxMemberID {
		return view.View{}, fmt.Errorf("replace member %d: all ids up to %d were given", lost, view.MaxMemberID)
	}
	v.Epoch++
	v.Issued = id
	v.Members = slices.Clone(v.Members)
	v.Members[i] = view.Member{ID: id, Site: site, Address: address(id)}
	return v, nil
}

// Committed reports whether the change from old to next took place for good: majorities of both hold next. Holders are
// the digests of the views that members hold, as far as they told. From then on the old view can serve nobody, and
// the next one can without its newcomer.
func Committed(old, next view.View, holders map[view.MemberID]string) bool {
	digest := next.Digest()
	holds := func(v view.View) bool {
		n := 0
		for _, m := range v.Members {
			if holders[m.ID] == digest {
				n++
			}
		}
		return n >= v.Majority()
	}
	return holds(old) && holds(next)
}

// Report is the view that a member says it holds. One without a view, whose epoch is 0, tells nothing: its disk may
// be a lost one's successor.
type Report struct {
	Member view.MemberID
	View   view.View
}

// Rebuild finds the view of a cluster whose record is lost or may be old: the one of the highest epoch that is
// reported, once a majority of that view's members has reported one. Any view that could serve is held by a
// majority of its members, and of the view before it (Committed), so no such majority leaves out a later one that is in
// use. It is false while too few have reported.
//
// Two views of one epoch are an error: somebody gave out a view that was not the record.
func Rebuild(reports []Report) (v view.View, known bool, err error) {
	for _, r := range reports {
		if r.View.Epoch > v.Epoch {
			v = r.View
		}
	}
	for _, r := range reports {
		if r.View.Epoch == v.Epoch && r.View.Digest() != v.Digest() {
			return view.View{}, false, fmt.Errorf("cluster %s: members hold two views of epoch %d, with digests %s and %s (member %d): "+
				"stop the members that hold the wrong one, remove the file VIEW from their volumes, and start them again",
				v.Cluster, v.Epoch, v.Digest(), r.View.Digest(), r.Member)
		}
	}
	if v.Epoch == 0 {
		return view.View{}, false, nil
	}
	reported := 0
	for _, m := range v.Members {
		if slices.ContainsFunc(reports, func(r Report) bool { return r.Member == m.ID && r.View.Epoch > 0 }) {
			reported++
		}
	}
	if reported < v.Majority() {
		return view.View{}, false, nil
	}
	return v, true, nil
}
