package rules

import (
	"fmt"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// rebuildRecord writes a record that is missing, damaged or behind, from what the members hold: the highest view, once
// a quorum of its members answered (membership.Rebuild). The next of a joint view may be either of two, which have no
// quorum in common, and may have been told to somebody: there everybody answers who is not lost. No quorum: wait. A
// cluster that may hold data is never founded again.
func rebuildRecord(s *views.Views) *Outcome {
	if s.Doubt == nil || s.Doubt.Reason == "ViewsDiffer" || s.Doubt.Reason == message.NameTaken {
		return nil
	}
	held := s.CommittedView()
	v := held
	if v.Epoch == 0 {
		v = s.HighestHeld()
	}
	if v.Epoch == 0 {
		return waitFor(s.Doubt.Reason, "%s; it is rebuilt from what the members hold, and none tells a view: %s",
			s.Doubt.Message, message.List(facts.Say(s.MembersToKeep(), s.Silence)))
	}
	if other := holderOfAnother(s, v); other != nil && held.Epoch == 0 {
		return waitFor("ViewsDiffer", "%s; it can't be rebuilt, since members hold different views of epoch %d: %s "+
			"holds %s, others hold %s", s.Doubt.Message, v.Epoch, message.Member(view.Member{ID: other.ID, Site: other.Site}),
			other.Report.Digest, v.Digest())
	}
	var answered []membership.Report
	var missing []string
	for _, m := range v.Members {
		switch r := s.Report(m.ID); {
		case !s.Vouches(m):
			missing = append(missing, fmt.Sprintf("%s %s", message.Member(m), s.Silence(m)))
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
			if s.Report(m.ID) == nil && s.Lost(m) == "" {
				return waitFor(s.Doubt.Reason, "%s; it is rebuilt once everybody of view %d, in which the members "+
					"change, tells what it holds, "+
					"or is lost; missing: %s", s.Doubt.Message, v.Epoch, message.List(missing))
			}
		}
	}
	if err != nil || !known || rebuilt.Epoch != v.Epoch {
		return waitFor(s.Doubt.Reason, "%s; it is rebuilt once %d of the %d members of view %d tell what their disks "+
			"hold, and %d do; missing: %s", s.Doubt.Message, v.Majority(), v.Size(), v.Epoch, len(answered), message.List(missing))
	}
	return act(RebuildRecord{View: v, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion},
		message.Warning("RecordRebuilt", "RebuildRecord", fmt.Sprintf("%s; rebuilt it at epoch %d from what %d of %d "+
			"members hold",
			s.Doubt.Message, v.Epoch, len(answered), v.Size())))
}

// holderOfAnother is a member that holds another view of the same epoch, or nil.
func holderOfAnother(s *views.Views, v view.View) *world.Member {
	for i, m := range s.Members {
		if m.Report != nil && m.Report.View.Epoch == v.Epoch && m.Report.Digest != v.Digest() {
			return &s.Members[i]
		}
	}
	return nil
}

// keepRecordMetadata writes the record's owner and labels anew where they are not as they should be. By its owner the
// record is deleted with the resource or outlives it, as spec.storage.retention says; by its labels it is found.
func keepRecordMetadata(s *views.Views) *Outcome {
	if !s.Record.Astray {
		return nil
	}
	return act(KeepRecordMetadata{View: s.Record.View, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion})
}

// sendView gives the recorded view to the members that hold an older one or none. Of a plain view that did not take
// hold nothing else happens until it does; a joint one may be abandoned before.
func sendView(s *views.Views) *Outcome {
	var old []view.MemberID
	for _, m := range s.View.Members {
		if r := s.Report(m.ID); r != nil && r.View.Epoch < s.View.Epoch {
			old = append(old, m.ID)
		}
	}
	if len(old) > 0 {
		return act(SendView{View: s.View, Members: old})
	}
	if s.Committed() || s.View.Joint() {
		return nil
	}
	if s.QuorumGone() {
		return blockWithoutQuorum(s)
	}
	return waitFor("ViewNotConfirmed", "View %d counts once %d members say that they hold it, and %d do; missing: %s",
		s.View.Epoch, s.View.Majority(), s.View.Size()-len(s.Lacking()), message.List(s.Lacking()))
}
