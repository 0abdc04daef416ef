package decide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// begun is the change that replaces member 3, whose volume is lost, by 4, which waits: recorded, and nobody told.
func begun(s *world.Snapshot) {
	gone(s, 3)
	newcomer(s, 4, "c")
	s.Record.View = joint(s.Record.View, 3)
}

// replaced is that change after its end, recorded, and nobody told.
func replaced(s *world.Snapshot) {
	begun(s)
	told(s)
	s.Record.View = after(healthy(3).Record.View, 3)
}

// grown asks for two more sites.
func grown(s *world.Snapshot) { s.Cluster.Spec.Sites = testCluster(5).Spec.Sites }

// growing is the change to five sites: recorded, and nobody told.
func growing(s *world.Snapshot) {
	grown(s)
	newcomer(s, 4, "d")
	newcomer(s, 5, "e")
	s.Record.View = Next(*s).Step.(rules.WriteRecord).View
}

// pool asks for a site to be on other nodes.
func pool(s *world.Snapshot, site int, value string) {
	s.Cluster.Spec.Sites[site].NodePool = &v1alpha1.NodePool{Value: value}
}

func TestBegin(t *testing.T) {
	for _, c := range []situationCase{
		{"a volume is lost", func(s *world.Snapshot) { gone(s, 3) }, "",
			"Progressing=True StartingMembers: The members change: member 3 (site c) leaves, since it lost its volume data-demo--c--3; member 4 " +
				"(site c) joins; newcomers are started first, and these are missing: member 4 (site c) is not made yet"},
		{"and the newcomer waits", func(s *world.Snapshot) { gone(s, 3); newcomer(s, 4, "c") }, "BeginningChange 2 with 1 2 -3 +4",
			"Degraded=True MemberLost: Member 3 (site c) lost its volume data-demo--c--3"},
		{"and the newcomer has not named its disk", func(s *world.Snapshot) { gone(s, 3); newcomer(s, 4, "c"); s.Member(4).Report.Disk = "" }, "",
			"Progressing=True StartingMembers: The members change: member 3 (site c) leaves, since it lost its volume data-demo--c--3; member 4 " +
				"(site c) joins; newcomers are started first, and these are missing: member 4 (site c) has not named its disk yet"},
		{"a node is lost", func(s *world.Snapshot) {
			silent(s, 3)
			s.Member(3).Pod.Status.Phase = corev1.PodPending
			s.Member(3).VolumeNode, s.Member(3).NodeGone = "n3", true
			newcomer(s, 4, "c")
		}, "BeginningChange 2 with 1 2 -3 +4", "Degraded=True MemberLost: Member 3 (site c) lost node n3, which its volume data-demo--c--3 is tied to"},
		{"a node is lost, and its volume can move", func(s *world.Snapshot) { silent(s, 3); delete(s.Zones, "node-c") }, "",
			"Degraded=True MemberDown: Member 3 (site c) does not answer: connection refused"},
		{"not for long enough", func(s *world.Snapshot) {
			gone(s, 3)
			s.Member(3).Pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.Now.Add(-settings.LostAfter + time.Second))
		}, "", "Progressing=True WaitingForMember: Member 3 (site c) does not answer: connection refused"},
		{"only the operator can't reach it", func(s *world.Snapshot) {
			gone(s, 3)
			s.Member(1).Report.Peers[1].Reachable = true
		}, "", "Progressing=True TooFewSuspectIt: The members change: member 3 (site c) leaves, since it lost its volume data-demo--c--3; member 4 " +
			"(site c) joins, and that waits: as for member 3 (site c), 1 members can't reach it, and a majority of 2 must say so"},
		{"an intact volume is waited for", func(s *world.Snapshot) { silent(s, 3) }, "",
			"Degraded=True MemberDown: Member 3 (site c) does not answer: connection refused"},
		{"a disk lost in place joins again", func(s *world.Snapshot) { s.Member(2).Report = &world.Report{Disk: "disk-9"} },
			"tell 1 to [2]", "Degraded=True MemberDown: Member 2 (site b) has an empty disk and waits for its view"},

		{"two sites more", grown, "", "Progressing=True StartingMembers: The members change: member 4 (site d) joins; member 5 (site e) joins; " +
			"newcomers are started first, and these are missing: member 4 (site d) is not made yet; member 5 (site e) is not made yet"},
		{"two sites more, and their members wait", func(s *world.Snapshot) { grown(s); newcomer(s, 4, "d"); newcomer(s, 5, "e") },
			"BeginningChange 2 with 1 2 3 +4 +5", "Progressing=True BeginningChange: The members change: member 4 (site d) joins; member 5 " +
				"(site e) joins: began the change in view 2"},
		{"one of them can't be placed", func(s *world.Snapshot) {
			grown(s)
			newcomer(s, 4, "d")
			newcomer(s, 5, "e")
			s.Member(5).Report = nil
			s.Member(5).Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}
		}, "", "Progressing=True StartingMembers: The members change: member 4 (site d) joins; member 5 (site e) joins; newcomers are " +
			"started first, and these are missing: member 5 (site e) can't be placed on a node: no node"},
		{"two sites more, edited back", func(s *world.Snapshot) { newcomer(s, 4, "d"); newcomer(s, 5, "e") }, "discard 4, 2 objects",
			"Progressing=True RemovingMember: Removes what is left of member 4, which is not in the view"},
		{"a site is another one", func(s *world.Snapshot) { s.Cluster.Spec.Sites[1].Name = "x"; newcomer(s, 4, "x") },
			"BeginningChange 2 with 1 -2 3 +4", "Paused=False NotPaused: The operator keeps the cluster as asked"},
		{"a dead site is another one", func(s *world.Snapshot) { s.Cluster.Spec.Sites[1].Name = "x"; newcomer(s, 4, "x"); silent(s, 2) },
			"BeginningChange 2 with 1 -2 3 +4", "Degraded=True MemberDown: Member 2 (site b) does not answer: connection refused"},
		{"a member that stays does not vote", func(s *world.Snapshot) { s.Cluster.Spec.Sites[1].Name = "x"; silent(s, 3) }, "",
			"Progressing=True AnotherMemberDoesNotVote: The members change: member 2 (site b) leaves; member 4 (site x) joins, and that waits: " +
				"member 3 (site c) does not answer: connection refused"},
		{"a member that stays joins", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[1].Name = "x"
			s.Member(3).Report.Role, s.Member(3).Report.Voting = world.Learner, 1
		}, "", "Progressing=True AnotherMemberJoins: The members change: member 2 (site b) leaves; member 4 (site x) joins, and that waits: " +
			"member 3 (site c) takes a state transfer: 1 of 2 shards vote"},
		{"no quorum", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[1].Name = "x"
			s.Member(1).Report.Quorum, s.Member(3).Report.Quorum = false, false
		}, "",
			"Progressing=True NoQuorum: The members change: member 2 (site b) leaves; member 4 (site x) joins, and that waits: " +
				"1 members vote and reach a majority, and a majority of 2 must"},
		{"an even number", func(s *world.Snapshot) { s.Cluster.Spec.Sites = s.Cluster.Spec.Sites[:2] }, "",
			"Progressing=True NumberOfMembers: The members change: member 3 (site c) leaves, and that waits: protocol Gryff runs with 3, 5 or 7 " +
				"replicas, not 2; correct spec.sites"},
		{"an update goes first", func(s *world.Snapshot) { grown(s); newcomer(s, 4, "d"); newcomer(s, 5, "e"); newImage(s) }, "evict 1",
			"Progressing=True RestartingMember: Restarts member 1: the spec changed"},
		{"a repair goes before an update", func(s *world.Snapshot) { gone(s, 3); newcomer(s, 4, "c"); newImage(s) },
			"BeginningChange 2 with 1 2 -3 +4", "Degraded=True MemberLost: Member 3 (site c) lost its volume data-demo--c--3"},
		{"a dead site that is another one by now does not wait for an update", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[1].Name = "x"
			newcomer(s, 4, "x")
			silent(s, 2)
			newImage(s)
		}, "BeginningChange 2 with 1 -2 3 +4", "Degraded=True MemberDown: Member 2 (site b) does not answer: connection refused"},
		{"another node pool", func(s *world.Snapshot) { pool(s, 1, "zone-x"); newcomer(s, 4, "b"); placed(s, 4, "zone-x") },
			"BeginningChange 2 with 1 -2 3 +4", "Progressing=True BeginningChange: The members change: member 2 (site b) leaves, since it is not on " +
				"the nodes with topology.kubernetes.io/zone=zone-x; member 4 (site b) joins: began the change in view 2"},
		{"a node pool where it is already", func(s *world.Snapshot) { pool(s, 1, "zone-b") }, "", "Progressing=False Settled: There is nothing to do"},
		{"a newcomer for a former node pool", func(s *world.Snapshot) { pool(s, 1, "zone-y"); newcomer(s, 4, "b"); placed(s, 4, "zone-x") },
			"discard 4, 2 objects", "Paused=False NotPaused: The operator keeps the cluster as asked"},
		{"paused", func(s *world.Snapshot) { grown(s); s.Cluster.Spec.Paused = true }, "",
			"Progressing=False Paused: Nothing is changed while spec.paused is set"},
	} {
		c.run(t)
	}
}

