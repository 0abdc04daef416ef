package facts

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Seen is a snapshot read against one view: who holds it, who votes in it, and who is lost.
type Seen struct {
	world.Snapshot
	// View is the recorded view where it can be trusted, else the highest that a member reports; epoch 0
	// where there is none. Steps rest on it only when Facts.Doubt is nil; the status shows it in any case.
	View   view.View
	Digest string // of the view
}

// Of is what was seen of a member: of one that no one has seen, nothing.
func (s *Seen) Of(id view.MemberID) *world.Member {
	if m := s.Member(id); m != nil {
		return m
	}
	return &world.Member{}
}

// Report is what a member said of itself, or nil.
func (s *Seen) Report(id view.MemberID) *world.Report { return s.Of(id).Report }

// Pod is the pod of a member, or nil.
func (s *Seen) Pod(id view.MemberID) *corev1.Pod { return s.Of(id).Pod }

// Holds reports whether a member says that it holds the view.
func (s *Seen) Holds(id view.MemberID) bool {
	r := s.Report(id)
	return r != nil && r.View.Epoch == s.View.Epoch && r.Digest == s.Digest
}

// Lacking says of each member of the view that does not hold it what it does.
func (s *Seen) Lacking() []string {
	return Say(Where(s.View.Members, func(m view.Member) bool { return !s.Holds(m.ID) }), s.Silence)
}

// Committed reports whether a quorum of the view holds it (membership.Committed), so that no former one can serve any
// more.
func (s *Seen) Committed() bool { return s.View.Epoch > 0 && s.View.Quorum(s.Holds) }

// Quorum says in words what a quorum of the view is.
func (s *Seen) Quorum() string {
	if s.View.Joint() {
		return "a majority of each side of the change"
	}
	return fmt.Sprintf("a majority of %d", s.View.Majority())
}

// Votes reports whether a member votes in the view.
func (s *Seen) Votes(id view.MemberID) bool {
	return s.View.Epoch > 0 && s.Holds(id) && s.Report(id).Role == world.Voter
}

// Voters are the members that vote in the view.
func (s *Seen) Voters() []view.Member {
	return Where(s.View.Members, func(m view.Member) bool { return s.Votes(m.ID) })
}

// Others are the members of the view but one.
func (s *Seen) Others(than view.MemberID) []view.Member {
	return Where(s.View.Members, func(m view.Member) bool { return m.ID != than })
}

// Quorate reports whether a member votes, and says that a quorum is in its reach.
func (s *Seen) Quorate(id view.MemberID) bool { return s.Votes(id) && s.Report(id).Quorum }

// CountQuorate is how many of some members are so.
func (s *Seen) CountQuorate(of []view.Member) int {
	return len(Where(of, func(m view.Member) bool { return s.Quorate(m.ID) }))
}

// HasQuorum reports whether the voters that say so are a quorum.
func (s *Seen) HasQuorum() bool { return s.View.Quorum(s.Quorate) }

// Ready reports whether a member serves clients: it votes and its pod is in its site's Service.
func (s *Seen) Ready(m view.Member) bool { return s.Votes(m.ID) && PodReady(s.Pod(m.ID)) }

// UnreachedBy are the voters that say that they can't reach a member.
func (s *Seen) UnreachedBy(id view.MemberID) []view.Member {
	return Where(s.Voters(), func(m view.Member) bool { return unreachable(s.Report(m.ID).Peers, id) })
}

// unreachable reports whether one of some peers says that it is not reached.
func unreachable(peers []world.Peer, id view.MemberID) bool {
	return slices.ContainsFunc(peers, func(p world.Peer) bool { return p.ID == id && !p.Reachable })
}

// Recovered reports whether the view is one that a recovery made. No other has one member, where shards have no
// masters.
func (s *Seen) Recovered() bool {
	return membership.Recovered(s.View) || s.View.Size() == 1 && s.View.Epoch > 1 && s.View.Since == s.View.Epoch
}

// WasGivenUp reports whether a recovery gave a member up. Its volume may hold what the trusted one did not, so people
// decide on it. The status alone remembers that, once the view has changed again.
func (s *Seen) WasGivenUp(m *world.Member) bool {
	last := s.Cluster.Status.Recovered
	return s.Recovered() || last != nil && slices.Contains(last.GivenUp, int32(m.ID))
}

// Unused reports whether a member surely holds nothing.
func (s *Seen) Unused(m *world.Member) bool {
	switch {
	case m.Report != nil:
		return m.Report.Role == world.Waiting && m.Report.View.Epoch == 0
	case build.OnDisk(s.Cluster):
		return m.Volume != nil && m.Volume.Status.Phase == corev1.ClaimPending
	}
	return m.Pod != nil && m.Pod.Spec.NodeName == ""
}

// SiteOf is what the spec asks for at a member's site, or nil.
func (s *Seen) SiteOf(m view.Member) *v1alpha1.Site {
	for i := range s.Cluster.Spec.Sites {
		if s.Cluster.Spec.Sites[i].Name == m.Site {
			return &s.Cluster.Spec.Sites[i]
		}
	}
	return nil
}

// Misplaced says where a member is, to be read after its name, if its site's node pool is another one; else it is
// empty. Where its pod was made for another pool but its node is in the one that is asked for, it is in its place.
func (s *Seen) Misplaced(m view.Member) string {
	return s.OffPool(s.Of(m.ID))
}

// OffPool is Misplaced for what was seen of a member or a witness.
func (s *Seen) OffPool(seen *world.Member) string {
	if seen.StatefulSet == nil {
		return ""
	}
	set, node := seen.StatefulSet, seen.VolumeNode
	if seen.Pod != nil {
		node = cmp.Or(seen.Pod.Spec.NodeName, node)
	}
	for key, value := range build.NodeSelector(s.Cluster, seen.Site) { // order is irrelevant: a pool has one label
		if set.Spec.Template.Spec.NodeSelector[key] != value && (node == "" || s.Zones[node].Labels[key] != value) {
			return fmt.Sprintf("is not on the nodes with %s=%s", key, value)
		}
	}
	return ""
}

// Zone is where the pod of a member, or of a dedicated witness, runs, or empty.
func (s *Seen) Zone(id view.MemberID) string {
	if pod := cmp.Or(s.Dedicated(id).Pod, s.Pod(id)); pod != nil && s.ZonesKnown {
		return s.Zones[pod.Spec.NodeName].Name
	}
	return ""
}

// SpecHash is the hash of what pods of members are to be made for.
func (s *Seen) SpecHash() string { return build.SpecHash(s.Cluster) }

// Outdated reports whether a member's pod was made for another spec and does not end already.
func (s *Seen) Outdated(id view.MemberID) bool {
	pod := s.Pod(id)
	return pod != nil && pod.DeletionTimestamp == nil && HashOf(pod.Annotations) != s.SpecHash()
}

// HashOf is the hash of the spec that an object was made for, by its annotations.
func HashOf(annotations map[string]string) string { return annotations[build.SpecHashAnnotation] }

// Where are those of some members of whom something is so.
func Where(members []view.Member, is func(view.Member) bool) (some []view.Member) {
	for _, m := range members {
		if is(m) {
			some = append(some, m)
		}
	}
	return some
}

// Say says something of each of some members, after its name.
func Say(members []view.Member, what func(view.Member) string) (all []string) {
	for _, m := range members {
		all = append(all, message.Member(m)+" "+what(m))
	}
	return all
}

// IDs are the members' IDs, in their order.
func IDs(members []view.Member) (all []view.MemberID) {
	for _, m := range members {
		all = append(all, m.ID)
	}
	return all
}
