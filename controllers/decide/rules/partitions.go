package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/membership"
)

// assignPartitions records the next view with other masters, backups and witnesses of partitions. What it waits for
// keeps nothing else from being done: to replace a member that is lost may be what it waits for.
func assignPartitions(s *views.Views) *Outcome {
	d := s.Decision()
	if !d.Changed() {
		return nil
	}
	kind := "MovingPartitions"
	if len(d.Next.Partitions) > len(s.View.Partitions) {
		kind = "SplittingShards"
	}
	if s.View.Joint() != d.Next.Joint() {
		kind = "FinishingChange"
	}
	return act(writeRecord(s, d.Next, kind, "View %d: %s", d.Next.Epoch, strings.Join(d.Lines(), "; ")),
		newsOf(d)...)
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
		return waitFor("ShardsCannotShrink", "There are %d shards, and spec.shards asks for %d: they are split, and "+
			"never merged; set it to %[1]d", count, asked)
	case count == asked:
		return nil
	}
	next := fmt.Sprintf("There are %d of %d shards; shard %[1]d is to be split off shard %[3]d", count, asked, parent)
	if len(waits) > 0 {
		next += ", and that waits: " + message.List(waits)
	}
	return waitFor("SplittingShards", "%s", next)
}

// refuseOtherShards says that spec.shards asks for another number of shards than the members' disks are made for: it
// was removed and given again, or volumes were taken up that another resource had left.
func refuseOtherShards(s *views.Views) *Outcome {
	founded, asked := s.View.FoundedPartitions(), s.Cluster.Spec.Shards
	if s.Cluster.Spec.Partitioned() || s.Doubt != nil || asked == nil || founded == 0 || founded == int(*asked) {
		return nil
	}
	return waitFor("ShardsCannotChange", "There are %d shards, and spec.shards asks for %d: the disks of members are "+
		"made for as many as there were at first; set it to %[1]d, or remove it", founded, *asked)
}

// partitionNews are the reasons of events about changes of partitions. Those of members and witnesses have one of their
// own.
var partitionNews = map[membership.Kind]string{
	membership.PartitionSplit:   "ShardSplit",
	membership.MasterHandedOver: "MasterHandedOver",
	membership.MasterReplaced:   "MasterReplaced",
	membership.MasterRecovered:  "MasterRecovered",
	membership.BackupReplaced:   "BackupReplaced",
	membership.WitnessReplaced:  "WitnessReplaced",
	membership.PartitionMoved:   "PartitionMoved",
}

// newsOf are the events of a next view: one for each kind of change.
func newsOf(d membership.Decision) (events []message.Event) {
	var reasons []string
	lines := map[string][]string{}
	for _, change := range d.Changes {
		reason := cmp.Or(partitionNews[change.Kind], "MembersChanged")
		if lines[reason] == nil {
			reasons = append(reasons, reason)
		}
		lines[reason] = append(lines[reason], change.String())
	}
	for _, reason := range reasons {
		event := message.Normal
		if slices.Contains([]string{"MasterReplaced", "BackupReplaced", "WitnessReplaced"}, reason) {
			event = message.Warning
		}
		text := fmt.Sprintf("View %d: %s", d.Next.Epoch, message.List(lines[reason]))
		events = append(events, event(reason, "ChangeView", text))
	}
	return events
}
