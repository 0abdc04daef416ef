package facts

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Dedicated witnesses have pods of their own, one at each site. What a lost one saved no one needs once other witnesses
// have taken its parts over; so another one, under a new ID, takes its place without ceremony: it waits on an empty
// disk, the view takes it on, and the former one retires.

// HasDedicated reports whether witnesses have pods of their own.
func (s *Seen) HasDedicated() bool { return s.Cluster.Spec.Dedicated() }

// Dedicated is what was seen of a dedicated witness: of one that no one has seen, nothing.
func (s *Seen) Dedicated(id view.MemberID) *world.Member {
	i := slices.IndexFunc(s.Witnesses, func(m world.Member) bool { return m.ID == id })
	if i < 0 {
		return &world.Member{}
	}
	return &s.Witnesses[i]
}

// Everybody is what was seen of members and of dedicated witnesses.
func (s *Seen) Everybody() []world.Member { return slices.Concat(s.Members, s.Witnesses) }

// DedicatedWitnesses are the dedicated witnesses of the view.
func (s *Seen) DedicatedWitnesses() []view.Witness {
	return slices.DeleteFunc(slices.Clone(s.View.Witnesses), func(w view.Witness) bool { return w.Beside != 0 })
}

// dedicatedAt is a dedicated witness as a view enters it; without a disk while that is not known.
func (s *Seen) dedicatedAt(id view.MemberID, site string) view.Witness {
	w := view.Witness{ID: id, Site: site}
	w.Address = build.DedicatedAddress(s.Cluster, s.Settings, w)
	if seen := s.Dedicated(id); seen.Witness != nil {
		w.Disk = seen.Witness.Disk
	}
	return w
}

// bestWitness is the one of those in the view that a site is to have: a fit one before others, then the latest. It is
// not fit if there is none.
func (s *Seen) bestWitness(site string) (best view.Witness, fit bool) {
	for _, w := range s.DedicatedWitnesses() {
		good := s.WitnessLost(w) == "" && s.unfit(s.Dedicated(w.ID)) == ""
		if w.Site == site && (best.ID == 0 || good || !fit && w.ID > best.ID) {
			best, fit = w, good
		}
	}
	return best, fit
}

// Retiring are the dedicated witnesses of the view that are to go: those of sites that are not asked for, once they or
// the members there are gone, and those in whose place there is another one.
func (s *Seen) Retiring() (all []view.MemberID) {
	for _, w := range s.DedicatedWitnesses() {
		best, fit := s.bestWitness(w.Site)
		there := slices.ContainsFunc(s.View.Members, func(m view.Member) bool { return m.Site == w.Site })
		if s.SiteOf(view.Member{Site: w.Site}) == nil && (!there || s.WitnessLost(w) != "") || fit && best.ID != w.ID {
			all = append(all, w.ID)
		}
	}
	return all
}

// unfit says why a dedicated witness is not as asked for, to be read after its name, though it serves; or is empty.
func (s *Seen) unfit(seen *world.Member) string {
	if why := s.OffPool(seen); why != "" {
		return why
	}
	if needed := build.DedicatedSize(s.Cluster.Spec); seen.Volume != nil {
		if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known && has.Cmp(needed) < 0 {
			return fmt.Sprintf("has a volume of %s, and needs one of %s", has.String(), needed.String())
		}
	}
	return ""
}

// WitnessLost says why another one is to take the place of a dedicated witness of the view, to be read after its name,
// or is empty: it is on another disk, or it was not ready for long, and a quorum of the members don't hear it.
func (s *Seen) WitnessLost(w view.Witness) string {
	seen := s.Dedicated(w.ID)
	switch {
	case seen.StatefulSet == nil: // made again
		return ""
	case seen.Witness != nil && seen.Witness.Disk != "" && seen.Witness.Disk != w.Disk:
		return "has another disk than the view names: what it saved is gone"
	case seen.Witness != nil || PodReady(seen.Pod) && !s.nodeGone(seen.Pod) ||
		s.DownFor(seen.Pod) < s.Settings.LostAfter || !s.unheard(w.ID):
		return ""
	}
	if why := s.WitnessVolumeLost(seen); why != "" {
		return why
	}
	return fmt.Sprintf("was not ready for %v, and a majority of the members don't hear it", s.Settings.LostAfter)
}

// WitnessVolumeLost says what became of a dedicated witness's volume, to be read after its name, or is empty.
func (s *Seen) WitnessVolumeLost(seen *world.Member) string {
	if seen.StatefulSet == nil { // the volume is made first
		return ""
	}
	return volumeLost(seen, build.DedicatedVolumeName(s.Cluster.Name, view.Witness{ID: seen.ID, Site: seen.Site}))
}

// unheard reports whether a quorum of members say that they can't reach a witness.
func (s *Seen) unheard(id view.MemberID) bool {
	return s.View.Quorum(func(m view.MemberID) bool {
		r := s.Report(m)
		return r != nil && unreachable(r.Witnesses, id)
	})
}

