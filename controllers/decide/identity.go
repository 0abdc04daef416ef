package decide

import (
	"fmt"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/manager"
)

// mayBeNew reports whether nothing that is seen contradicts that the cluster was never founded: no record,
// no view in the status, nobody holds a view, and nobody but the first members is there. The status may have been
// wiped, so what it lacks proves nothing; but where all disks and the record are gone, it is all that is left to tell.
func (s *situation) mayBeNew() bool {
	if s.Record.Exists || s.Cluster.Status.View != nil {
		return false
	}
	first := view.View{Members: build.FirstMembers(s.Cluster, s.Settings)}
	for _, m := range s.Members {
		i := first.Index(m.ID)
		if i < 0 || first.Members[i].Site != m.Site || m.Report != nil && m.Report.View.Epoch > 0 {
			return false
		}
	}
	return true
}

// found makes the first view out of the disks of the first members, once every one of them says that its disk
// is empty. One that is silent may hold the cluster's view: a majority of empty disks proves nothing.
func found(s *situation) *outcome {
	if !s.mayBeNew() {
		return nil
	}
	var founders []manager.Founder
	var missing []string
	for _, m := range build.FirstMembers(s.Cluster, s.Settings) {
		r := s.report(m.ID)
		if r == nil || r.Role != world.Waiting || r.Disk == "" {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
			continue
		}
		m.Disk = r.Disk
		founders = append(founders, manager.Founder{ID: m.ID, Site: m.Site, Address: m.Address, Disk: m.Disk})
	}
	if len(missing) > 0 {
		return waitFor("WaitingForMembers", "The cluster is founded once every first member tells what its disk holds; "+
			"missing: %s", list(missing))
	}
	first, err := manager.Found(s.ClusterID, founders)
	if err != nil {
		return waitFor("CannotFound", "%s", sentence(err.Error()))
	}
	return act(FoundCluster{View: first}, Normal("Founded", "Found", fmt.Sprintf(
		"Founded the cluster %s with %d members", s.ClusterID, first.Size())))
}

// tell gives the recorded view to the members that hold an older one or none. Of a plain view that did not take hold
// nothing else happens until it does; a joint one may be abandoned before.
func tell(s *situation) *outcome {
	var old []view.MemberID
	for _, m := range s.view.Members {
		if r := s.report(m.ID); r != nil && r.View.Epoch < s.view.Epoch {
			old = append(old, m.ID)
		}
	}
	if len(old) > 0 {
		return act(Tell{View: s.view, Members: old})
	}
	if s.settled() || s.view.Joint() {
		return nil
	}
	if s.quorumGone() {
		return stop(s)
	}
	return waitFor("ViewNotConfirmed", "View %d counts once %d members say that they hold it, and %d do; missing: %s",
		s.view.Epoch, s.view.Majority(), s.view.Size()-len(s.lacking()), list(s.lacking()))
}