// placed has a member's StatefulSet be made for a node pool.
func placed(s *world.Snapshot, id view.MemberID, zone string) {
	s.Member(id).StatefulSet.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
}

// The lost are replaced though the newcomers of an edit are missing, and both at once if they are there.
func TestRepairsGoFirst(t *testing.T) {
	s := healthy(3)
	gone(s, 2)
	grown(s)
	newcomer(s, 4, "b")
	if got := line(Next(*s).Step); got != "BeginningChange 2 with 1 -2 3 +4" {
		t.Errorf("without the newcomers of the edit: %q", got)
	}
	newcomer(s, 5, "d")
	newcomer(s, 6, "e")
	if got := line(Next(*s).Step); got != "BeginningChange 2 with 1 -2 3 +4 +5 +6" {
		t.Errorf("with them: %q", got)
	}
	s = healthy(5)
	gone(s, 2)
	gone(s, 4)
	newcomer(s, 6, "b")
	newcomer(s, 7, "d")
	if got := line(Next(*s).Step); got != "BeginningChange 2 with 1 -2 3 -4 5 +6 +7" {
		t.Errorf("two at once: %q", got)
	}
}

func TestJointView(t *testing.T) {
	const changes = "The members change in view 2: member 3 (site c) leaves; member 4 (site c) joins"
	const grows = "The members change in view 2: member 4 (site d) joins; member 5 (site e) joins"
	step := func(f ...func(*world.Snapshot)) func(*world.Snapshot) {
		return func(s *world.Snapshot) {
			for _, f := range f {
				f(s)
			}
		}
	}
	done := func(ids ...view.MemberID) func(*world.Snapshot) {
		return func(s *world.Snapshot) { fetched(s, ids...) }
	}
	down := func(id view.MemberID) func(*world.Snapshot) { return func(s *world.Snapshot) { silent(s, id) } }
	lost := func(id view.MemberID) func(*world.Snapshot) { return func(s *world.Snapshot) { gone(s, id) } }
	sites := func(n int) func(*world.Snapshot) {
		return func(s *world.Snapshot) { s.Cluster.Spec.Sites = testCluster(n).Spec.Sites }
	}
	lately := func(id view.MemberID) func(*world.Snapshot) {
		return func(s *world.Snapshot) {
			s.Member(id).Pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.Now)
		}
	}
	for _, c := range []situationCase{
		{"everybody is told at once", begun, "tell 2 to [1 2 4]", "Progressing=True TellingView: Gives view 2 to the members that lack it: 1, 2, 4"},
		{"clients are served until it takes hold", begun, "tell 2 to [1 2 4]", "Available=True Serving: 2 of 3 members serve clients"},
		{"and while some know of it", step(growing, func(s *world.Snapshot) { hold(s, 1, s.Record.View) }), "tell 2 to [2 3 4 5]",
			"Available=True Serving: 2 of 3 members serve clients"},
		{"and who is missing is missing then too", begun, "tell 2 to [1 2 4]",
			"Degraded=True MemberLost: Member 3 (site c) lost its volume data-demo--c--3"},
		{"everybody fetches", step(begun, told), "", "Progressing=True CatchingUp: " + changes + "; 0 of 3 have ended what was under way before, " +
			"0 of 1 hold the state; not done: member 1 (site a) ends what was under way before; member 2 (site b) ends what was under way " +
			"before; member 4 (site c) fetches the state"},
		{"all are done", step(begun, told, done(1, 2, 4)), "FinishingChange 3 with 1 2 4", "Progressing=True FinishingChange: " + changes +
			": the change is finished with view 3 of 3 members"},
		{"the newcomer lost its volume", step(begun, told, done(1, 2), lost(4)), "AbandoningChange 3 with 1 2 3", "Progressing=True AbandoningChange: " +
			changes + ": the change is abandoned with view 3, since member 4 (site c) lost its volume data-demo--c--4"},
		{"the newcomer lost its disk in place", step(begun, told, done(1, 2), func(s *world.Snapshot) { s.Member(4).Report.Disk = "disk-9" }),
			"AbandoningChange 3 with 1 2 3", "Progressing=True AbandoningChange: " + changes +
				": the change is abandoned with view 3, since member 4 (site c) lost the disk that it joined with"},
		{"the newcomer is silent for long", step(begun, told, done(1, 2), down(4)), "AbandoningChange 3 with 1 2 3", "Progressing=True AbandoningChange: " +
			changes + ": the change is abandoned with view 3, since member 4 (site c) does not answer: connection refused"},
		{"the newcomer does not answer in a moment though it has fetched for long", step(begun, told, done(1, 2), down(4),
			func(s *world.Snapshot) { s.Member(4).SilentFor = time.Second }), "", "Paused=False NotPaused: The operator keeps the cluster as asked"},
		{"the newcomer is silent since a moment", step(begun, told, done(1, 2), down(4), lately(4)), "", "Progressing=True CatchingUp: " + changes +
			"; 2 of 3 have ended what was under way before, 0 of 1 hold the state; not done: member 4 (site c) does not answer: connection refused"},
		{"a member that stays is lost, and with it what the others do not hold", step(begun, told, done(1, 2, 4), func(s *world.Snapshot) {
			gone(s, 2)
			for i := range s.Members { // 3 was not lost but moved
				if s.Members[i].ID == 3 {
					s.Members[i] = healthy(3).Members[2]
				}
			}
			s.Record.View = joint(healthy(3).Record.View, 3)
			told(s)
			placed(s, 3, "x")
			placed(s, 4, "y")
			pool(s, 2, "y")
		}), "AbandoningChange 3 with 1 2 3", "Progressing=True AbandoningChange: " + changes + ": the change is abandoned with view 3, since too few " +
			"of those after it are left: member 2 (site b) lost its volume data-demo--b--2"},
		{"the newcomer was never told and is lost", step(begun, lost(4)), "AbandoningChange 3 with 1 2 3",
			"Paused=False NotPaused: The operator keeps the cluster as asked"},
		{"the edit is taken back, and members refuse the joint view", step(growing, sites(3)), "AbandoningChange 3 with 1 2 3",
			"Progressing=True AbandoningChange: " + grows + ": the change is abandoned with view 3, since member 4 (site d) is not asked for any more"},
		{"the members before it are too few to go back to", step(begun, told, down(2), lately(2), lost(4)), "", "Progressing=True NoQuorum: " + changes +
			"; the change is to be abandoned, since member 4 (site c) lost its volume data-demo--c--4, once a majority of the members before " +
			"it answers; missing: member 2 (site b) does not answer: connection refused; member 3 (site c) does not answer: connection refused; " +
			"member 4 (site c) does not answer: connection refused"},
		{"too few hold it", step(begun, func(s *world.Snapshot) {
			silent(s, 2)
			lately(2)(s)
			hold(s, 1, s.Record.View)
			hold(s, 4, s.Record.View)
		}), "",
			"Progressing=True ViewNotConfirmed: " + changes + "; view 2 counts once a majority of the members before the change and one of " +
				"those after it say that they hold it; missing: member 2 (site b) does not answer: connection refused; member 3 (site c) does " +
				"not answer: connection refused"},

		{"the edit is taken back", step(growing, told, sites(3)), "AbandoningChange 3 with 1 2 3", "Progressing=True AbandoningChange: " + grows +
			": the change is abandoned with view 3, since member 4 (site d) is not asked for any more"},
		{"the edit is taken back when all is done", step(growing, told, done(1, 2, 3, 4, 5), sites(3)), "FinishingChange 3 with 1 2 3 4 5",
			"Progressing=True FinishingChange: " + grows + ": the change is finished with view 3 of 5 members"},
		{"more is asked for", step(growing, told, sites(7)), "", "Progressing=True CatchingUp: " + grows + "; 0 of 5 have ended what was under way " +
			"before, 0 of 2 hold the state; not done: member 1 (site a) ends what was under way before; member 2 (site b) ends what was " +
			"under way before; member 3 (site c) ends what was under way before; member 4 (site d) fetches the state; member 5 (site e) " +
			"fetches the state"},
		{"one of two newcomers is enough", step(growing, told, done(1, 2, 3, 4), down(5)), "FinishingChange 3 with 1 2 3 4 5",
			"Progressing=True FinishingChange: " + grows + ": the change is finished with view 3 of 5 members; it is finished without some: member 5 " +
				"(site e) does not answer: connection refused"},
		{"one of two newcomers is waited for", step(growing, told, done(1, 2, 3, 4)), "", "Progressing=True CatchingUp: " + grows + "; 4 of 5 have " +
			"ended what was under way before, 1 of 2 hold the state; not done: member 5 (site e) fetches the state"},
		{"another node pool for a newcomer", step(growing, told, func(s *world.Snapshot) { pool(s, 4, "zone-x") }), "AbandoningChange 3 with 1 2 3",
			"Progressing=True AbandoningChange: " + grows + ": the change is abandoned with view 3, since member 5 (site e) is not on the nodes " +
				"with topology.kubernetes.io/zone=zone-x, as is asked for now"},
		{"no update", step(growing, told, newImage), "", "Paused=False NotPaused: The operator keeps the cluster as asked"},
		{"a joint view has a quorum on each side", step(growing, told, down(2), down(3)), "", "Available=False QuorumLost: Nothing can be read or " +
			"written: 3 of 5 members vote and reach a quorum, which is a majority of each side of the change; missing: member 2 (site b) does not " +
			"answer: connection refused; member 3 (site c) does not answer: connection refused"},
		{"who may be lost is counted by sides", step(growing, told, down(2)), "", "QuorumHealthy=False MembersMissing: 4 of 5 members vote, a majority " +
			"is 3, so 0 more may be lost; missing: member 2 (site b) does not answer: connection refused"},
		{"a zone holds a majority of one side", step(growing, told, func(s *world.Snapshot) {
			s.Zones["node-d"], s.Zones["node-e"], s.Zones["node-b"] = s.Zones["node-c"], world.Zone{Name: "zone-e"}, s.Zones["node-a"]
		}), "", "ToleratesZoneLoss=False ZoneHoldsMajority: Without zone zone-a, 3 of 5 members vote, and a majority is 3"},
	} {
		c.run(t)
	}
}

