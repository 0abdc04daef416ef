package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// assignPartitions records the next view with other masters, backups and witnesses of partitions. What it waits for
// keeps nothing else from being done: to replace a member that is lost may be what it waits for.
func assignPartitions(s *views.Views) *Outcome {
	d := s.Decision()
	if !d.Changed() {
		return nil
	}
	reason := strings.Join(d.Changes, "; ")
	kind := "MovingPartitions"
	if len(d.Next.Partitions) > len(s.View.Partitions) {
		kind = "SplittingShards"
	}
	if s.View.Joint() != d.Next.Joint() {
		kind = "FinishingChange"
	}
	return act(changeView(s, d.Next, kind, fmt.Sprintf("View %d: %s", d.Next.Epoch, reason)), newsOf(s, d)...)
}

// awaitPartitions waits for partitions that are to be split, moved or made whole, when there is nothing else to do.
func awaitPartitions(s *views.Views) *Outcome {
	waits := s.Decision().Waits
	if o := splitting(s, waits); o != nil {
		return o
	}
	if len(waits) > 0 {
		return waitFor("PartitionsWait", "%s", message.Sentence(message.List(waits)))
	}
	return nil
}

// splitting says which shard is split off next, and what that waits for, where there are fewer than asked for; or is
// nil.
func splitting(s *views.Views, waits []string) *Outcome {
	if !s.Partitioned() || s.Doubt != nil {
		return nil
	}
	parent, count := s.View.NextSplit()
	asked := s.Cluster.Spec.ShardCount()
	switch {
	case count > asked:
		return waitFor("ShardsCannotShrink", "There are %d shards, and spec.shards asks for %d: they are split, and never merged; set it to %[1]d", count, asked)
	case count == asked:
		return nil
	}
	next := fmt.Sprintf("There are %d of %d shards; shard %[1]d is to be split off shard %[3]d", count, asked, parent)
	if len(waits) > 0 {
		next += ", and that waits: " + message.List(waits)
	}
	return waitFor("SplittingShards", "%s", next)
}

// newsOf are the events of a next view: one for each kind of change.
func newsOf(s *views.Views, d membership.Decision) (events []message.Event) {
	type kind struct {
		reason  string
		warning bool
	}
	var kinds []kind
	lines := map[kind][]string{}
	note := func(k kind, line string) {
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		lines[k] = append(lines[k], line)
	}
	snapshot, changes := s.MembershipSnapshot(), d.Changes
	split := -1
	if len(d.Next.Partitions) > len(s.View.Partitions) {
		split, _ = s.View.NextSplit()
	}
	lost := func(before, after []view.MemberID) bool {
		return slices.ContainsFunc(before, func(id view.MemberID) bool { return !slices.Contains(after, id) && snapshot.Suspected(id) })
	}
	for i, p := range s.View.Partitions {
		next := d.Next.Partitions[i]
		if len(changes) == 0 || !strings.HasPrefix(changes[0], fmt.Sprintf("partition %d: ", i)) {
			continue
		}
		line := changes[0]
		changes = changes[1:]
		switch {
		case i == split:
			note(kind{"ShardSplit", false}, line)
		case next.Master != p.Master && strings.Contains(line, "hands over"):
			note(kind{"MasterHandedOver", false}, line)
		case next.Master != p.Master:
			note(kind{"MasterReplaced", true}, line)
		case next.Term == p.Term:
			note(kind{"MasterRecovered", false}, line)
		case lost(p.Backups, next.Backups):
			note(kind{"BackupReplaced", true}, line)
		case lost(p.Witnesses, next.Witnesses):
			note(kind{"WitnessReplaced", true}, line)
		default:
			note(kind{"PartitionMoved", false}, line)
		}
	}
	for _, line := range changes { // of the change of members
		note(kind{"MembersChanged", false}, line)
	}
	for _, k := range kinds {
		text := fmt.Sprintf("View %d: %s", d.Next.Epoch, message.List(lines[k]))
		if k.warning {
			events = append(events, message.Warning(k.reason, "ChangeView", text))
		} else {
			events = append(events, message.Normal(k.reason, "ChangeView", text))
		}
	}
	return events
}
