package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

func numbers(ids []view.MemberID) (all []int32) {
	for _, id := range ids {
		all = append(all, int32(id))
	}
	return all
}

// fastPathStep is by how much the share of updates on the fast path has to differ for the status to be written.
const fastPathStep = 10

// partitionProblems are what is less than asked for, partition by partition.
func (s *Projection) partitionProblems() (all []message.Cause) {
	if !s.Partitioned() {
		return nil
	}
	for i := range s.View.Partitions {
		if why := s.Lack(i); why != "" {
			reason := "PartitionDegraded"
			if !s.Served(i) {
				reason = "PartitionNotServed"
			}
			all = append(all, message.Cause{Reason: reason, Message: fmt.Sprintf("Partition %d: %s", i, why)})
		}
	}
	return all
}

// partitionsServing is the condition of that name.
func (s *Projection) partitionsServing() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return message.Condition(v1alpha1.ConditionPartitionsServing, status, reason, format, args...)
	}
	if s.Doubt != nil {
		return say(metav1.ConditionUnknown, s.Doubt.Reason, "%s", s.Doubt.Message)
	}
	problems := s.partitionProblems()
	if len(problems) == 0 {
		return say(metav1.ConditionTrue, "EveryoneServed", "Each of %d shards has a master that serves, with %d "+
			"backups and %d witnesses",
			len(s.View.Partitions), s.Faults(), s.Faults())
	}
	slices.SortStableFunc(problems, func(a, b message.Cause) int {
		return facts.Rank(a.Reason == "PartitionNotServed") - facts.Rank(b.Reason == "PartitionNotServed")
	})
	return say(metav1.ConditionFalse, problems[0].Reason, "%s",
		message.List(append(message.Of(problems), s.Decision().Waits...)))
}

// unserved names the partitions that no one serves.
func (s *Projection) unserved() (all []string) {
	if !s.Partitioned() {
		return nil
	}
	for i := range s.View.Partitions {
		if !s.Served(i) {
			all = append(all, fmt.Sprintf("partition %d: %s", i, s.Lack(i)))
		}
	}
	return all
}

// projectPartitions says who keeps each shard. What changes all the time is written with what does not.
func (s *Projection) projectPartitions(out *v1alpha1.GeoRegisterClusterStatus) {
	if !s.Partitioned() {
		return
	}
	for i, p := range s.View.Partitions {
		now := v1alpha1.PartitionStatus{
			Number: int32(i), Term: int64(p.Term), Master: int64(p.Master), Backups: numbers(p.Backups),
			Witnesses: numbers(p.Witnesses), Serving: s.Served(i), Message: s.Lack(i), FastPathPercent: s.fastPath(i),
		}
		if part := s.Part(i); part != nil {
			unsynced := int64(part.Unsynced)
			now.Unsynced = &unsynced
		}
		out.Partitions = append(out.Partitions, s.steady(now))
	}
}

// steady is a partition's status with what it said before of what changes all the time, unless something else changed.
func (s *Projection) steady(now v1alpha1.PartitionStatus) v1alpha1.PartitionStatus {
	for _, before := range s.Cluster.Status.Partitions {
		if before.Number != now.Number {
			continue
		}
		if a, b := before.FastPathPercent, now.FastPathPercent; a != nil && b != nil &&
			max(*a-*b, *b-*a) < fastPathStep {
			now.FastPathPercent = a
		}
		same := now
		same.Unsynced = before.Unsynced
		if (before.Unsynced == nil) == (now.Unsynced == nil) && equality.Semantic.DeepEqual(same, before) {
			return same
		}
	}
	return now
}

// fastPath is the share of a partition's updates that took one round trip, as all members count them, or nil.
func (s *Projection) fastPath(number int) *int32 {
	var fast, all uint64
	for _, m := range s.View.Members {
		if r := s.Report(m.ID); r != nil && number < len(r.Partitions) {
			fast += r.Partitions[number].Fast
			all += r.Partitions[number].Fast + r.Partitions[number].Slow
		}
	}
	if all == 0 {
		return nil
	}
	percent := int32(fast * 100 / all)
	return &percent
}

// diskProblems are the members and witnesses that serve no partition, since they are not on the disk that the view
// names, or say nothing. A member and its witness are replaced together, which takes their volume.
func (s *Projection) diskProblems(members []view.Member) (all []message.Cause) {
	if !s.Partitioned() {
		return nil
	}
	const replace = "what it held is gone, and it serves no shard; to have both replaced, delete the member's claim " +
		"and pod"
	for _, m := range members {
		seen := s.Member(m.ID)
		if seen == nil || seen.Report == nil {
			continue // which says enough
		}
		beside, known := s.View.Witness(membership.WitnessOf(m.ID))
		known = known && beside.Beside == m.ID
		switch {
		case s.Votes(m.ID) && seen.Report.Disk != "" && seen.Report.Disk != m.Disk:
			all = append(all, message.Cause{Reason: "DiskReplaced", Message: fmt.Sprintf("%s has another disk than "+
				"the view names: %s", message.Sentence(message.Member(m)), replace)})
		case known && seen.Witness == nil:
			all = append(all, message.Cause{Reason: "WitnessDown", Message: fmt.Sprintf("The witness beside %s %s",
				message.Member(m), s.BesideSilence(m))})
		case known && seen.Witness.Disk != beside.Disk:
			all = append(all, message.Cause{Reason: "DiskReplaced", Message: fmt.Sprintf("The witness beside %s has "+
				"another disk than the view names: %s", message.Member(m), replace)})
		}
	}
	return all
}

// witnessProblems are the dedicated witnesses that don't serve as they should.
func (s *Projection) witnessProblems() (all []message.Cause) {
	for _, w := range s.DedicatedWitnesses() {
		add := func(reason, what string) {
			all = append(all, message.Cause{Reason: reason, Message: message.Sentence(message.Witness(w)) + " " + what})
		}
		if slices.Contains(s.Retiring(), w.ID) {
			continue
		}
		if why := s.WitnessLost(w); why != "" {
			add("WitnessLost", why+"; another one is to take its place")
		} else if why := s.WitnessState(w); why != "" {
			add("WitnessDown", why)
		}
	}
	return all
}
