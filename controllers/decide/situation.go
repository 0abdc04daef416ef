package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// situation is a snapshot with what every rule asks of it, worked out once.
type situation struct {
	world.Snapshot
	// view is the recorded view where it can be trusted, else the highest that a member reports; epoch 0
	// where there is none. Steps rest on it only when doubt is nil; the status shows it in any case.
	view   view.View
	digest string // of the view
	// doubt says why the recorded view can't be acted on, or is nil.
	doubt *cause
	// asked is how the members that spec.sites asks for differ from those of the view, if that is plain and known.
	asked memberChange
	// first are the members to found the cluster with, where there is no record.
	first []view.Member
	// coming are the dedicated witnesses that the view is to take on.
	coming []view.Witness
	// founding says that nothing but the volumes' owner is in the way of the founding.
	founding bool
	// emulation is the emulated network between the sites.
	emulation *emulation
	// asManaged is what decisions on who keeps the shards are made from (managed), and decision the one (keeping),
	// once they were asked for.
	asManaged *membership.Snapshot
	decision  *membership.Decision
}

// cause is why something is as it is, for a condition: a word for machines and a sentence for people.
type cause struct{ reason, message string }

func understand(s world.Snapshot) *situation {
	slices.SortFunc(s.Members, func(a, b world.Member) int { return cmp.Compare(a.ID, b.ID) })
	of := &situation{Snapshot: s}
	if len(s.Former) > 0 {
		of.doubt = of.doubtFormer()
		return of // without a view: none of what is seen is this resource's
	}
	if len(s.Stored) > 0 {
		of.doubt = &cause{volumesDiffer, "Volumes of different clusters are here, and no ConfigMap " + build.RecordName(s.Cluster.Name) +
			" says which of them this one is; put that back, or delete the claims of all clusters but one: " + list(s.Stored)}
		return of
	}
	of.first = of.firstMembers()
	of.doubt = of.doubtRecord()
	of.view = s.Record.View
	if of.doubt != nil {
		if held := of.highestHeld(); held.Epoch > 0 {
			of.view = held
		}
	}
	of.digest = of.view.Digest()
	of.asked = of.compare()
	of.coming = of.comingWitnesses()
	return of
}

// members are the members to keep objects of: those of the view and the newcomers that are to join it; with the view in
// doubt, those of whom something is there; before anything is there, the first ones.
func (s *situation) members() []view.Member {
	if s.doubt == nil {
		starts := s.settled() && !s.quorumGone() && s.obstacle() == nil
		return append(slices.Clone(s.view.Members), slices.DeleteFunc(slices.Clone(s.asked.join), func(m view.Member) bool {
			return !starts && s.Member(m.ID) == nil
		})...)
	}
	if s.mayBeNew() {
		return s.first
	}
	var seen []view.Member
	for _, m := range s.Members {
		if m.StatefulSet == nil && m.Volume == nil && m.Pod == nil {
			continue
		}
		known := view.Member{ID: m.ID, Site: m.Site}
		known.Address = build.Address(s.Cluster, s.Settings, known)
		seen = append(seen, known)
	}
	return seen
}

// input is what objects are built from.
func (s *situation) input() build.Input {
	in := build.Input{
		Cluster: s.Cluster, View: s.view, ClusterID: s.ClusterID, Shards: s.Shards, Settings: s.Settings, Monitoring: s.Monitoring,
		Image:     build.Image(s.Cluster, s.runningImage(), s.Settings),
		Unfounded: !s.unclear() && s.mayBeNew() && !s.founding,
	}
	for _, id := range s.leftRunning() {
		if m := s.Member(id); m.StatefulSet != nil || m.Pod.DeletionTimestamp == nil { // a pod that ends is in no budget
			in.Beside++
		}
	}
	if in.View.Epoch == 0 {
		in.View = view.View{Cluster: s.ClusterID, Members: s.members()}
	}
	return in
}

// runningImage is what the cluster's StatefulSets run already, or empty.
func (s *situation) runningImage() string {
	for _, m := range s.Members {
		if m.StatefulSet == nil {
			continue
		}
		for _, c := range m.StatefulSet.Spec.Template.Spec.Containers {
			if c.Name == build.Container {
				return c.Image
			}
		}
	}
	return ""
}

// holds reports whether a member says that it holds the view.
func (s *situation) holds(id view.MemberID) bool {
	r := s.report(id)
	return r != nil && r.View.Epoch == s.view.Epoch && r.Digest == s.digest
}

// lacking says of each member of the view that does not hold it what it does.
func (s *situation) lacking() (missing []string) {
	for _, m := range s.view.Members {
		if !s.holds(m.ID) {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		}
	}
	return missing
}

// settled reports whether the view took hold (membership.Committed): a quorum of it holds it, so that no former one can
// serve any more.
func (s *situation) settled() bool { return s.view.Epoch > 0 && s.view.Quorum(s.holds) }

// quorum says in words what a quorum of the view is.
func (s *situation) quorum() string {
	if s.view.Joint() {
		return "a majority of each side of the change"
	}
	return fmt.Sprintf("a majority of %d", s.view.Majority())
}

// serves reports whether a member votes in the view.
func (s *situation) serves(id view.MemberID) bool {
	return s.view.Epoch > 0 && s.Member(id).Serves(s.view.Epoch) && s.holds(id)
}

// voters are the members that vote in the view.
func (s *situation) voters() (voters []view.Member) {
	for _, m := range s.view.Members {
		if s.serves(m.ID) {
			voters = append(voters, m)
		}
	}
	return voters
}

// others are the members of the view but one.
func (s *situation) others(than view.MemberID) []view.Member {
	return slices.DeleteFunc(slices.Clone(s.view.Members), func(m view.Member) bool { return m.ID == than })
}

func (s *situation) report(id view.MemberID) *world.Report {
	if m := s.Member(id); m != nil {
		return m.Report
	}
	return nil
}

func (s *situation) pod(id view.MemberID) *corev1.Pod {
	if m := s.Member(id); m != nil {
		return m.Pod
	}
	return nil
}

func (s *situation) statefulSet(id view.MemberID) *appsv1.StatefulSet {
	if m := s.Member(id); m != nil {
		return m.StatefulSet
	}
	return nil
}

// name names a member for people.
func name(m view.Member) string { return fmt.Sprintf("member %d (site %s)", m.ID, m.Site) }

// list joins parts of a sentence, at most five of them.
func list(parts []string) string {
	const most = 5
	if more := len(parts) - most; more > 0 {
		parts = append(slices.Clone(parts[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// sentence makes a sentence of a message that may begin with a member's name.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
