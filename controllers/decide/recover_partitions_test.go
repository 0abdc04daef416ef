package decide

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// destroyed has a member lose its volume, and so the witness beside it.
func destroyed(s *world.Snapshot, ids ...view.MemberID) {
	for _, id := range ids {
		dead(s, id)
		gone(s, id)
	}
	for _, m := range s.Members {
		if m.Report != nil {
			m.Report.Quorum = false
		}
	}
}

// Of three members one is left. It holds two shards, one of them with the witness beside it; the third goes on with
// what it has followed when that is asked for, and not before.
func TestRecoveryWithPartitions(t *testing.T) {
	s := clusterWithMasters(t)
	destroyed(s, 1, 3)
	const lost = "Nothing can be read or written, and no majority can come back: member 1 (site a) lost its volume " +
		"data-demo--a--1; member 3 (site b) " +
		"lost its volume data-demo--b--3. Left: member 5 (site c) votes, but reaches no majority. Bring the lost " +
		"volumes back if they exist. If they do " +
		"not, set spec.recovery to {epoch: 1, emptyShards: [0]} to go on with what the members that are left hold. " +
		"Nobody who is left is certain to " +
		"hold all of shards 0: that is to have shards 0 go on from the copy of the member that is left and followed " +
		"furthest, without the latest writes, " +
		"acknowledged ones too, that it had not heard of."
	says(t, Next(*s), "QuorumLost=True MembersLost: "+lost)
	refused := func(why string, r v1alpha1.Recovery) {
		t.Helper()
		s.Cluster.Spec.Recovery = &r
		p := Next(*s)
		if p.Step != nil || !strings.Contains(strings.Join(summary(p), "\n"), " spec.recovery does nothing: "+why) {
			t.Errorf("%+v, want %s\n%s", p.Step, why, strings.Join(summary(p), "\n"))
		}
	}
	refused("nobody who is left is certain to hold all of shards 0; add them to emptyShards to have shards 0 go on "+
		"from the copy of the member that is left "+
		"and followed furthest, without the latest writes, acknowledged ones too, that it had not heard of",
		v1alpha1.Recovery{Epoch: 1})
	refused("nobody who is left is certain to hold all of shards 0",
		v1alpha1.Recovery{Epoch: 1, EmptyShards: []int32{1, 2}})
	refused("it is for view 2, and view 1 is in force", v1alpha1.Recovery{Epoch: 2, EmptyShards: []int32{0}})
	consent := v1alpha1.Recovery{Epoch: 1, EmptyShards: []int32{0, 1}}
	beside := s.Member(5).Witness
	s.Member(5).Witness, s.Member(5).WitnessSilence = nil, "connection refused"
	refused("what they hold has to be known of all who are left: the witness beside member 5 (site c) does not answer",
		consent)
	s.Member(5).Witness = beside
	s.Member(3).Volume = volumeOf(view.Member{ID: 3, Site: "b"})
	s.Cluster.Spec.Recovery = &consent
	says(t, Next(*s),
		"QuorumLost=False QuorumMayComeBack: spec.recovery does nothing: a majority may come back with its disks; of "+
			"members that never will, delete "+
			"the claims and the pods, by force where their nodes are gone for good")
	s.Member(3).Volume = nil
	s.Cluster.Spec.Paused = true
	refused("spec.paused is set; remove it", consent)
	s.Cluster.Spec.Paused = false

	p := Next(*s)
	step, ok := p.Step.(rules.WriteRecord)
	if !ok || parts(step.View) != "5 [] w[] <0; 5 [] w[] <1; 5 [] w[] <1" || step.View.Partitions[0].Empty ||
		step.View.Partitions[1].Empty {
		t.Fatalf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	says(t, p,
		"Progressing=True Recovering: Recovered from the lost quorum of view 1: view 2 has members 5. Given up are "+
			"members 1, 3; nobody "+
			"who is left was certain to hold all of shards 0: these go on from the copy of the member that followed "+
			"furthest, and the latest writes that were "+
			"acknowledged may be lost")
	if r := p.Status.Recovered; r == nil || r.Epoch != 1 || r.TrustedMember != 0 ||
		!slices.Equal(r.GivenUp, []int32{1, 3}) ||
		len(r.EmptyShards) > 0 ||
		!strings.Contains(r.Message, "certain to hold all of shards 0: these go on from the copy") {
		t.Errorf("%+v", p.Status.Recovered)
	}
	s.Cluster.Status = p.Status
	s.Record.View = step.View
	if p = Next(*s); line(p.Step) != "discard 1, 1 objects" { // before the one that is left is told
		t.Errorf("%s", line(p.Step))
	}
	s.Member(1).StatefulSet, s.Member(1).Pod = nil, nil
	s.Member(3).StatefulSet, s.Member(3).Pod = nil, nil
	if p = Next(*s); line(p.Step) != "tell 2 to [5]" {
		t.Errorf("%s", line(p.Step))
	}
	s.Members = slices.DeleteFunc(s.Members, func(m world.Member) bool { return m.ID != 5 })
	record(s, step.View)
	if p = Next(*s); line(p.Step) != "MovingPartitions 3 with 5" { // they are recovered
		t.Errorf("%s\n%s", line(p.Step), strings.Join(summary(p), "\n"))
	}
	record(s, p.Step.(rules.WriteRecord).View)
	p = Next(*s)
	says(t, p, "QuorumLost=False RecoveryIsPast: spec.recovery does nothing: it is for view 1, and view 3 is in force")
	if r := p.Status.Recovered; r == nil || !strings.Contains(r.Message, "shards 0: these go on") ||
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionQuorumLost) {
		t.Errorf("it is forgotten: %+v", r)
	}
	newcomer(s, 7, "a")
	newcomer(s, 9, "b")
	says(t, Next(*s),
		"Progressing=True StartingMembers: The members change: member 7 (site a) joins; member 9 (site b) joins; "+
			"newcomers are started "+
			"first, and these are missing: the witness beside member 7 (site a) has not named its disk yet; the "+
			"witness beside member 9 (site b) has not "+
			"named its disk yet")
}

