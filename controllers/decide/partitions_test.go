package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// clusterWithMasters is a cluster of a protocol with masters at rest: three members, 1, 3 and 5, of three sites, with witnesses 2,
// 4, 6. Partition i is 1 [3] w4, 3 [5] w6, 5 [1] w2.
func clusterWithMasters(t *testing.T) *world.Snapshot {
	t.Helper()
	s := healthy(3)
	s.Cluster.Spec.Protocol = "CURP"
	v := view.View{Cluster: "demo.1", Epoch: 1, Members: firstMembers(s.Cluster)}
	var witnesses []view.Witness
	for i := range v.Members {
		m := &v.Members[i]
		m.Disk = fmt.Sprintf("disk-%d", m.ID)
		witnesses = append(witnesses,
			view.Witness{ID: m.ID + 1, Site: m.Site, Address: build.WitnessAddress(s.Cluster, settings, *m),
				Disk: fmt.Sprintf("witness-%d", m.ID+1), Beside: m.ID})
	}
	v, err := membership.Place(v, witnesses, membership.Placement{Partitions: 3, Faults: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Members, s.Zones = nil, map[string]world.Zone{}
	hash := build.SpecHash(s.Cluster)
	for _, m := range v.Members {
		s.Zones["node-"+m.Site] = world.Zone{Name: "zone-" + m.Site}
		s.Members = append(s.Members, world.Member{ID: m.ID, Site: m.Site, StatefulSet: statefulSetOf(m, hash),
			Pod: podOf(m, hash, true, metav1.NewTime(epoch)), Volume: volumeOf(m)})
	}
	record(s, v)
	return s
}

// record has a view be recorded, held by every member that is there, and its lives kept.
func record(s *world.Snapshot, v view.View) {
	s.Record = world.Record{Exists: true, View: v, UID: "record", ResourceVersion: "1"}
	for i := range s.Members {
		if m := &s.Members[i]; m.Silence == "" {
			speak(s, m, v)
			m.Witness = &membership.WitnessReport{
				Witness: m.ID + 1, Disk: fmt.Sprintf("witness-%d", m.ID+1), Lives: livesOf(v, m.ID+1),
			}
		}
	}
}

// speak has a member say that all is well in a view that it holds.
func speak(s *world.Snapshot, m *world.Member, v view.View) {
	r := &world.Report{ClusterID: "demo.1", Role: world.Voter, View: v, Digest: v.Digest(),
		Disk: fmt.Sprintf("disk-%d", m.ID), Incarnation: 1, Version: "1", Quorum: true, Shards: 3, Voting: 3}
	for _, o := range s.Members {
		if o.ID != m.ID {
			r.Peers = append(r.Peers, world.Peer{ID: o.ID, Reachable: o.Silence == ""})
		}
		r.Witnesses = append(r.Witnesses, world.Peer{ID: o.ID + 1, Reachable: o.Silence == ""})
	}
	for _, p := range v.Partitions {
		part := world.Part{Part: membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}}
		if p.Master == m.ID {
			part.Serving, part.Recovered, part.CaughtUp = true, true, learners(s, v, p)
		}
		r.Partitions = append(r.Partitions, part)
	}
	m.Report = r
}

// learners are the members of a view that answer, and are neither master nor backup of a partition: they follow its
// master.
func learners(s *world.Snapshot, v view.View, p view.Partition) (all []view.MemberID) {
	for _, m := range v.Members {
		if seen := s.Member(m.ID); !p.Former().Has(m.ID) && seen != nil && seen.Silence == "" {
			all = append(all, m.ID)
		}
	}
	return all
}

// livesOf are those that a witness has in the terms of a view.
func livesOf(v view.View, witness view.MemberID) (lives []membership.Life) {
	for number, p := range v.Partitions {
		if slices.Contains(p.Witnesses, witness) {
			lives = append(lives, membership.Life{Witness: witness, Partition: number, Term: p.Term})
		}
	}
	return lives
}

// dead has a member and its witness say nothing, and the others say so.
func dead(s *world.Snapshot, id view.MemberID) {
	silent(s, id)
	s.Member(id).Witness, s.Member(id).WitnessSilence = nil, "connection refused"
	for _, m := range s.Members {
		if m.Report != nil {
			for i := range m.Report.Witnesses {
				m.Report.Witnesses[i].Reachable = m.Report.Witnesses[i].Reachable && m.Report.Witnesses[i].ID != id+1
			}
		}
	}
}

func parts(v view.View) string {
	var all []string
	for _, p := range v.Partitions {
		all = append(all, fmt.Sprintf("%d %v w%v <%d", p.Master, p.Backups, p.Witnesses, len(p.Formers)))
	}
	return strings.Join(all, "; ")
}

// The first view has the partitions, and is made once the witnesses too told their disks.
func TestPartitionsAreFounded(t *testing.T) {
	s := clusterWithMasters(t)
	empty(s)
	p := Next(*s)
	step, ok := written(p.Step, "Founding")
	if !ok || parts(step.View) != "1 [3] w[4] <0; 3 [5] w[6] <0; 5 [1] w[2] <0" || len(step.View.Witnesses) != 3 {
		t.Errorf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	s.Member(3).Witness = nil
	s.Member(3).WitnessSilence = "connection refused"
	p = Next(*s)
	says(t, p,
		"Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its disk "+
			"holds; missing: "+
			"the witness beside member 3 (site b) does not answer: connection refused")
	if p.Step != nil || p.Again != partitionedSoon {
		t.Errorf("step %+v, again in %v", p.Step, p.Again)
	}
}

func says(t *testing.T, p Plan, want string) {
	t.Helper()
	if all := strings.Join(summary(p), "\n"); !strings.Contains("\n"+all+"\n", "\n"+want+"\n") {
		t.Errorf("got\n%s\nwant\n%s", all, want)
	}
}

func TestPartitionsAreKept(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(*world.Snapshot)
		step      string
		partition string // of the next view, if there is one
		event     string // its type and reason
		condition string
	}{
		{"at rest", func(*world.Snapshot) {}, "", "", "",
			"PartitionsServing=True EveryoneServed: Each of 3 shards has a master that serves, with 1 backups and 1 " +
				"witnesses"},
		{"a master is silent", func(s *world.Snapshot) {
			dead(s, 1)
		}, "MovingPartitions 2 with 1 3 5", "3 [5] w[6] <1; 3 [5] w[6] <0; 5 [3] w[4] <1",
			"Warning MasterReplaced",
			"Available=False PartitionNotServed: The keys of some shards can't be read or written: partition 0: its " +
				"master, " +
				"member 1 (site a), does not answer: connection refused"},
		{"only the operator misses it", func(s *world.Snapshot) {
			s.Member(1).Report, s.Member(1).Silence = nil, "connection refused"
		}, "", "", "",
			"PartitionsServing=False PartitionNotServed: Partition 0: its master, member 1 (site a), does not " +
				"answer: connection refused"},
		{"a witness is lost", func(s *world.Snapshot) {
			for _, m := range s.Members {
				m.Report.Witnesses[1].Reachable = false
			}
		}, "MovingPartitions 2 with 1 3 5", "1 [3] w[6] <1; 3 [5] w[6] <0; 5 [1] w[2] <0", "Warning WitnessReplaced",
			"Progressing=True MovingPartitions: View 2: partition 0: its witnesses [4] become [6]"},
		{"a witness has another disk", func(s *world.Snapshot) {
			s.Member(3).Witness.Disk = "new"
		}, "MovingPartitions 2 with 1 3 5",
			"1 [3] w[6] <1; 3 [5] w[6] <0; 5 [1] w[2] <0", "Normal PartitionMoved",
			"Degraded=True DiskReplaced: The witness beside member 3 (site b) has another disk than the view names: " +
				"what it held is gone, and it " +
				"serves no shard; to have both replaced, delete the member's claim and pod"},
		{"a witness is silent to the operator alone", func(s *world.Snapshot) {
			s.Member(3).Witness, s.Member(3).WitnessSilence = nil, "connection refused"
		}, "", "", "",
			"Degraded=True WitnessDown: The witness beside member 3 (site b) does not answer: connection refused"},
		{"a backup has another disk", func(s *world.Snapshot) {
			s.Member(3).Report.Disk = "new"
		}, "MovingPartitions 2 with 1 3 5",
			"1 [5] w[4] <1; 5 [1] w[2] <1; 5 [1] w[2] <0", "Normal PartitionMoved",
			"Degraded=True DiskReplaced: Member 3 (site b) has another disk than the view names: what it held is " +
				"gone, and it serves no shard; to " +
				"have both replaced, delete the member's claim and pod"},
		{"a backup is silent", func(s *world.Snapshot) { dead(s, 3) }, "MovingPartitions 2 with 1 3 5",
			"1 [5] w[6] <1; 5 [1] w[2] <1; 5 [1] w[2] <0", "Warning BackupReplaced",
			"Progressing=True MovingPartitions: View 2: partition 0: its backups [3] become [5]; partition 1: its " +
				"master 3 is not heard by a quorum of " +
				"members; member 5 takes its place"},
		{"a backup is silent, and nobody else has its state", func(s *world.Snapshot) {
			dead(s, 3)
			s.Member(1).Report.Partitions[0].CaughtUp = nil
		}, "MovingPartitions 2 with 1 3 5", "1 [3] w[4] <0; 5 [1] w[2] <1; 5 [1] w[2] <0", "Warning MasterReplaced",
			"PartitionsServing=False PartitionNotServed: Partition 1: its master, member 3 (site b), does not " +
				"answer: connection refused; Partition 0: " +
				"its backups 3 are not heard: what has to be synced waits for them, or for others in their place; " +
				"partition 0: its backups [3] are not " +
				"all heard, or are cut off from its master 1, and nobody else has its whole state: wait for them, or " +
				"for a learner to copy it"},
		{"a master recovers", func(s *world.Snapshot) {
			v := s.Record.View
			v.Epoch = 2
			v.Partitions = slices.Clone(v.Partitions)
			v.Partitions[0].Term, v.Partitions[0].Formers = 2, []view.Former{v.Partitions[0].Former()}
			record(s, v)
			s.Member(1).Report.Partitions[0].Recovered, s.Member(1).Report.Partitions[0].Serving = false, false
			s.Member(1).Report.Partitions[0].Waits = "it asks witness 4"
		}, "", "", "", "Progressing=True PartitionsWait: Partition 0: member 1 recovers it"},
		{"and has", func(s *world.Snapshot) {
			v := s.Record.View
			v.Epoch = 2
			v.Partitions = slices.Clone(v.Partitions)
			v.Partitions[0].Term, v.Partitions[0].Formers = 2, []view.Former{v.Partitions[0].Former()}
			record(s, v)
		}, "MovingPartitions 3 with 1 3 5", "1 [3] w[4] <0; 3 [5] w[6] <0; 5 [1] w[2] <0", "Normal MasterRecovered",
			"Degraded=True PartitionDegraded: Partition 0: member 1 recovered it, and that is to be recorded"},
		{"the spec changed", func(s *world.Snapshot) { s.Cluster.Spec.Image = "new" }, "MovingPartitions 2 with 1 3 5",
			"1 [3] w[] <1; 3 [5] w[6] <0; 5 [3] w[2] <1", "Normal PartitionMoved",
			"Progressing=True MovingPartitions: View 2: partition 0: its witnesses [4] become []; partition 2: its " +
				"backups [1] become [3]"},
		{"who was told to hand over has, and restarts", func(s *world.Snapshot) {
			s.Cluster.Spec.Image = "new"
			handedOver(s)
			updatedSets(s)
		}, "evict 1", "", "Normal MemberRestarted",
			"Progressing=True RestartingMember: Restarts member 1: the spec changed"},
		{"who begins to hand over goes on, though another is behind", func(s *world.Snapshot) {
			s.Cluster.Spec.Image = "new"
			handedOver(s)
			updatedSets(s)
			s.Member(5).Report.Role = world.Learner
		}, "", "", "",
			"Progressing=True AnotherMemberDoesNotVote: Member 1 (site a) is to be restarted with the changed spec, " +
				"and waits: " +
				"member 5 (site c) takes a state transfer: 3 of 3 shards vote"},
		{"a node is to be emptied", func(s *world.Snapshot) {
			s.Zones["node-b"] = world.Zone{Name: "zone-b", Closed: true}
		}, "MovingPartitions 2 with 1 3 5", "1 [5] w[4] <1; 3 [5] w[] <1; 5 [1] w[2] <0", "Normal PartitionMoved",
			"Available=True Serving: 3 of 3 members serve clients"},
		{"a partition in one zone", func(s *world.Snapshot) {
			s.Zones["node-b"] = s.Zones["node-a"]
			v, one, two := s.Record.View, int32(1), int32(2)
			v.Members = slices.Clone(v.Members)
			s.Cluster.Spec.FaultTolerance, s.Cluster.Spec.Sites[2].Members = &one, &two
			s.Cluster.Spec.Sites = append(s.Cluster.Spec.Sites, v1alpha1.Site{Name: "d"})
			for i, site := range []string{"c", "d"} {
				m := view.Member{ID: view.MemberID(7 + 2*i), Site: site, Disk: fmt.Sprintf("disk-%d", 7+2*i)}
				v.Members = append(v.Members, m)
				s.Zones["node-"+site] = world.Zone{Name: "zone-" + site}
				s.Members = append(s.Members,
					world.Member{ID: m.ID, Site: site, StatefulSet: statefulSetOf(m, build.SpecHash(s.Cluster)),
						Pod: podOf(m, build.SpecHash(s.Cluster), true, metav1.NewTime(epoch)), Volume: volumeOf(m)})
			}
			record(s, v)
		}, "MovingPartitions 2 with 1 3 5 7 9", "1 [3] w[4] <0; 3 [5] w[6] <0; 5 [1] w[2] <0", "Normal MembersChanged",
			"ToleratesZoneLoss=False ZoneHoldsPartition: Without zone zone-a, partition 0 has no backup"},
		{"paused", func(s *world.Snapshot) { dead(s, 1); s.Cluster.Spec.Paused = true }, "", "", "",
			"Progressing=False Paused: Nothing is changed while spec.paused is set"},
		{"the view is not held", func(s *world.Snapshot) {
			v := s.Record.View
			v.Epoch = 2
			s.Record.View = v
			dead(s, 1)
		}, "tell 2 to [3 5]", "", "", "Progressing=True TellingView: Gives view 2 to the members that lack it: 3, 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clusterWithMasters(t)
			c.change(s)
			p := Next(*s)
			if got := line(p.Step); got != c.step {
				t.Errorf("step %q, want %q\n%s", got, c.step, strings.Join(summary(p), "\n"))
			}
			if step, ok := p.Step.(rules.WriteRecord); ok && parts(step.View) != c.partition {
				t.Errorf("next is %s, want %s", parts(step.View), c.partition)
			}
			event := ""
			if len(p.Events) > 0 {
				event = p.Events[0].Type + " " + p.Events[0].Reason
			}
			if event != c.event {
				t.Errorf("event %q, want %q", event, c.event)
			}
			says(t, p, c.condition)
		})
	}
}

