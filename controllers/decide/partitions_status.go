package decide

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// fastPathStep is by how much the share of updates on the fast path has to differ for the status to be written.
const fastPathStep = 10

// part is what the master of a partition says of it, in the term of the view, or nil.
func (s *situation) part(number int) *world.Part {
	p := s.view.Partitions[number]
	r := s.report(p.Master)
	if r == nil || number >= len(r.Partitions) || r.Partitions[number].Term != p.Term || !s.holds(p.Master) {
		return nil
	}
	return &r.Partitions[number]
}

// served reports whether the master of a partition says that it serves clients.
func (s *situation) served(number int) bool {
	part := s.part(number)
	return part != nil && part.Serving
}

// lack says what a partition lacks, or is empty.
func (s *situation) lack(number int) string {
	p, faults := s.view.Partitions[number], s.faults()
	switch part := s.part(number); {
	case part == nil:
		i := s.view.Index(p.Master)
		return fmt.Sprintf("its master, %s, %s", name(s.view.Members[i]), s.silence(s.view.Members[i]))
	case part.Lost:
		return fmt.Sprintf("its master, member %d, lost what it held", p.Master)
	case !part.Serving && part.Waits != "":
		return fmt.Sprintf("its master, member %d, does not serve yet: %s", p.Master, part.Waits)
	case !part.Serving:
		return fmt.Sprintf("its master, member %d, does not serve yet", p.Master)
	case len(p.Formers) > 0:
		return fmt.Sprintf("member %d recovered it, and that is to be recorded", p.Master)
	case len(s.silent(p.Backups)) > 0:
		return fmt.Sprintf("its backups %s are not heard: what has to be synced waits for them, or for others in their place", join(s.silent(p.Backups)))
	case len(p.Backups) < faults || len(p.Witnesses) < faults:
		return fmt.Sprintf("it has %d backups and %d witnesses, and should have %d of each", len(p.Backups), len(p.Witnesses), faults)
	}
	return ""
}

// silent are those whom a quorum of members does not hear.
func (s *situation) silent(ids []view.MemberID) []view.MemberID {
	snapshot := s.managed()
	return slices.DeleteFunc(slices.Clone(ids), func(id view.MemberID) bool { return !snapshot.Suspected(id) })
}

func join(ids []view.MemberID) (text string) {
	for i, id := range ids {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(id)
	}
	return text
}

// partitionProblems are what is less than asked for, partition by partition.
func (s *situation) partitionProblems() (all []cause) {
	if !s.partitioned() {
		return nil
	}
	for i := range s.view.Partitions {
		if why := s.lack(i); why != "" {
			reason := "PartitionDegraded"
			if !s.served(i) {
				reason = "PartitionNotServed"
			}
			all = append(all, cause{reason, fmt.Sprintf("Partition %d: %s", i, why)})
		}
	}
	return all
}

// diskProblems are the members and witnesses that serve no partition, since they are not on the disk that the view
// names, or say nothing. A member and its witness are replaced together, which takes their volume.
func (s *situation) diskProblems(members []view.Member) (all []cause) {
	if !s.partitioned() {
		return nil
	}
	const replace = "what it held is gone, and it serves no shard; to have both replaced, delete the member's claim and pod"
	for _, m := range members {
		seen := s.Member(m.ID)
		if seen == nil || seen.Report == nil {
			continue // which says enough
		}
		beside, known := s.view.Witness(membership.WitnessOf(m.ID))
		known = known && beside.Beside == m.ID
		switch {
		case s.serves(m.ID) && seen.Report.Disk != "" && seen.Report.Disk != m.Disk:
			all = append(all, cause{"DiskReplaced", fmt.Sprintf("%s has another disk than the view names: %s", sentence(name(m)), replace)})
		case known && seen.Witness == nil:
			all = append(all, cause{"WitnessDown", fmt.Sprintf("The witness beside %s %s", name(m), s.witnessSilence(m))})
		case known && seen.Witness.Disk != beside.Disk:
			all = append(all, cause{"DiskReplaced", fmt.Sprintf("The witness beside %s has another disk than the view names: %s", name(m), replace)})
		}
	}
	return all
}

// partitionsServing is the condition of that name.
func (s *situation) partitionsServing() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionPartitionsServing, status, reason, format, args...)
	}
	if s.doubt != nil {
		return say(metav1.ConditionUnknown, s.doubt.reason, "%s", s.doubt.message)
	}
	problems := s.partitionProblems()
	if len(problems) == 0 {
		return say(metav1.ConditionTrue, "EveryoneServed", "Each of %d shards has a master that serves, with %d backups and %d witnesses",
			len(s.view.Partitions), s.faults(), s.faults())
	}
	slices.SortStableFunc(problems, func(a, b cause) int {
		return rank(a.reason == "PartitionNotServed") - rank(b.reason == "PartitionNotServed")
	})
	var all []string
	for _, p := range problems {
		all = append(all, p.message)
	}
	all = append(all, s.keeping().Waits...)
	return say(metav1.ConditionFalse, problems[0].reason, "%s", list(all))
}

// unserved names the partitions that nobody serves.
func (s *situation) unserved() (all []string) {
	if !s.partitioned() {
		return nil
	}
	for i := range s.view.Partitions {
		if !s.served(i) {
			all = append(all, fmt.Sprintf("partition %d: %s", i, s.lack(i)))
		}
	}
	return all
}

// projectPartitions says who keeps each shard. What changes all the time is written with what does not.
func (s *situation) projectPartitions(out *v1alpha1.GeoRegisterClusterStatus) {
	if !s.Cluster.Spec.Partitioned() {
		return
	}
	if s.view.Epoch == 0 {
		return
	}
	for i, p := range s.view.Partitions {
		now := v1alpha1.PartitionStatus{
			Number: int32(i), Term: int64(p.Term), Master: int64(p.Master), Backups: numbers(p.Backups),
			Witnesses: numbers(p.Witnesses), Serving: s.served(i), Message: s.lack(i), FastPathPercent: s.fastPath(i),
		}
		if part := s.part(i); part != nil {
			unsynced := int64(part.Unsynced)
			now.Unsynced = &unsynced
		}
		out.Partitions = append(out.Partitions, s.steady(now))
	}
}

// steady is a partition's status with what it said before of what changes all the time, unless something else changed.
func (s *situation) steady(now v1alpha1.PartitionStatus) v1alpha1.PartitionStatus {
	for _, before := range s.Cluster.Status.Partitions {
		if before.Number != now.Number {
			continue
		}
		if a, b := before.FastPathPercent, now.FastPathPercent; a != nil && b != nil && max(*a-*b, *b-*a) < fastPathStep {
			now.FastPathPercent = a
		}
		same := now
		same.Unsynced = before.Unsynced
		if (before.Unsynced == nil) == (now.Unsynced == nil) && equal(same, before) {
			return same
		}
	}
	return now
}

func equal(a, b v1alpha1.PartitionStatus) bool {
	number := func(n *int32) int32 {
		if n == nil {
			return -1
		}
		return *n
	}
	return a.Term == b.Term && a.Master == b.Master && a.Serving == b.Serving && a.Message == b.Message &&
		slices.Equal(a.Backups, b.Backups) && slices.Equal(a.Witnesses, b.Witnesses) &&
		number(a.FastPathPercent) == number(b.FastPathPercent)
}

// fastPath is the share of a partition's updates that took one round trip, as all members count them, or nil.
func (s *situation) fastPath(number int) *int32 {
	var fast, all uint64
	for _, m := range s.view.Members {
		if r := s.report(m.ID); r != nil && number < len(r.Partitions) {
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
