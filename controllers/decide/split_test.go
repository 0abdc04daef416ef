package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

func asks(s *world.Snapshot, shards int32) { s.Cluster.Spec.Shards = &shards }

// bootShards is what the members of a plan are started with.
func bootShards(t *testing.T, p Plan) int {
	t.Helper()
	for _, object := range p.Apply {
		if object.GetName() == build.BootName("demo") {
			return build.BootShards(object.(*corev1.ConfigMap))
		}
	}
	t.Fatal("no boot configuration is applied")
	return 0
}

// The number of shards without masters is that of the founding, in a view that says it and in one that does not.
func TestShardsStayAsFounded(t *testing.T) {
	s := healthy(3)
	s.Shards = 4 // as members were started by a default that was another one
	if p := Next(*s); bootShards(t, p) != 4 {
		t.Errorf("members are started with %d shards", bootShards(t, p))
	}
	v := s.Record.View
	v.Founded, s.Shards = 4, 0
	s.Record.View = v
	for _, m := range s.Members {
		m.Report.View, m.Report.Digest = v, v.Digest()
	}
	asks(s, 4)
	if p := Next(*s); bootShards(t, p) != 4 || strings.Contains(strings.Join(summary(p), "\n"), "ShardsCannotChange") {
		t.Errorf("members are started with %d shards: %v", bootShards(t, p), summary(p))
	}
	asks(s, 8)
	p := Next(*s)
	want := "Stalled=True ShardsCannotChange: There are 4 shards, and spec.shards asks for 8: the disks of members are " +
		"made for as many as there were at first; set it to 4, or remove it"
	if bootShards(t, p) != 4 || !slices.Contains(summary(p), want) {
		t.Errorf("members are started with %d shards: %v", bootShards(t, p), summary(p))
	}
}

// Shards are split one after the other, each new one goes to its home, and what members are started with stays.
func TestShardsAreSplit(t *testing.T) {
	s := clusterWithMasters(t)
	asks(s, 5)
	s.Cluster.Spec.Homes = []string{"", "", "", "c", "a"}
	var events, steps []string
	for range 30 {
		p := Next(*s)
		if got := bootShards(t, p); got != 3 {
			t.Fatalf("members are started with %d shards in view %d", got, s.Record.View.Epoch)
		}
		if p.Step == nil {
			break
		}
		step := p.Step.(rules.WriteRecord)
		for _, e := range p.Events {
			if e.Reason == "ShardSplit" {
				events = append(events, e.Type+" "+e.Message)
				steps = append(steps, line(step))
			}
		}
		record(s, step.View)
	}
	p := Next(*s)
	want := []string{
		"Normal View 4: partition 0: half of its keys go to partition 3",
		"Normal View 7: partition 1: half of its keys go to partition 4",
	}
	if !slices.Equal(events, want) ||
		!strings.HasPrefix(strings.Join(steps, "; "), "SplittingShards 4 with 1 3 5; SplittingShards 7") {
		t.Errorf("events %q of %q, want %q", events, steps, want)
	}
	v := s.Record.View
	var masters []string
	for _, p := range v.Partitions {
		masters = append(masters, fmt.Sprint(p.Master))
	}
	if got := strings.Join(masters, " "); got != "1 3 5 5 1" || v.FoundedPartitions() != 3 ||
		len(p.Status.Partitions) != 5 {
		t.Errorf("masters %s of %d founded; status %+v", got, v.FoundedPartitions(), p.Status.Partitions)
	}
	says(t, p, "Progressing=False Settled: There is nothing to do")
	says(t, p,
		"PartitionsServing=True EveryoneServed: Each of 5 shards has a master that serves, with 1 backups and 1 "+
			"witnesses")
	asks(s, 4) // as a resource may that took the disks up
	says(t, Next(*s),
		"Progressing=True ShardsCannotShrink: There are 5 shards, and spec.shards asks for 4: they are split, and "+
			"never merged; set it to 5")
}

// While a shard can't be split, the status says which one and why.
func TestASplitWaits(t *testing.T) {
	s := clusterWithMasters(t)
	asks(s, 4)
	record(s, Next(*s).Step.(rules.WriteRecord).View)
	s.Member(1).Report.Partitions[0].Recovered = false
	says(t, Next(*s),
		"Progressing=True SplittingShards: There are 3 of 4 shards; shard 3 is to be split off shard 0, and that "+
			"waits: "+
			"partition 0: member 1 recovers it")
	s.Member(1).Report.Partitions[0].Recovered = true
	dead(s, 3)
	if p := Next(*s); strings.HasPrefix(line(p.Step), "SplittingShards") {
		t.Errorf("split without a backup: %s", line(p.Step))
	}
	var p Plan
	for range 5 { // the shard that member 3 was master of has another one
		s.Member(1).Report.Partitions[0].CaughtUp = nil
		p = Next(*s)
		step, ok := p.Step.(rules.WriteRecord)
		if !ok {
			break
		}
		record(s, step.View)
	}
	says(t, p,
		"Progressing=True SplittingShards: There are 3 of 4 shards; shard 3 is to be split off shard 0, and that "+
			"waits: "+
			"partition 0: its backups [3] are not all heard, or are cut off from its master 1, and nobody else has "+
			"its whole state: wait for them, or "+
			"for a learner to copy it")
}

// The cluster has at first as many shards as its members' disks were made for, whatever is asked for by the time that
// it is founded.
func TestShardsAreRaisedBeforeTheFounding(t *testing.T) {
	s := clusterWithMasters(t)
	empty(s)
	s.Shards = 3
	asks(s, 4)
	for i := range s.Members {
		s.Members[i].Report.Shards = 3
	}
	p := Next(*s)
	step, ok := written(p.Step, "Founding")
	if !ok || len(step.View.Partitions) != 3 || step.View.FoundedPartitions() != 3 || bootShards(t, p) != 3 {
		t.Fatalf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	s.Member(5).Report.Shards = 4
	p = Next(*s)
	says(t, p,
		"Progressing=True WaitingForMembers: The cluster is founded once every first member tells what its disk "+
			"holds; missing: "+
			"member 5 (site c) was started with 4 shards, where the cluster is to have 3 at first; delete its claim "+
			"and its pod")
	if p.Step != nil {
		t.Errorf("%+v", p.Step)
	}
	s.Shards = 0 // nobody was started yet
	if got := bootShards(t, Next(*s)); got != 4 {
		t.Errorf("members are started with %d shards", got)
	}
}

// With the record lost, the view that members hold tells how many shards there were; and if none answers, what they
// were started with.
func TestFoundedShardsOutliveTheRecord(t *testing.T) {
	s := clusterWithMasters(t)
	v := s.Record.View
	v.Partitions = append(slices.Clone(v.Partitions), v.Partitions[0])
	v.Founded, v.Epoch = 3, 2
	v.Partitions[3].Split, v.Partitions[3].Term, v.Partitions[0].Term = 2, 2, 2
	record(s, v)
	asks(s, 4)
	s.Record = world.Record{}
	p := Next(*s)
	if step, ok := written(p.Step, "RebuildingRecord"); !ok || step.View.Digest() != v.Digest() || bootShards(t, p) != 3 {
		t.Errorf("%+v", p.Step)
	}
	for _, id := range []view.MemberID{1, 3, 5} {
		silent(s, id)
	}
	s.Shards = 3
	if got := bootShards(t, Next(*s)); got != 3 {
		t.Errorf("members are started with %d shards", got)
	}
}
