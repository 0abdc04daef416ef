package decide

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Dedicated witnesses have pods of their own, one at each site. What a lost one saved nobody needs once other witnesses
// have taken its parts over; so another one, under a new ID, takes its place without ceremony: it waits on an empty
// disk, the view takes it on, and the former one retires.

// dedicated reports whether witnesses have pods of their own.
func (s *situation) dedicated() bool { return s.Cluster.Spec.Dedicated() }

// seenWitness is what was seen of a dedicated witness, or nil.
func (s *situation) seenWitness(id view.MemberID) *world.Member {
	i := slices.IndexFunc(s.Witnesses, func(m world.Member) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Witnesses[i]
}

// everybody is what was seen of members and of dedicated witnesses.
func (s *situation) everybody() []world.Member { return slices.Concat(s.Members, s.Witnesses) }

// alone are the dedicated witnesses of the view.
func (s *situation) alone() []view.Witness {
	return slices.DeleteFunc(slices.Clone(s.view.Witnesses), func(w view.Witness) bool { return w.Beside != 0 })
}

// witnesses are the dedicated witnesses to keep objects of: those of the view and those that come; with the view in
// doubt, those of whom something is there.
func (s *situation) witnesses() (all []view.Witness) {
	if s.doubt == nil || s.mayBeNew() {
		return append(s.alone(), s.coming...)
	}
	for _, m := range s.Witnesses {
		if m.StatefulSet != nil || m.Volume != nil || m.Pod != nil {
			all = append(all, s.dedicatedAt(m.ID, m.Site))
		}
	}
	return all
}

// dedicatedAt is a dedicated witness as a view enters it; without a disk while that is not known.
func (s *situation) dedicatedAt(id view.MemberID, site string) view.Witness {
	w := view.Witness{ID: id, Site: site}
	w.Address = build.DedicatedAddress(s.Cluster, s.Settings, w)
	if seen := s.seenWitness(id); seen != nil && seen.Witness != nil {
		w.Disk = seen.Witness.Disk
	}
	return w
}

// comingWitnesses are the dedicated witnesses that are to be taken on: for each site whose witness is not fit, or that
// has none, the one that waits there, or a new one under an ID that nobody had. Before the cluster is founded that is
// every site; later those that have members.
func (s *situation) comingWitnesses() (all []view.Witness) {
	if !s.dedicated() || s.doubt != nil && !s.mayBeNew() {
		return nil
	}
	starts := s.view.Epoch == 0 || s.settled() && !s.view.Joint() && !s.quorumGone()
	next := s.view.LastIssued()
	for _, m := range s.asked.join {
		next = max(next, m.ID) // it may be taken on before, and then a lower one can't be
	}
	for _, site := range s.Cluster.Spec.Sites {
		if _, fit := s.bestWitness(site.Name); fit {
			continue
		}
		if i := slices.IndexFunc(s.Witnesses, func(m world.Member) bool { return m.Site == site.Name && s.awaited(&m) }); i >= 0 {
			all = append(all, s.dedicatedAt(s.Witnesses[i].ID, site.Name))
			continue
		}
		there := slices.ContainsFunc(s.view.Members, func(m view.Member) bool { return m.Site == site.Name })
		if !starts || s.view.Epoch > 0 && !there {
			continue
		}
		for next = build.NextWitness(next); s.seenWitness(next) != nil; next = build.NextWitness(next) {
		}
		all = append(all, s.dedicatedAt(next, site.Name))
	}
	return all
}

// awaited reports whether a dedicated witness was made to be taken on, and still can be.
func (s *situation) awaited(seen *world.Member) bool {
	there := seen.StatefulSet != nil && seen.StatefulSet.DeletionTimestamp == nil ||
		seen.StatefulSet == nil && seen.Volume != nil && seen.Volume.DeletionTimestamp == nil
	if s.view.Epoch == 0 {
		return s.offPool(seen) == ""
	}
	return seen.ID > s.view.LastIssued() && there && s.witnessVolumeLost(seen) == "" && s.unfit(seen) == ""
}

// bestWitness is the one of those in the view that a site is to have: a fit one before others, then the latest. It is
// not fit if there is none.
func (s *situation) bestWitness(site string) (best view.Witness, fit bool) {
	for _, w := range s.alone() {
		good := s.witnessLost(w) == "" && s.unfit(s.seenWitness(w.ID)) == ""
		if w.Site == site && (best.ID == 0 || good || !fit && w.ID > best.ID) {
			best, fit = w, good
		}
	}
	return best, fit
}

// retiring are the dedicated witnesses of the view that are to go: those of sites that are not asked for, once they or
// the members there are gone, and those in whose place there is another one.
func (s *situation) retiring() (all []view.MemberID) {
	for _, w := range s.alone() {
		best, fit := s.bestWitness(w.Site)
		there := slices.ContainsFunc(s.view.Members, func(m view.Member) bool { return m.Site == w.Site })
		if s.siteOf(view.Member{Site: w.Site}) == nil && (!there || s.witnessLost(w) != "") || fit && best.ID != w.ID {
			all = append(all, w.ID)
		}
	}
	return all
}

// unfit says why a dedicated witness is not as asked for, to be read after its name, though it serves; or is empty.
func (s *situation) unfit(seen *world.Member) string {
	if seen == nil {
		return ""
	}
	if why := s.offPool(seen); why != "" {
		return why
	}
	if needed := build.DedicatedSize(s.Cluster.Spec); seen.Volume != nil {
		if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known && has.Cmp(needed) < 0 {
			return fmt.Sprintf("has a volume of %s, and needs one of %s", has.String(), needed.String())
		}
	}
	return ""
}

// witnessLost says why another one is to take the place of a dedicated witness of the view, to be read after its name,
// or is empty: it is on another disk, or it was not ready for long, and a quorum of the members don't hear it.
func (s *situation) witnessLost(w view.Witness) string {
	seen := s.seenWitness(w.ID)
	switch {
	case seen == nil || seen.StatefulSet == nil: // made again
		return ""
	case seen.Witness != nil && seen.Witness.Disk != "" && seen.Witness.Disk != w.Disk:
		return "has another disk than the view names: what it saved is gone"
	case seen.Witness != nil || ready(seen.Pod) && !s.nodeGone(seen.Pod) || s.downFor(seen.Pod) < s.Settings.LostAfter || !s.unheard(w.ID):
		return ""
	}
	if why := s.witnessVolumeLost(seen); why != "" {
		return why
	}
	return fmt.Sprintf("was not ready for %v, and a majority of the members don't hear it", s.Settings.LostAfter)
}

// witnessVolumeLost says what became of a dedicated witness's volume, to be read after its name, or is empty.
func (s *situation) witnessVolumeLost(seen *world.Member) string {
	if seen.StatefulSet == nil { // the volume is made first
		return ""
	}
	return volumeLost(seen, build.DedicatedVolumeName(s.Cluster.Name, view.Witness{ID: seen.ID, Site: seen.Site}))
}

// unheard reports whether a quorum of members say that they can't reach a witness.
func (s *situation) unheard(id view.MemberID) bool {
	return s.view.Quorum(func(m view.MemberID) bool {
		r := s.report(m)
		return r != nil && slices.ContainsFunc(r.Witnesses, func(p world.Peer) bool { return p.ID == id && !p.Reachable })
	})
}

// namedWitnesses are those that come and can be taken on now: they named their disks, and nobody with a lower ID is
// about to, who could not be taken on any more after them.
func (s *situation) namedWitnesses() (all []view.Witness) {
	for _, w := range s.coming {
		hopeful := func(seen *world.Member) bool {
			return seen != nil && seen.Pod != nil && s.Now.Sub(seen.Pod.CreationTimestamp.Time) < s.Settings.LostAfter
		}
		waits := w.Disk == "" || slices.ContainsFunc(s.coming, func(o view.Witness) bool {
			return o.ID < w.ID && o.Disk == "" && hopeful(s.seenWitness(o.ID))
		}) || slices.ContainsFunc(s.asked.join, func(m view.Member) bool { return m.ID < w.ID && hopeful(s.Member(m.ID)) })
		if !waits {
			all = append(all, w)
		}
	}
	return all
}

// witnessState says in a few words why a dedicated witness does not serve, to be read after its name, or is empty.
func (s *situation) witnessState(w view.Witness) string {
	seen := s.seenWitness(w.ID)
	switch {
	case seen == nil || seen.StatefulSet == nil && seen.Pod == nil:
		return "is not made yet"
	case seen.Witness != nil && seen.Witness.Disk == "":
		return "has not named its disk yet"
	case seen.Witness != nil:
		return ""
	}
	return unheard(seen, seen.WitnessSilence)
}

// unfounded says of each of the first witnesses that can't be founded with what it does. One that served a cluster
// before may hand that one's requests to this one's masters.
func (s *situation) unfounded() (missing []string) {
	for _, w := range s.coming {
		why := s.witnessState(w)
		if seen := s.seenWitness(w.ID); seen != nil && seen.Witness != nil && len(seen.Witness.Lives) > 0 {
			why = fmt.Sprintf("served another cluster on its volume; delete the claim %s and its pod", build.DedicatedVolumeName(s.Cluster.Name, w))
		}
		if why != "" {
			missing = append(missing, fmt.Sprintf("%s %s", witnessName(w), why))
		}
	}
	return missing
}

// witnessProblems are the dedicated witnesses that don't serve as they should.
func (s *situation) witnessProblems() (all []cause) {
	for _, w := range s.alone() {
		add := func(reason, what string) {
			all = append(all, cause{reason, sentence(witnessName(w)) + " " + what})
		}
		if slices.Contains(s.retiring(), w.ID) {
			continue
		}
		if why := s.witnessLost(w); why != "" {
			add("WitnessLost", why+"; another one is to take its place")
		} else if why := s.witnessState(w); why != "" {
			add("WitnessDown", why)
		}
	}
	return all
}

func witnessName(w view.Witness) string { return fmt.Sprintf("witness %d (site %s)", w.ID, w.Site) }

// dedicatedWanted are the objects of the dedicated witnesses that are to be there now, with what must stay of those
// that were seen, as for members: a volume that is lost is not made again, and none grows; a witness stays in its node
// pool until another one has taken its place.
func (s *situation) dedicatedWanted(in build.Input) (objects []client.Object) {
	if !s.dedicated() {
		return nil
	}
	for _, w := range s.witnesses() {
		seen := s.seenWitness(w.ID)
		for _, object := range build.Dedicated(in, w) {
			if !s.wantsOf(seen, object) {
				continue
			}
			switch object := object.(type) {
			case *corev1.PersistentVolumeClaim:
				if seen != nil && seen.Volume != nil {
					object.SetUID(seen.Volume.UID)
					if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known {
						object.Spec.Resources.Requests[corev1.ResourceStorage] = has
					}
				}
			case *appsv1.StatefulSet:
				if seen != nil && seen.StatefulSet != nil && (s.siteOf(view.Member{Site: w.Site}) == nil || s.offPool(seen) != "") {
					object.Spec.Template.Spec.NodeSelector = maps.Clone(seen.StatefulSet.Spec.Template.Spec.NodeSelector)
				}
			}
			objects = append(objects, object)
		}
	}
	return objects
}