func TestEndOfAChange(t *testing.T) {
	for _, c := range []situationCase{
		{"those who stay are told", replaced, "tell 3 to [1 2 4]", "Progressing=True TellingView: Gives view 3 to the members that lack it: 1, 2, 4"},
		{"not by one alone", func(s *world.Snapshot) { replaced(s); hold(s, 1, s.Record.View); silent(s, 2); silent(s, 4) }, "",
			"Progressing=True ViewNotConfirmed: View 3 counts once 2 members say that they hold it, and 1 do; missing: " +
				"member 2 (site b) does not answer: connection refused; member 4 (site c) does not answer: connection refused"},
		{"then the lost one is removed", func(s *world.Snapshot) { replaced(s); told(s) },
			"discard 3, 1 objects", "Progressing=True RemovingMember: Removes what is left of member 3, which is not in the view"},
	} {
		c.run(t)
	}
}

// Members that hold two views do not serve each other, so a change that was begun is told to those that are left.
func TestAPauseEndsTheChangeThatWasBegun(t *testing.T) {
	s := healthy(3)
	s.Cluster.Spec.Paused = true
	begun(s)
	hold(s, 1, s.Record.View)
	if p := Next(*s); line(p.Step) != "tell 2 to [2 4]" || p.Apply != nil {
		t.Errorf("step %q", line(p.Step))
	}
	told(s)
	fetched(s, 1, 2, 4)
	if p := Next(*s); p.Step != nil || p.Apply != nil {
		t.Errorf("once it is settled: %q", line(p.Step))
	}
}

