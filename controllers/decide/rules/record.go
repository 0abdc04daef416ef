package rules

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/view"
)

// rebuildRecord writes a record that is missing, damaged or behind, from what the members hold (membership.Rebuild). A
// cluster that may hold data is never founded again.
func rebuildRecord(s *views.Views) *Outcome {
	if s.Doubt == nil || s.Doubt.Reason == "ViewsDiffer" || s.Doubt.Reason == message.NameTaken {
		return nil
	}
	d := s.Rebuilt()
	v, told := d.View, d.View.Size()-len(d.Missing)
	missing := message.List(facts.Say(facts.Where(v.Members, func(m view.Member) bool {
		return slices.Contains(d.Missing, m.ID)
	}), s.Silence))
	switch {
	case v.Epoch == 0:
		return waitFor(s.Doubt.Reason, "%s; it is rebuilt from what the members hold, and none tells a view: %s",
			s.Doubt.Message, message.List(facts.Say(s.MembersToKeep(), s.Silence)))
	case d.Err != nil:
		return waitFor("ViewsDiffer", "%s; it can't be rebuilt: %s", s.Doubt.Message, d.Err)
	case !d.Known && v.Joint():
		return waitFor(s.Doubt.Reason, "%s; it is rebuilt once everybody of view %d, in which the members change, "+
			"tells what it holds, or is lost; missing: %s", s.Doubt.Message, v.Epoch, missing)
	case !d.Known:
		return waitFor(s.Doubt.Reason, "%s; it is rebuilt once %d of the %d members of view %d tell what their disks "+
			"hold, and %d do; missing: %s", s.Doubt.Message, v.Majority(), v.Size(), v.Epoch, told, missing)
	}
	return act(writeRecord(s, v, "RebuildingRecord", "Rebuilds the record of view %d from what the members hold", v.Epoch),
		message.Warning("RecordRebuilt", "RebuildRecord", fmt.Sprintf("%s; rebuilt it at epoch %d from what %d of %d "+
			"members hold", s.Doubt.Message, v.Epoch, told, v.Size())))
}

// keepRecordMetadata writes the record's owner and labels anew where they are not as they should be. By its owner the
// record is deleted with the resource or outlives it, as spec.storage.retention says; by its labels it is found.
func keepRecordMetadata(s *views.Views) *Outcome {
	if !s.Record.Astray {
		return nil
	}
	return act(writeRecord(s, s.Record.View, "KeepingRecord", "Gives the record of the view the labels and the owner "+
		"that it should have"))
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