// A shard of which nobody has a whole copy begins again empty when that is asked for, and not before.
func TestRecoveryWithoutACopy(t *testing.T) {
	s := clusterWithMasters(t)
	destroyed(s, 1, 3)
	s.Member(5).Report.Partitions[0].Copying = true
	says(t, Next(*s),
		"QuorumLost=True MembersLost: Nothing can be read or written, and no majority can come back: member 1 (site "+
			"a) lost its volume "+
			"data-demo--a--1; member 3 (site b) lost its volume data-demo--b--3. Left: member 5 (site c) votes, but "+
			"reaches no majority. Bring the lost volumes "+
			"back if they exist. If they do not, set spec.recovery to {epoch: 1, emptyShards: [0]} to go on with "+
			"what the members that are left hold. Nobody "+
			"who is left is certain to hold all of shards 0: that is to have shards 0, of which nobody who is left "+
			"has a whole copy, begin again empty.")
	s.Cluster.Spec.Recovery = &v1alpha1.Recovery{Epoch: 1}
	said := strings.Join(summary(Next(*s)), "\n")
	if !strings.Contains(said, "spec.recovery does nothing: nobody who is left is certain to hold all of shards 0; "+
		"add them to emptyShards to have shards 0, of which nobody who is left has a whole copy, begin again empty") {
		t.Error(said)
	}
	s.Cluster.Spec.Recovery.EmptyShards = []int32{0}
	p := Next(*s)
	if step, ok := p.Step.(rules.WriteRecord); !ok || !step.View.Partitions[0].Empty {
		t.Fatalf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	if r := p.Status.Recovered; r == nil || !slices.Equal(r.EmptyShards, []int32{0}) ||
		r.Message != "Given up are members 1, 3; nobody who is left had a whole copy of shards 0, which begin "+
			"again empty" {
		t.Errorf("%+v", r)
	}
}

// What a witness saved is lost with it, and that is said; all who are left are waited for.
func TestRecoveryWithoutWitnesses(t *testing.T) {
	s := clusterWithMasters(t)
	destroyed(s, 1, 3)
	s.Member(5).Witness.Disk = "another"
	s.Cluster.Spec.Recovery = &v1alpha1.Recovery{Epoch: 1, EmptyShards: []int32{0}}
	p := Next(*s)
	r := p.Status.Recovered
	if r == nil || !strings.Contains(r.Message, "of shards 1 what only lost witnesses had saved") || r.Time.IsZero() {
		t.Errorf("%+v", r)
	}
}

// A witness with a pod of its own outlives the members: what it saved is replayed. One that may come back is waited
// for.
func TestRecoveryWithDedicatedWitnesses(t *testing.T) {
	s := lone(t)
	destroyed(s, 1, 3) // of partition 1 member 5 is left, which is its backup, and witness 2
	s.Cluster.Spec.Recovery = &v1alpha1.Recovery{Epoch: 1, EmptyShards: []int32{0}}
	p := Next(*s)
	if step, ok := p.Step.(rules.WriteRecord); !ok || parts(step.View) != "5 [] w[] <0; 5 [] w[] <1; 5 [] w[] <1" ||
		len(step.View.Witnesses) != 3 ||
		!slices.Equal(step.View.Partitions[1].Formers[0].Witnesses, []view.MemberID{2}) ||
		strings.Contains(p.Status.Recovered.Message, "witnesses") {
		t.Errorf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	w := seen(s, 2)
	w.Witness, w.WitnessSilence = nil, "connection refused"
	if p = Next(*s); p.Step != nil ||
		!strings.Contains(strings.Join(summary(p), "\n"),
			"what they hold has to be known of all who are left: witness 2 (site a) does not answer") {
		t.Errorf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
	w.Volume = nil
	p = Next(*s)
	if step, ok := p.Step.(rules.WriteRecord); !ok || len(step.View.Witnesses) != 2 ||
		!strings.Contains(p.Status.Recovered.Message, "of shards 1 what only lost witnesses had saved") {
		t.Errorf("%+v\n%s", p.Step, strings.Join(summary(p), "\n"))
	}
}