func TestRetention(t *testing.T) {
	s := healthy(3)
	volume := s.Member(3).Volume
	replaced(s)
	told(s)
	s.Member(3).Volume = volume
	p := Next(*s)
	const kept = "Removed what was left of member 3 (site c); its volume data-demo--c--3 is retained: delete it when nobody wants its data"
	if line(p.Step) != "discard 3, 1 objects" || p.Events[0].Message != kept {
		t.Errorf("with Retain: %s, %v", line(p.Step), p.Events)
	}
	s.Cluster.Spec.Storage.Retention = v1alpha1.Delete
	if p := Next(*s); line(p.Step) != "discard 3, 2 objects" {
		t.Errorf("with Delete: %s", line(p.Step))
	}
}

// A lost volume is not made again. A newcomer's objects are there before a view names it, and its StatefulSet after its
// volume.
func TestObjectsOfMembers(t *testing.T) {
	s := healthy(3)
	gone(s, 3)
	if p := Next(*s); kindsOf(p, 3) != "StatefulSet" || kindsOf(p, 1) != "PersistentVolumeClaim StatefulSet" || kindsOf(p, 4) != "PersistentVolumeClaim" {
		t.Errorf("member 3 has %q, member 1 %q, member 4 %q", kindsOf(p, 3), kindsOf(p, 1), kindsOf(p, 4))
	}
	s.Members = append(s.Members, world.Member{ID: 4, Site: "c", Volume: volumeOf(view.Member{ID: 4, Site: "c"})})
	if p := Next(*s); kindsOf(p, 4) != "PersistentVolumeClaim StatefulSet" {
		t.Errorf("the newcomer with a volume has %q", kindsOf(p, 4))
	}
	silent(s, 2) // nothing can change now, and what was begun stays
	if p := Next(*s); kindsOf(p, 4) != "PersistentVolumeClaim StatefulSet" || p.Step != nil {
		t.Errorf("the newcomer has %q, step %s", kindsOf(p, 4), line(p.Step))
	}
	s = healthy(3)
	grown(s)
	silent(s, 2)
	if p := Next(*s); kindsOf(p, 4) != "" {
		t.Errorf("a newcomer is made with %q while no change can begin", kindsOf(p, 4))
	}
}

