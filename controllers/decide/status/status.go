// Package status says how a cluster is: it projects what is known of it, and what the rules say, to the status of the
// resource.
package status

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/emulation"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// Projection is what a status is made from.
type Projection struct {
	*views.Views
	outcome *rules.Outcome // of the rules; nil if none had anything to do
	network *emulation.Emulation
}

// Of is what a status is made from: what is known, what the rules said of it, and the emulated network.
func Of(s *views.Views, o *rules.Outcome, network *emulation.Emulation) *Projection {
	return &Projection{Views: s, outcome: o, network: network}
}

// Status is the projection of what was seen, and of what the rules said of it.
func (s *Projection) Status() v1alpha1.GeoRegisterClusterStatus {
	out := v1alpha1.GeoRegisterClusterStatus{ObservedGeneration: s.Cluster.Generation}
	members := s.View.Members
	if s.View.Epoch == 0 {
		members = s.MembersToKeep()
	}
	s.projectView(&out)
	s.projectMembers(&out, members)
	s.projectSites(&out, members)
	s.projectChange(&out)
	s.projectPartitions(&out)
	s.projectRecovery(&out)
	out.Links = s.network.LinkStatuses()
	for _, c := range s.conditions(members) {
		c.ObservedGeneration = s.Cluster.Generation
		out.Conditions = append(out.Conditions, c)
	}
	Conclude(&out, s.Cluster.Generation)
	return out
}

func (s *Projection) projectView(out *v1alpha1.GeoRegisterClusterStatus) {
	if s.View.Epoch == 0 {
		out.View = s.Cluster.Status.View.DeepCopy() // the last that was known: see facts.MayBeNew
		return
	}
	out.Quorum = fmt.Sprintf("%d/%d", len(s.Voters()), s.least())
	out.View = &v1alpha1.ViewStatus{
		ClusterID: s.ClusterID, Epoch: int64(s.View.Epoch), Digest: s.View.Digest(),
		Members: int32(s.View.Size()), Majority: int32(s.least()),
	}
	if hasFastPath(s.Cluster.Spec.Protocol) && !s.View.Joint() {
		fast := int32(s.fastQuorum())
		out.View.FastQuorum = &fast
	}
}

// least is how many members the smallest quorum has.
func (s *Projection) least() int {
	before, after := s.View.Before(), s.View.After()
	both := min(before.Size()+after.Size()-s.View.Size(), max(before.Majority(), after.Majority()))
	return both + max(0, before.Majority()-both) + max(0, after.Majority()-both)
}

// fastQuorum is how many members of a plain view a fast quorum has.
func (s *Projection) fastQuorum() int {
	told := s.Cluster.Spec.ToldFaults()
	if told == 0 && isFastest(s.Cluster.Spec.Protocol, capability.AllButTwo) {
		return s.View.ValidatedQuorum()
	}
	return s.View.FastQuorum(told)
}

// hasFastPath reports whether some operation of a protocol is fastest with a fast quorum.
func hasFastPath(protocol string) bool {
	return isFastest(protocol, capability.AllButOne) || isFastest(protocol, capability.AllButTwo)
}

// isFastest reports whether some operation of a protocol is fastest with a quorum.
func isFastest(protocol string, quorum capability.Quorum) bool {
	row, err := capability.Find(protocol)
	return err == nil && slices.ContainsFunc(row.Operations, func(op capability.Operation) bool {
		return op.Best.Quorum == quorum
	})
}

func (s *Projection) projectMembers(out *v1alpha1.GeoRegisterClusterStatus, members []view.Member) {
	for _, m := range members {
		out.Members = append(out.Members, s.member(m))
	}
	for _, m := range s.Members { // newcomers that wait, and those that were left out
		if slices.Contains(facts.IDs(members), m.ID) || m.StatefulSet == nil && m.Pod == nil {
			continue
		}
		told := s.member(view.Member{ID: m.ID, Site: m.Site})
		if !slices.Contains(facts.IDs(s.Asked.Join), m.ID) {
			told.State = "is being removed"
		}
		out.Members = append(out.Members, told)
	}
	slices.SortFunc(out.Members, func(a, b v1alpha1.MemberStatus) int { return int(a.ID - b.ID) })
	out.Ready = fmt.Sprintf("%d/%d", len(facts.Where(members, s.Ready)), s.Cluster.Spec.MemberCount())
}