// WitnessState says in a few words why a dedicated witness does not serve, to be read after its name, or is empty.
func (s *Seen) WitnessState(w view.Witness) string {
	seen := s.Dedicated(w.ID)
	switch {
	case seen.StatefulSet == nil && seen.Pod == nil:
		return "is not made yet"
	case seen.Witness != nil && seen.Witness.Disk == "":
		return "has not named its disk yet"
	case seen.Witness != nil:
		return ""
	}
	return unheard(seen, seen.WitnessSilence)
}

// WitnessBeside is the one beside a member, as a view enters it; without a disk while that is not known.
func (s *Seen) WitnessBeside(m view.Member) view.Witness {
	w := view.Witness{ID: membership.WitnessOf(m.ID), Site: m.Site, Beside: m.ID,
		Address: build.WitnessAddress(s.Cluster, s.Settings, m)}
	if seen := s.Of(m.ID); seen.Witness != nil {
		w.Disk = seen.Witness.Disk
	}
	return w
}

// BesideSilence says what the witness beside a member lacks to be entered, to be read after its name, or is empty.
func (s *Seen) BesideSilence(m view.Member) string {
	seen := s.Of(m.ID)
	switch {
	case s.HasDedicated() || s.WitnessBeside(m).Disk != "": // there is none
		return ""
	case seen.WitnessSilence == "":
		return "has not named its disk yet"
	}
	return "does not answer: " + seen.WitnessSilence
}

// WitnessesToKeep are the dedicated witnesses to keep objects of: those of the view and those that come; with the view
// in doubt, those of whom something is there.
func (s *Facts) WitnessesToKeep() (all []view.Witness) {
	if s.Doubt == nil || s.MayBeNew() {
		return append(s.DedicatedWitnesses(), s.Coming...)
	}
	for _, m := range s.Witnesses {
		if m.StatefulSet != nil || m.Volume != nil || m.Pod != nil {
			all = append(all, s.dedicatedAt(m.ID, m.Site))
		}
	}
	return all
}

// comingWitnesses are the dedicated witnesses that are to be taken on: for each site whose witness is not fit, or that
// has none, the one that waits there, or a new one under an ID that no one had. Before the cluster is founded that is
// every site; later those that have members.
func (s *Facts) comingWitnesses() (all []view.Witness) {
	if !s.HasDedicated() || s.Doubt != nil && !s.MayBeNew() {
		return nil
	}
	starts := s.View.Epoch == 0 || s.Committed() && !s.View.Joint() && !s.QuorumGone()
	next := s.View.LastIssued()
	for _, m := range s.Asked.Join {
		next = max(next, m.ID) // it may be taken on before, and then a lower one can't be
	}
	for _, site := range s.Cluster.Spec.Sites {
		if _, fit := s.bestWitness(site.Name); fit {
			continue
		}
		waits := func(m world.Member) bool { return m.Site == site.Name && s.awaited(&m) }
		if i := slices.IndexFunc(s.Witnesses, waits); i >= 0 {
			all = append(all, s.dedicatedAt(s.Witnesses[i].ID, site.Name))
			continue
		}
		there := slices.ContainsFunc(s.View.Members, func(m view.Member) bool { return m.Site == site.Name })
		if !starts || s.View.Epoch > 0 && !there {
			continue
		}
		for next = build.NextWitness(next); s.Dedicated(next).ID != 0; next = build.NextWitness(next) {
		}
		all = append(all, s.dedicatedAt(next, site.Name))
	}
	return all
}

// awaited reports whether a dedicated witness was made to be taken on, and still can be.
func (s *Facts) awaited(seen *world.Member) bool {
	if s.View.Epoch == 0 {
		return s.OffPool(seen) == ""
	}
	return s.unnamed(seen) && s.WitnessVolumeLost(seen) == "" && s.unfit(seen) == ""
}

// NamedWitnesses are those that come and can be taken on now: they named their disks, and no one with a lower ID is
// about to, who could not be taken on any more after them.
func (s *Facts) NamedWitnesses() (all []view.Witness) {
	for _, w := range s.Coming {
		hopeful := func(seen *world.Member) bool {
			return seen.Pod != nil && s.Now.Sub(seen.Pod.CreationTimestamp.Time) < s.Settings.LostAfter
		}
		waits := w.Disk == "" || slices.ContainsFunc(s.Coming, func(o view.Witness) bool {
			return o.ID < w.ID && o.Disk == "" && hopeful(s.Dedicated(o.ID))
		}) || slices.ContainsFunc(s.Asked.Join, func(m view.Member) bool { return m.ID < w.ID && hopeful(s.Of(m.ID)) })
		if !waits {
			all = append(all, w)
		}
	}
	return all
}