// A member stays where it is until another one has taken its place, whatever node pool its site has.
func TestMembersStayWhereTheyAre(t *testing.T) {
	s := healthy(3)
	placed(s, 2, "zone-b")
	pool(s, 1, "zone-x")
	if got := zoneOf(Next(*s), 2); got != "zone-b" {
		t.Errorf("its StatefulSet is for zone %q", got)
	}
	if got := zoneOf(Next(*s), 4); got != "" {
		t.Errorf("a StatefulSet is made before its volume")
	}
	s.Members = append(s.Members, world.Member{ID: 4, Site: "b", Volume: volumeOf(view.Member{ID: 4, Site: "b"})})
	if got := zoneOf(Next(*s), 4); got != "zone-x" {
		t.Errorf("the newcomer's StatefulSet is for zone %q", got)
	}
	s.Cluster.Spec.Sites[1].Name = "x"
	if got := zoneOf(Next(*s), 2); got != "zone-b" {
		t.Errorf("with its site gone, its StatefulSet is for zone %q", got)
	}
}

// zoneOf is the zone that a plan's StatefulSet of a member is for.
func zoneOf(p Plan, id view.MemberID) string {
	for _, object := range p.Apply {
		if of, _, ok := owner(object); ok && of == id {
			if set, ok := object.(interface{ GetName() string }); ok && !strings.HasPrefix(set.GetName(), "data-") {
				return selectorOf(object)[corev1.LabelTopologyZone]
			}
		}
	}
	return ""
}