// A member that is to restart leaves no partition with fewer backups than it had: where it is backup, one that has
// the state takes its place at once; where it is master, its backup becomes master after a term without witnesses.
func TestPartsAreHandedOver(t *testing.T) {
	s := clusterWithMasters(t)
	s.Cluster.Spec.Image = "new"
	updatedSets(s)
	var got []string
	for range 10 {
		p := Next(*s)
		step, ok := p.Step.(rules.WriteRecord)
		if !ok {
			got = append(got, line(p.Step))
			break
		}
		for i, q := range step.View.Partitions {
			if len(q.Backups) != 1 {
				t.Errorf("view %d: partition %d has the backups %v", step.View.Epoch, i, q.Backups)
			}
		}
		got = append(got, parts(step.View))
		record(s, step.View)
	}
	want := []string{
		"1 [3] w[] <1; 3 [5] w[6] <0; 5 [3] w[2] <1", "1 [3] w[] <0; 3 [5] w[6] <0; 5 [3] w[2] <0",
		"3 [5] w[6] <1; 3 [5] w[6] <0; 5 [3] w[2] <0",
		"3 [5] w[6] <0; 3 [5] w[6] <0; 5 [3] w[2] <0", "evict 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// handedOver has member 1 keep nothing but its witness.
func handedOver(s *world.Snapshot) {
	v := s.Record.View
	v.Epoch = 9
	v.Partitions = []view.Partition{
		{Term: 9, Master: 3, Backups: []view.MemberID{5}, Witnesses: []view.MemberID{6}},
		{Term: 9, Master: 3, Backups: []view.MemberID{5}, Witnesses: []view.MemberID{6}},
		{Term: 9, Master: 5, Backups: []view.MemberID{3}, Witnesses: []view.MemberID{4}},
	}
	record(s, v)
}

// updatedSets have the StatefulSets make pods of the present spec.
func updatedSets(s *world.Snapshot) {
	for i := range s.Members {
		s.Members[i].StatefulSet.Spec.Template.Annotations[build.SpecHashAnnotation] = build.SpecHash(s.Cluster)
	}
}

// Lives begin with a recorded view, whoever was told of it, and end when a quorum holds one that needs them no more.
func TestLivesFollowTheRecord(t *testing.T) {
	s := clusterWithMasters(t)
	if p := Next(*s); len(p.Lives.Start)+len(p.Lives.End) > 0 || p.Again != partitionedLate {
		t.Errorf("at rest: %+v, again in %v", p.Lives, p.Again)
	}
	v := s.Record.View
	v.Epoch = 2
	v.Partitions = slices.Clone(v.Partitions)
	v.Partitions[0].Term = 2
	s.Record.View = v
	old := membership.Life{Witness: 4, Partition: 0, Term: 1}
	begun := membership.Life{Witness: 4, Partition: 0, Term: 2}
	if p := Next(*s); !slices.Equal(p.Lives.Start, []membership.Life{begun}) || len(p.Lives.End) > 0 {
		t.Errorf("recorded: %+v", p.Lives)
	}
	record(s, v)
	s.Member(3).Witness.Lives = []membership.Life{old, begun}
	if p := Next(*s); len(p.Lives.Start) > 0 || !slices.Equal(p.Lives.End, []membership.Life{old}) {
		t.Errorf("held: %+v", p.Lives)
	}
}

// Members of clusters with masters come and go by joint views too; newcomers get odd ids, and come with their
// witnesses.
func TestMembersOfPartitionsChange(t *testing.T) {
	s := clusterWithMasters(t)
	shards := int32(3)
	s.Cluster.Spec.Shards = &shards
	s.Cluster.Spec.Sites = append(s.Cluster.Spec.Sites, v1alpha1.Site{Name: "d"}, v1alpha1.Site{Name: "e"})
	says(t, Next(*s),
		"Progressing=True StartingMembers: The members change: member 7 (site d) joins; member 9 (site e) joins; "+
			"newcomers are "+
			"started first, and these are missing: member 7 (site d) is not made yet; member 9 (site e) is not "+
			"made yet")
	newcomer(s, 7, "d")
	newcomer(s, 9, "e")
	s.Member(7).Witness = &membership.WitnessReport{Witness: 8, Disk: "witness-8"}
	says(t, Next(*s),
		"Progressing=True StartingMembers: The members change: member 7 (site d) joins; member 9 (site e) joins; "+
			"newcomers are "+
			"started first, and these are missing: the witness beside member 9 (site e) has not named its disk yet")
	s.Member(9).Witness = &membership.WitnessReport{Witness: 10, Disk: "witness-10"}
	for _, want := range []string{
		"BeginningChange 2 with 1 3 5 +7 +9", "MovingPartitions 3 with 1 3 5 +7 +9", "FinishingChange 4 with 1 3 5 7 9",
	} {
		p := Next(*s)
		if got := line(p.Step); got != want {
			t.Fatalf("%q, want %q\n%s", got, want, strings.Join(summary(p), "\n"))
		}
		record(s, p.Step.(rules.WriteRecord).View)
	}
	if got := len(s.Record.View.Witnesses); got != 5 {
		t.Errorf("%d witnesses", got)
	}
}

// A master goes to another home once a member there has the state, and back to its turn when that is taken away again.
// What is not moved keeps its term.
func TestMastersMoveHome(t *testing.T) {
	s := clusterWithMasters(t)
	for _, tt := range []struct {
		homes []string
		want  string
	}{
		{[]string{"", "c", "b"}, "1 5 3"},
		{[]string{"a"}, "1 3 5"},
		{nil, "1 3 5"},
	} {
		s.Cluster.Spec.Homes = tt.homes
		for range 12 {
			p := Next(*s)
			if p.Step == nil {
				break
			}
			record(s, p.Step.(rules.WriteRecord).View)
		}
		p := Next(*s)
		var masters []string
		for _, p := range s.Record.View.Partitions {
			masters = append(masters, fmt.Sprint(p.Master))
		}
		if got := strings.Join(masters, " "); got != tt.want || p.Step != nil || s.Record.View.Partitions[0].Term != 1 {
			t.Errorf("%q: masters %s, %+v\n%s", tt.homes, got, p.Step, strings.Join(summary(p), "\n"))
		}
	}
}

// What changes all the time is written to the status when something else of the partition is.
func TestStatusOfPartitionsRests(t *testing.T) {
	s := clusterWithMasters(t)
	unsynced := func(n, fast uint64) v1alpha1.PartitionStatus {
		part := &s.Member(1).Report.Partitions[0]
		part.Unsynced, part.Fast, part.Slow = n, fast, 100-fast
		s.Cluster.Status = Next(*s).Status
		return s.Cluster.Status.Partitions[0]
	}
	want := func(got v1alpha1.PartitionStatus, term, n int64, percent int32) {
		t.Helper()
		if got.Term != term || got.Master != 1 || !got.Serving || got.Unsynced == nil || *got.Unsynced != n ||
			got.FastPathPercent == nil || *got.FastPathPercent != percent {
			t.Errorf("%+v, unsynced %v, percent %v, want %d, %d", got, got.Unsynced, got.FastPathPercent, n, percent)
		}
	}
	want(unsynced(5, 80), 1, 5, 80)
	want(unsynced(9, 89), 1, 5, 80)
	want(unsynced(9, 90), 1, 9, 90)
	v := s.Record.View
	v.Epoch = 2
	v.Partitions = slices.Clone(v.Partitions)
	v.Partitions[0].Term = 2
	record(s, v)
	want(unsynced(11, 91), 2, 11, 90)
}