func (s *Projection) member(m view.Member) v1alpha1.MemberStatus {
	out := v1alpha1.MemberStatus{ID: int64(m.ID), Site: m.Site, Pod: build.PodName(s.Cluster.Name, m),
		State: s.Silence(m), Ready: s.Ready(m)}
	if pod := s.Pod(m.ID); pod != nil {
		out.Node = pod.Spec.NodeName
	}
	if r := s.Report(m.ID); r != nil {
		out.Incarnation, out.Role, out.Version = int64(r.Incarnation), r.Role.String(), r.Version
	}
	return out
}

func (s *Projection) projectSites(out *v1alpha1.GeoRegisterClusterStatus, members []view.Member) {
	whole := 0
	for _, site := range s.Cluster.Spec.Sites {
		serving := len(facts.Where(members, func(m view.Member) bool { return m.Site == site.Name && s.Ready(m) }))
		if serving >= site.MemberCount() {
			whole++
		}
		host := build.Endpoint(s.Cluster, s.Settings, site.Name)
		out.Sites = append(out.Sites, v1alpha1.SiteStatus{
			Name: site.Name, Ready: fmt.Sprintf("%d/%d", serving, site.MemberCount()),
			Redis: fmt.Sprintf("%s:%d", host, build.RedisPort), GRPC: fmt.Sprintf("%s:%d", host, build.GRPCPort),
		})
	}
	out.SitesReady = fmt.Sprintf("%d/%d", whole, len(s.Cluster.Spec.Sites))
}

// problems are what is less than asked for, member by member.
func (s *Projection) problems(members []view.Member) (all []message.Cause) {
	if s.Doubt != nil && s.Doubt.Reason != facts.NotFounded {
		all = append(all, *s.Doubt)
	}
	all = append(all, s.takenProblems()...)
	for _, m := range members {
		add := func(reason, what string) {
			all = append(all, message.Cause{Reason: reason, Message: message.Sentence(message.Member(m)) + " " + what})
		}
		seen, votes := s.Of(m.ID), s.Votes(m.ID)
		r, trouble, by := seen.Report, facts.Trouble(seen), s.UnreachedBy(m.ID)
		switch lost := s.Lost(m); {
		case lost != "":
			add("MemberLost", lost)
		case r == nil && trouble != nil:
			of := s.Unplaced(m, message.Cause{Reason: trouble.Reason, Message: s.Silence(m)})
			add(of.Reason, of.Message)
		case r != nil && r.Loss != nil && !r.Loss.Over:
			add("DiskDamaged", facts.Damage(r.Loss))
		case s.View.Epoch > 0 && !votes:
			add("MemberDown", s.Silence(m))
		case votes && len(by) > 0:
			add("MemberUnreachable", "votes, but can't be reached by "+message.Members(by))
		case s.View.Epoch > 0 && !facts.PodReady(seen.Pod) && !s.fetches(m):
			add("MemberNotReady", "votes, but its pod is not ready")
		}
		if why := volumeObstacle(seen); why != "" {
			add("VolumeCannotGrow", why)
		}
		if seen.Volume != nil && seen.Volume.DeletionTimestamp != nil && facts.Runs(seen.Pod) {
			add("VolumeLeaving", fmt.Sprintf("uses volume %s, which is being deleted once its pod ends",
				seen.Volume.Name))
		}
	}
	return slices.Concat(all, s.partitionProblems(), s.diskProblems(members), s.witnessProblems())
}

// takenProblems are the names that are taken, but for the record's, which is the doubt.
func (s *Projection) takenProblems() (all []message.Cause) {
	for _, t := range s.Taken {
		all = append(all, message.Cause{Reason: message.WhyTaken(t), Message: message.Taken(s.Cluster, t)})
	}
	return all
}

// fetches reports whether a newcomer of a joint view is about to get ready.
func (s *Projection) fetches(m view.Member) bool {
	return m.Joining && s.Votes(m.ID) && !s.Report(m.ID).Change.Fetched
}