func TestStatusOfAChange(t *testing.T) {
	s := healthy(3)
	grown(s)
	next := func() v1alpha1.ChangeStatus {
		t.Helper()
		s.Cluster.Status = Next(*s).Status
		s.Now = s.Now.Add(time.Minute)
		if s.Cluster.Status.Change == nil {
			t.Fatal("there is no change")
		}
		return *s.Cluster.Status.Change
	}
	first := next()
	if first.Step != v1alpha1.StartingMembers || len(first.Joining) != 2 || first.Leaving != nil || first.Epoch != 0 || first.Message == "" {
		t.Errorf("at first %+v", first)
	}
	growing(s)
	told(s)
	c := next()
	if c.Step != v1alpha1.CatchingUp || c.Epoch != 2 || c.Settled != "0/5" || c.Fetched != "0/2" || c.Percent != nil || !c.Since.Equal(&first.Since) {
		t.Errorf("in the joint view %+v", c)
	}
	fetched(s, 1, 2, 3)
	s.Member(4).Report.Change = world.Change{Bytes: 400, SameBytes: 37, Remaining: 500}
	s.Member(5).Report.Change = world.Change{Remaining: 63}
	if c = next(); c.Settled != "3/5" || *c.Percent != 40 || c.Bytes != 400 || c.RemainingBytes != 563 {
		t.Errorf("while it is fetched %+v", c)
	}
	before := s.Cluster.Status
	s.Member(4).Report.Change.Bytes++
	s.Member(4).Report.Change.Remaining--
	if next(); *s.Cluster.Status.Change.Percent != 40 || s.Cluster.Status.Change.Bytes != before.Change.Bytes {
		t.Errorf("a status is written for a byte: %+v", s.Cluster.Status.Change)
	}
	fetched(s, 4, 5)
	if c = next(); *c.Percent != 100 {
		t.Errorf("when all is fetched %+v", c)
	}
	s.Record.View = Next(*s).Step.(rules.WriteRecord).View
	if c = next(); c.Step != v1alpha1.RemovingMembers || c.Epoch != 2 || len(c.Joining) != 2 || !c.Since.Equal(&first.Since) {
		t.Errorf("at the end %+v", c)
	}
	told(s)
	if status := Next(*s).Status; status.Change != nil || status.Ready != "3/5" {
		t.Errorf("after it %+v", status)
	}
	s.Record.View = healthy(3).Record.View
	s.Record.View.Epoch = 4
	if c = next(); c.Step != v1alpha1.Abandoning {
		t.Errorf("when it is abandoned %+v", c)
	}
}

