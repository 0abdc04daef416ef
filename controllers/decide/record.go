package decide

import (
	"fmt"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const (
	// notFounded is why there is no view before the first one.
	notFounded = "NotFounded"
	// volumesDiffer is why none can be looked for.
	volumesDiffer = "VolumesDiffer"
)

// doubtFormer says what is waited for while objects of a former resource are there.
func (s *situation) doubtFormer() *cause {
	return &cause{"FormerResourceLeaves", "A former resource of this name was deleted, and these go with it first: " + list(s.Former)}
}

// doubtRecord says why the record can't be acted on, or nil.
func (s *situation) doubtRecord() *cause {
	record := build.RecordName(s.Cluster.Name)
	switch held := s.highestHeld(); {
	case s.Record.Taken != "":
		return &cause{NameTaken, SayTaken(s.Cluster, s.takenRecord())}
	case !s.Record.Exists && s.mayBeNew():
		return &cause{notFounded, "The cluster has no view yet"}
	case !s.Record.Exists:
		return &cause{"RecordMissing", fmt.Sprintf("The record of the view, ConfigMap %s, is missing", record)}
	case s.Record.Problem != "":
		return &cause{"RecordDamaged", fmt.Sprintf("The record of the view, ConfigMap %s, can't be read: %s",
			record, s.Record.Problem)}
	case held.Epoch > s.Record.View.Epoch:
		return &cause{"RecordBehind", fmt.Sprintf("The record of the view, ConfigMap %s, is at epoch %d, but a member "+
			"holds epoch %d", record, s.Record.View.Epoch, held.Epoch)}
	}
	digest := s.Record.View.Digest()
	holds := func(id view.MemberID) bool {
		r := s.report(id)
		return r != nil && r.Digest == digest
	}
	if s.Record.View.Quorum(holds) { // another view of its epoch never took hold, nor will it: the next one replaces it
		return nil
	}
	if v := s.tookHold(); v.Epoch == s.Record.View.Epoch {
		return &cause{"RecordBehind", fmt.Sprintf("The record of the view, ConfigMap %s, is another view of epoch %d than the one that a quorum of members holds (%s and %s)",
			record, v.Epoch, digest, v.Digest())}
	}
	for _, m := range s.Record.View.Members {
		r := s.report(m.ID)
		if r != nil && r.View.Epoch == s.Record.View.Epoch && r.Digest != digest {
			return &cause{"ViewsDiffer", fmt.Sprintf("The record of the view, ConfigMap %s, and %s hold different views "+
				"of epoch %d (%s and %s); if the record was edited, delete it: it is rebuilt from what the members hold",
				record, name(m), r.View.Epoch, digest, r.Digest)}
		}
	}
	return nil
}

// highestHeld is the view of the highest epoch that anybody holds, or none. A member that a committed change
// left out tells only of a past that the record knows better.
func (s *situation) highestHeld() view.View {
	var highest view.View
	for _, m := range s.Members {
		if r := m.Report; r != nil && r.View.Cluster == s.ClusterID && r.View.Epoch > highest.Epoch {
			highest = m.Report.View
		}
	}
	return highest
}

// tookHold is the view of the highest epoch that anybody holds if a quorum of its members holds it, or none. Where
// there are masters, a record that was lost and made again can have given an epoch a second view: this one is the
// cluster's.
func (s *situation) tookHold() view.View {
	highest := s.highestHeld().Epoch
	for _, other := range s.Members {
		if other.Report == nil || other.Report.View.Epoch != highest || len(other.Report.View.Partitions) == 0 {
			continue
		}
		v := other.Report.View
		digests := map[view.MemberID]string{}
		for _, m := range v.Members {
			if s.vouches(m) {
				digests[m.ID] = s.report(m.ID).Digest
			}
		}
		if membership.Committed(v, digests) {
			return v
		}
	}
	return view.View{}
}

// rebuildRecord writes a record that is missing, damaged or behind, from what the members hold: the highest view, once
// a quorum of its members answered (membership.Rebuild). The next of a joint view may be either of two, which have no
// quorum in common, and may have been told to somebody: there everybody answers who is not lost. No quorum: wait. A
// cluster that may hold data is never founded again.
func rebuildRecord(s *situation) *outcome {
	if s.doubt == nil || s.doubt.reason == "ViewsDiffer" || s.doubt.reason == NameTaken {
		return nil
	}
	held := s.tookHold()
	v := held
	if v.Epoch == 0 {
		v = s.highestHeld()
	}
	if v.Epoch == 0 {
		var silent []string
		for _, m := range s.members() {
			silent = append(silent, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		}
		return waitFor(s.doubt.reason, "%s; it is rebuilt from what the members hold, and none tells a view: %s",
			s.doubt.message, list(silent))
	}
	if other := s.holderOfAnother(v); other != nil && held.Epoch == 0 {
		return waitFor("ViewsDiffer", "%s; it can't be rebuilt, since members hold different views of epoch %d: %s holds %s, "+
			"others hold %s", s.doubt.message, v.Epoch, name(view.Member{ID: other.ID, Site: other.Site}),
			other.Report.Digest, v.Digest())
	}
	var answered []membership.Report
	var missing []string
	for _, m := range v.Members {
		switch r := s.report(m.ID); {
		case !s.vouches(m):
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		case r.Role == world.Waiting: // the disk that the view names holds nothing but its name
			answered = append(answered, membership.Report{Member: m.ID, View: v})
		default:
			answered = append(answered, membership.Report{Member: m.ID, View: r.View})
		}
	}
	// Whoever holds it is a witness of it, also one that it removed: those who stay may not have been told yet.
	rebuilt, known, err := membership.Rebuild(append([]membership.Report{{View: v}}, answered...))
	if err == nil && v.Joint() {
		for _, m := range v.Members {
			if s.report(m.ID) == nil && s.lost(m) == "" {
				return waitFor(s.doubt.reason, "%s; it is rebuilt once everybody of view %d, in which the members change, tells what it holds, "+
					"or is lost; missing: %s", s.doubt.message, v.Epoch, list(missing))
			}
		}
	}
	if err != nil || !known || rebuilt.Epoch != v.Epoch {
		return waitFor(s.doubt.reason, "%s; it is rebuilt once %d of the %d members of view %d tell what their disks hold, "+
			"and %d do; missing: %s", s.doubt.message, v.Majority(), v.Size(), v.Epoch, len(answered), list(missing))
	}
	return act(RebuildRecord{View: v, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion},
		Warning("RecordRebuilt", "RebuildRecord", fmt.Sprintf("%s; rebuilt it at epoch %d from what %d of %d members hold",
			s.doubt.message, v.Epoch, len(answered), v.Size())))
}

// vouches reports whether a member's word on what it holds is that of a disk that was never lost: a voter's, or
// that of the very disk that the cluster was founded on and that was told nothing yet. Another empty disk may
// stand in for one that held a later view.
func (s *situation) vouches(m view.Member) bool {
	r := s.report(m.ID)
	return r != nil && (r.Role == world.Voter || r.Role == world.Waiting && r.Disk != "" && r.Disk == m.Disk)
}

// holderOfAnother is a member that holds another view of the same epoch, or nil.
func (s *situation) holderOfAnother(v view.View) *world.Member {
	for i, m := range s.Members {
		if m.Report != nil && m.Report.View.Epoch == v.Epoch && m.Report.Digest != v.Digest() {
			return &s.Members[i]
		}
	}
	return nil
}

// keepRecordMetadata writes the record's owner and labels anew where they are not as they should be. By its owner the
// record is deleted with the resource or outlives it, as spec.storage.retention says; by its labels it is found.
func keepRecordMetadata(s *situation) *outcome {
	if !s.Record.Astray {
		return nil
	}
	return act(KeepRecordMetadata{View: s.Record.View, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion})
}

// requireTrustedRecord ends the rules while the recorded view is in doubt: each rule after it acts on that view.
func requireTrustedRecord(s *situation) *outcome {
	if s.doubt == nil {
		return nil
	}
	return waitFor(s.doubt.reason, "%s", s.doubt.message)
}
