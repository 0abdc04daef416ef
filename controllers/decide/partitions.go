package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Where shards have masters, a master that is lost stops its shard until somebody decides on another one. So members
// are asked more often than others: by this, at rest, a loss is noticed within two seconds.
const (
	partitionedSoon = time.Second
	partitionedLate = 2 * time.Second
)

// partitioned reports whether shards have masters, backups and witnesses, and the view names them.
func (s *situation) partitioned() bool {
	return s.Cluster.Spec.Partitioned() && len(s.view.Partitions) > 0
}

// keeping decides on who keeps each shard, and in a joint view on its end: the step to the next view, if there is one,
// and what can't be done yet.
func (s *situation) keeping() membership.Decision {
	if s.decision == nil {
		d := s.decideOnPartitions()
		s.decision = &d
	}
	return *s.decision
}

func (s *situation) decideOnPartitions() (d membership.Decision) {
	if !s.partitioned() || s.doubt != nil {
		return d
	}
	return membership.Decide(s.managed())
}

// managed is the snapshot as the package membership wants it. Its lists are shared.
func (s *situation) managed() membership.Snapshot {
	if s.asManaged == nil {
		to := s.manage()
		s.asManaged = &to
	}
	return *s.asManaged
}

func (s *situation) manage() membership.Snapshot {
	to := membership.Snapshot{View: s.view, Standings: s.standings(), Fragments: s.Cluster.Spec.Fragments()}
	if s.view.Joint() {
		to.Unwanted = s.notWanted() != ""
		for _, m := range s.view.Members {
			switch {
			case s.hopeless(m) != "":
				to.Hopeless = append(to.Hopeless, m.ID)
			case s.givenUp(m) != "":
				to.Lost = append(to.Lost, m.ID)
			}
		}
	}
	if s.partitioned() {
		s.addPartitions(&to)
	}
	return to
}

// addPartitions adds to a snapshot what decisions on partitions are made from.
func (s *situation) addPartitions(to *membership.Snapshot) {
	to.Abandon = s.view.Joint() && to.Pointless(false) != membership.NoCause
	to.Placement = s.placement(s.Cluster.Spec.ShardCount(), s.faultsOf(to.Abandon))
	for _, m := range s.Members {
		if r := m.Report; r != nil && r.ClusterID == s.ClusterID {
			to.Members = append(to.Members, wordOf(m.ID, r))
		}
		if m.Witness == nil {
			continue
		}
		to.Witnesses = append(to.Witnesses, *m.Witness)
		if i := s.view.Index(m.ID); i >= 0 {
			to.Named = append(to.Named, s.witness(s.view.Members[i]))
		}
	}
	for _, w := range s.Witnesses {
		if w.Witness != nil {
			to.Witnesses = append(to.Witnesses, *w.Witness)
		}
	}
	to.Named, to.Retiring = append(to.Named, s.namedWitnesses()...), s.retiring()
	if m, drained := s.drained(); drained {
		to.Drained = []view.MemberID{m.ID}
	}
}

// wordOf is what a member said, as the manager of partitions wants it.
func wordOf(id view.MemberID, r *world.Report) membership.MemberReport {
	said := membership.MemberReport{Member: id, Disk: r.Disk, Digest: r.Digest, Epoch: r.View.Epoch}
	for _, p := range slices.Concat(r.Peers, r.Witnesses) {
		if p.Reachable {
			said.Hears = append(said.Hears, p.ID)
		}
	}
	for _, p := range r.Partitions {
		said.Partitions = append(said.Partitions, p.Part)
	}
	return said
}

// faults is how many losses a partition can survive with the members that there are: at most what the manifest asks
// for.
func (s *situation) faults() int { return s.faultsOf(s.managed().Abandon) }

func (s *situation) faultsOf(abandoned bool) int {
	most := membership.Faults(s.view, abandoned)
	if asked := s.Cluster.Spec.FaultTolerance; asked != nil {
		most = min(most, int(*asked))
	}
	return most
}

// placement is how so many partitions are to be kept: as the manifest says, and apart by zones where these are known.
// There may be more than the manifest asks for, if another resource took them up: none goes away.
func (s *situation) placement(partitions, faults int) membership.Placement {
	p := membership.Placement{
		Partitions: max(partitions, len(s.view.Partitions)), Faults: faults, Dedicated: s.dedicated(), Domains: map[view.MemberID]string{},
	}
	for i := range p.Partitions {
		p.Homes = append(p.Homes, s.Cluster.Spec.Home(i))
	}
	for _, m := range s.everybody() {
		if zone := s.zone(m.ID); zone != "" {
			p.Domains[m.ID] = "zone " + zone
		}
	}
	return p
}

// zone is where the pod of a member, or of a dedicated witness, runs, or empty.
func (s *situation) zone(id view.MemberID) string {
	pod := s.pod(id)
	if w := s.seenWitness(id); w != nil {
		pod = w.Pod
	}
	if pod != nil && s.ZonesKnown {
		return s.Zones[pod.Spec.NodeName].Name
	}
	return ""
}

// witness is the one beside a member, as a view enters it; without a disk while that is not known.
func (s *situation) witness(m view.Member) view.Witness {
	w := view.Witness{ID: membership.WitnessOf(m.ID), Site: m.Site, Address: build.WitnessAddress(s.Cluster, s.Settings, m), Beside: m.ID}
	if seen := s.Member(m.ID); seen != nil && seen.Witness != nil {
		w.Disk = seen.Witness.Disk
	}
	return w
}