// A change is over when everybody knows it, whoever is silent later.
func TestAChangeStaysOver(t *testing.T) {
	s := healthy(3)
	s.Record.View.Epoch = 5
	told(s)
	silent(s, 1)
	silent(s, 2)
	if change := Next(*s).Status.Change; change != nil {
		t.Errorf("change %+v", change)
	}
}

func TestServicesOfFormerSites(t *testing.T) {
	s := healthy(3)
	s.Sites = []string{"a", "b", "c", "z"}
	pruned := func() (names string) {
		for _, object := range Next(*s).Prune {
			if object.GetLabels()[build.SiteLabel] != "" {
				names += object.GetName() + " "
			}
		}
		return names
	}
	if got := pruned(); got != "demo--z " {
		t.Errorf("pruned %q", got)
	}
	s.Cluster.Spec.Sites[2].Name = "x" // where member 3 still is
	if got := pruned(); got != "demo--z " {
		t.Errorf("pruned %q, with a member at site c", got)
	}
}

// Newcomers that wait are not ready, so they take nobody's place in the budget: one that can't start would keep
// everybody from being evicted, and the spec that mends it from being rolled out. Members that were left out may look
// ready still.
func TestTheBudgetCountsWhoWasLeftOut(t *testing.T) {
	stays := func(s *world.Snapshot) int {
		for _, object := range Next(*s).Apply {
			if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
				return budget.Spec.MinAvailable.IntValue()
			}
		}
		return -1
	}
	s := healthy(3)
	grown(s)
	newcomer(s, 4, "d")
	if got := stays(s); got != 2 {
		t.Errorf("beside a newcomer that waits %d must stay", got)
	}
	s = healthy(3)
	replaced(s)
	told(s)
	if got := stays(s); got != 3 {
		t.Errorf("beside a member that was left out %d must stay", got)
	}
	s.Member(3).StatefulSet, s.Member(3).Pod.DeletionTimestamp = nil, &metav1.Time{Time: s.Now}
	if got := stays(s); got != 2 { // its node may never tell that it has ended
		t.Errorf("beside one whose pod ends %d must stay", got)
	}
}
