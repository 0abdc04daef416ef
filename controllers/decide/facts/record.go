package facts

import (
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const (
	// NotFounded is why there is no view before the first one.
	NotFounded = "NotFounded"
	// VolumesDiffer is why none can be looked for.
	VolumesDiffer = "VolumesDiffer"
)

// doubtOrigin says why none of what is seen may be taken for this resource's: a former one of its name leaves, or it is
// not known which cluster it is.
func (s *Facts) doubtOrigin() *message.Cause {
	if len(s.Former) > 0 {
		return &message.Cause{Reason: "FormerResourceLeaves",
			Message: "A former resource of this name was deleted, and these go with it first: " +
				message.List(s.Former)}
	}
	return &message.Cause{Reason: VolumesDiffer, Message: "Volumes of different clusters are here, and no ConfigMap " +
		build.RecordName(s.Cluster.Name) + " says which of them this one is; put that back, or delete the claims of " +
		"all clusters but one: " + message.List(s.Stored)}
}

// doubtRecord says why the record can't be acted on, or nil.
func (s *Facts) doubtRecord() *message.Cause {
	record := build.RecordName(s.Cluster.Name)
	switch held := s.HighestHeld(); {
	case s.Record.Taken != "":
		return &message.Cause{Reason: message.NameTaken, Message: message.Taken(s.Cluster, s.TakenRecord())}
	case !s.Record.Exists && s.MayBeNew():
		return &message.Cause{Reason: NotFounded, Message: "The cluster has no view yet"}
	case !s.Record.Exists:
		return message.Because("RecordMissing", "The record of the view, ConfigMap %s, is missing", record)
	case s.Record.Problem != "":
		return message.Because("RecordDamaged", "The record of the view, ConfigMap %s, can't be read: %s",
			record, s.Record.Problem)
	case held.Epoch > s.Record.View.Epoch:
		return message.Because("RecordBehind", "The record of the view, ConfigMap %s, is at epoch %d, but a member "+
			"holds epoch %d", record, s.Record.View.Epoch, held.Epoch)
	}
	digest := s.Record.View.Digest()
	holds := func(id view.MemberID) bool {
		r := s.Report(id)
		return r != nil && r.Digest == digest
	}
	if s.Record.View.Quorum(holds) {
		return nil // another view of its epoch was never committed, nor will it be: the next one replaces it
	}
	if d := s.Rebuilt(); d.Committed && d.View.Epoch == s.Record.View.Epoch {
		return message.Because("RecordBehind", "The record of the view, ConfigMap %s, is another view of epoch %d "+
			"than the one that a quorum of members holds (%s and %s)",
			record, d.View.Epoch, digest, d.View.Digest())
	}
	for _, m := range s.Record.View.Members {
		r := s.Report(m.ID)
		if r != nil && r.View.Epoch == s.Record.View.Epoch && r.Digest != digest {
			return message.Because("ViewsDiffer", "The record of the view, ConfigMap %s, and %s hold different views "+
				"of epoch %d (%s and %s); if the record was edited, delete it: it is rebuilt from what the members "+
				"hold",
				record, message.Member(m), r.View.Epoch, digest, r.Digest)
		}
	}
	return nil
}

// TakenRecord is the object in the place of the record.
func (s *Seen) TakenRecord() world.Taken {
	return world.Taken{Kind: "ConfigMap", Name: build.RecordName(s.Cluster.Name), Whose: s.Record.Taken}
}

// HighestHeld is the view of the highest epoch that anybody holds, or none. A member that a committed change
// left out tells only of a past that the record knows better.
func (s *Seen) HighestHeld() view.View {
	var highest view.View
	for _, m := range s.Members {
		if r := m.Report; r != nil && r.View.Cluster == s.ClusterID && r.View.Epoch > highest.Epoch {
			highest = m.Report.View
		}
	}
	return highest
}

// Rebuilt is what the members' words say of the view, whatever the record does.
func (s *Seen) Rebuilt() membership.Rebuilt {
	var said []membership.Report
	for _, m := range s.Members {
		if r := m.Report; r != nil && (r.View.Epoch == 0 || r.View.Cluster == s.ClusterID) {
			said = append(said, membership.Report{
				Member: m.ID, View: r.View, Votes: r.Role == world.Voter, Disk: r.Disk,
			})
		}
	}
	return membership.Rebuild(said, func(id view.MemberID) bool {
		return s.Lost(view.Member{ID: id, Site: s.Of(id).Site}) != ""
	})
}