// witnessSilence says what the witness beside a member lacks to be entered, to be read after its name, or is empty.
func (s *situation) witnessSilence(m view.Member) string {
	seen := s.Member(m.ID)
	switch {
	case s.dedicated() || s.witness(m).Disk != "": // there is none
		return ""
	case seen == nil || seen.WitnessSilence == "":
		return "has not named its disk yet"
	}
	return "does not answer: " + seen.WitnessSilence
}

// place gives the first view of a cluster its partitions, once all witnesses named their disks.
func (s *situation) place(first view.View) (view.View, error) {
	all := slices.Clone(s.coming)
	for _, m := range first.Members {
		if !s.dedicated() {
			all = append(all, s.witness(m))
		}
	}
	return membership.Place(first, all, s.placement(s.input().Founded(), s.Cluster.Spec.Faults()))
}

// drained is the member that hands over what it is master or backup of, since its pod is about to end or ends already:
// that of a former spec, or one whose node is to be emptied. One at a time, and as long as it takes the same one: the
// others need somebody to hand over to.
func (s *situation) drained() (view.Member, bool) {
	if s.view.Joint() || s.Cluster.Spec.Paused {
		return view.Member{}, false
	}
	var leaving []view.Member
	for _, m := range s.view.Members {
		if pod := s.pod(m.ID); pod != nil && pod.DeletionTimestamp != nil {
			leaving = append(leaving, m)
		}
	}
	if len(leaving) > 0 {
		return s.fewestParts(leaving), true
	}
	if m, found := s.nextToUpdate(); found {
		return m, !s.goesFirst()
	}
	for _, m := range s.view.Members {
		if pod := s.pod(m.ID); pod != nil && s.Zones[pod.Spec.NodeName].Closed {
			leaving = append(leaving, m)
		}
	}
	if len(leaving) == 0 {
		return view.Member{}, false
	}
	return s.fewestParts(leaving), true
}

// fewestParts is, of some members, the one with the fewest roles: who has begun to hand over goes on.
func (s *situation) fewestParts(of []view.Member) (best view.Member) {
	for i, m := range of {
		if i == 0 || len(s.roles(m.ID)) < len(s.roles(best.ID)) {
			best = m
		}
	}
	return best
}

// roles are the partitions that a member is master or backup of.
func (s *situation) roles(id view.MemberID) (numbers []int) {
	for i, p := range s.view.Partitions {
		if p.Master == id || slices.Contains(p.Backups, id) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// assignPartitions records the next view with other masters, backups and witnesses of partitions. What it waits for
// keeps nothing else from being done: to replace a member that is lost may be what it waits for.
func assignPartitions(s *situation) *outcome {
	d := s.keeping()
	if !d.Changed() {
		return nil
	}
	reason := strings.Join(d.Changes, "; ")
	kind := "MovingPartitions"
	if len(d.Next.Partitions) > len(s.view.Partitions) {
		kind = "SplittingShards"
	}
	if s.view.Joint() != d.Next.Joint() {
		kind = "FinishingChange"
	}
	return act(s.record(d.Next, kind, fmt.Sprintf("View %d: %s", d.Next.Epoch, reason)), s.newsOf(d)...)
}

// awaitPartitions waits for partitions that are to be split, moved or made whole, when there is nothing else to do.
func awaitPartitions(s *situation) *outcome {
	waits := s.keeping().Waits
	if o := s.splitting(waits); o != nil {
		return o
	}
	if len(waits) > 0 {
		return waitFor("PartitionsWait", "%s", sentence(list(waits)))
	}
	return nil
}

// splitting says which shard is split off next, and what that waits for, where there are fewer than asked for; or is
// nil.
func (s *situation) splitting(waits []string) *outcome {
	if !s.partitioned() || s.doubt != nil {
		return nil
	}
	parent, count := s.view.NextSplit()
	asked := s.Cluster.Spec.ShardCount()
	switch {
	case count > asked:
		return waitFor("ShardsCannotShrink", "There are %d shards, and spec.shards asks for %d: they are split, and never merged; set it to %[1]d", count, asked)
	case count == asked:
		return nil
	}
	next := fmt.Sprintf("There are %d of %d shards; shard %[1]d is to be split off shard %[3]d", count, asked, parent)
	if len(waits) > 0 {
		next += ", and that waits: " + list(waits)
	}
	return waitFor("SplittingShards", "%s", next)
}

// newsOf are the events of a next view: one for each kind of change.
func (s *situation) newsOf(d membership.Decision) (events []Event) {
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
	snapshot, changes := s.managed(), d.Changes
	split := -1
	if len(d.Next.Partitions) > len(s.view.Partitions) {
		split, _ = s.view.NextSplit()
	}
	lost := func(before, after []view.MemberID) bool {
		return slices.ContainsFunc(before, func(id view.MemberID) bool { return !slices.Contains(after, id) && snapshot.Suspected(id) })
	}
	for i, p := range s.view.Partitions {
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
		message := fmt.Sprintf("View %d: %s", d.Next.Epoch, list(lines[k]))
		if k.warning {
			events = append(events, Warning(k.reason, "ChangeView", message))
		} else {
			events = append(events, Normal(k.reason, "ChangeView", message))
		}
	}
	return events
}

// lives are what witnesses are to be told of the recorded view.
func (s *situation) lives() (lives Lives) {
	if s.partitioned() && s.doubt == nil {
		lives.Start, lives.End = membership.Lives(s.managed())
	}
	return lives
}
