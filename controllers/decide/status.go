package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// status is the projection of what was seen, and of what the rules said of it.
func (s *situation) status(o *outcome) v1alpha1.GeoRegisterClusterStatus {
	out := v1alpha1.GeoRegisterClusterStatus{ObservedGeneration: s.Cluster.Generation}
	members := s.view.Members
	if s.view.Epoch == 0 {
		members = s.members()
	}
	s.projectView(&out)
	s.projectMembers(&out, members)
	s.projectSites(&out, members)
	s.projectChange(&out, o)
	s.projectPartitions(&out)
	s.projectRecovery(&out, o)
	out.Links = s.emulation.linkStatuses()
	for _, c := range s.conditions(o, members) {
		c.ObservedGeneration = s.Cluster.Generation
		out.Conditions = append(out.Conditions, c)
	}
	Conclude(&out, s.Cluster.Generation)
	return out
}

func (s *situation) projectView(out *v1alpha1.GeoRegisterClusterStatus) {
	if s.view.Epoch == 0 {
		out.View = s.Cluster.Status.View.DeepCopy() // the last that was known: see mayBeNew
		return
	}
	out.Quorum = fmt.Sprintf("%d/%d", len(s.voters()), s.least())
	out.View = &v1alpha1.ViewStatus{
		ClusterID: s.ClusterID, Epoch: int64(s.view.Epoch), Digest: s.view.Digest(),
		Members: int32(s.view.Size()), Majority: int32(s.least()),
	}
	if hasFastPath(s.Cluster.Spec.Protocol) && !s.view.Joint() {
		fast := int32(s.view.FastQuorum())
		out.View.FastQuorum = &fast
	}
}

// least is how many members the smallest quorum has.
func (s *situation) least() int {
	before, after := s.view.Before(), s.view.After()
	both := min(before.Size()+after.Size()-s.view.Size(), max(before.Majority(), after.Majority()))
	return both + max(0, before.Majority()-both) + max(0, after.Majority()-both)
}

// hasFastPath reports whether some operation of a protocol is fastest with a fast quorum.
func hasFastPath(protocol string) bool {
	for _, row := range capability.Table() {
		for _, op := range row.Operations {
			if row.Name == protocol && op.Best.Quorum == capability.AllButOne {
				return true
			}
		}
	}
	return false
}

func (s *situation) projectMembers(out *v1alpha1.GeoRegisterClusterStatus, members []view.Member) {
	serving := 0
	for _, m := range members {
		if s.ready(m) {
			serving++
		}
		out.Members = append(out.Members, s.member(m))
	}
	for _, m := range s.Members { // newcomers that wait, and those that were left out
		if slices.ContainsFunc(members, func(o view.Member) bool { return o.ID == m.ID }) || m.StatefulSet == nil && m.Pod == nil {
			continue
		}
		beside := view.Member{ID: m.ID, Site: m.Site}
		told := s.member(beside)
		if !slices.ContainsFunc(s.asked.join, func(o view.Member) bool { return o.ID == m.ID }) {
			told.State = "is being removed"
		}
		out.Members = append(out.Members, told)
	}
	slices.SortFunc(out.Members, func(a, b v1alpha1.MemberStatus) int { return int(a.ID - b.ID) })
	out.Ready = fmt.Sprintf("%d/%d", serving, s.Cluster.Spec.MemberCount())
}

func (s *situation) member(m view.Member) v1alpha1.MemberStatus {
	out := v1alpha1.MemberStatus{ID: int64(m.ID), Site: m.Site, Pod: build.PodName(s.Cluster.Name, m),
		State: s.silence(m), Ready: s.ready(m)}
	if pod := s.pod(m.ID); pod != nil {
		out.Node = pod.Spec.NodeName
	}
	if r := s.report(m.ID); r != nil {
		out.Incarnation, out.Role, out.Version = int64(r.Incarnation), r.Role.String(), r.Version
	}
	return out
}

func (s *situation) projectSites(out *v1alpha1.GeoRegisterClusterStatus, members []view.Member) {
	whole := 0
	for _, site := range s.Cluster.Spec.Sites {
		serving := 0
		for _, m := range members {
			if m.Site == site.Name && s.ready(m) {
				serving++
			}
		}
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

// ready reports whether a member serves clients: it votes and its pod is in its site's Service.
func (s *situation) ready(m view.Member) bool { return s.serves(m.ID) && ready(s.pod(m.ID)) }

// problems are what is less than asked for, member by member.
func (s *situation) problems(members []view.Member) (all []cause) {
	if s.doubt != nil && s.doubt.reason != notFounded {
		all = append(all, *s.doubt)
	}
	all = append(all, s.takenProblems()...)
	for _, m := range members {
		add := func(reason, what string) { all = append(all, cause{reason, sentence(name(m)) + " " + what}) }
		if why := s.lost(m); why != "" {
			add("MemberLost", why)
		} else if seen := s.Member(m.ID); seen != nil && !s.serves(m.ID) && s.report(m.ID) == nil && trouble(seen) != nil {
			of := s.unplaced(m, cause{trouble(seen).reason, s.silence(m)})
			add(of.reason, of.message)
		} else if r := s.report(m.ID); r != nil && r.Loss != nil && !r.Loss.Over {
			add("DiskDamaged", damage(r.Loss))
		} else if s.view.Epoch > 0 && !s.serves(m.ID) {
			add("MemberDown", s.silence(m))
		} else if by := s.unreachedBy(m.ID); s.serves(m.ID) && len(by) > 0 {
			add("MemberUnreachable", "votes, but can't be reached by "+strings.Join(by, ", "))
		} else if pod := s.pod(m.ID); s.view.Epoch > 0 && !ready(pod) && !s.fetches(m) {
			add("MemberNotReady", "votes, but its pod is not ready")
		}
		if why := volumeObstacle(s.Member(m.ID)); why != "" {
			add("VolumeCannotGrow", why)
		}
		if seen := s.Member(m.ID); seen != nil && seen.Volume != nil && seen.Volume.DeletionTimestamp != nil && runs(seen.Pod) {
			add("VolumeLeaving", fmt.Sprintf("uses volume %s, which is being deleted once its pod ends", seen.Volume.Name))
		}
	}
	return slices.Concat(all, s.partitionProblems(), s.diskProblems(members), s.witnessProblems())
}

// fetches reports whether a newcomer of a joint view is about to get ready.
func (s *situation) fetches(m view.Member) bool {
	return m.Joining && s.serves(m.ID) && !s.report(m.ID).Change.Fetched
}

// unreachedBy names the voters that say that they can't reach a member.
func (s *situation) unreachedBy(id view.MemberID) (names []string) {
	for _, m := range s.voters() {
		for _, p := range s.report(m.ID).Peers {
			if p.ID == id && !p.Reachable {
				names = append(names, name(m))
			}
		}
	}
	return names
}
