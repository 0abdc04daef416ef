package decide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// stranded is a cluster of which member 1 alone is left.
func stranded(s *world.Snapshot) {
	gone(s, 2)
	gone(s, 3)
	s.Member(1).Report.Quorum = false
}

// consents writes spec.recovery.
func consents(trust int32, epoch int64) func(*world.Snapshot) {
	return func(s *world.Snapshot) {
		s.Cluster.Spec.Recovery = &v1alpha1.Recovery{TrustMember: trust, Epoch: epoch}
	}
}

func TestQuorumLost(t *testing.T) {
	const gone2 = "Nothing can be read or written, and no majority can come back: member 2 (site b) lost its volume " +
		"data-demo--b--2; member 3 " +
		"(site c) lost its volume data-demo--c--3. Left: member 1 (site a) votes, but reaches no majority. Bring the " +
		"lost volumes back if they exist. " +
		"If they do not, set spec.recovery to {trustMember: 1, epoch: 1} to go on with what that member holds and " +
		"give up what only others acknowledged."
	of := func(f ...func(*world.Snapshot)) func(*world.Snapshot) {
		return func(s *world.Snapshot) {
			for _, f := range f {
				f(s)
			}
		}
	}
	for _, c := range []situationCase{
		{"at rest", func(*world.Snapshot) {}, "", "QuorumLost=False QuorumThere: A majority has its disks"},
		{"two volumes of three", stranded, "", "QuorumLost=True MembersLost: " + gone2},
		{"and that is what is waited for", stranded, "", "Progressing=True QuorumLost: " + gone2},
		{"one of them may come back",
			of(stranded, func(s *world.Snapshot) { s.Member(2).Volume = volumeOf(view.Member{ID: 2, Site: "b"}) }), "",
			"QuorumLost=False QuorumThere: A majority has its disks"},
		{"members in memory that were restarted", func(s *world.Snapshot) {
			s.Cluster.Spec.Storage.Durability = v1alpha1.Memory
			for _, id := range []view.MemberID{2, 3} {
				s.Member(id).Report.Role, s.Member(id).Report.Quorum = world.Learner, false
			}
			s.Member(1).Report.Quorum = false
		}, "",
			"QuorumLost=True MembersLost: Nothing can be read or written, and no majority can come back: member 2 " +
				"(site b) lost what it held: its " +
				"disk is a new one; member 3 (site c) lost what it held: its disk is a new one. Left: member 1 (site " +
				"a) votes, but reaches no majority. " +
				"Bring the lost volumes back if they exist. If they do not, set spec.recovery to {trustMember: 1, " +
				"epoch: 1} to go on with what that " +
				"member holds and give up what only others acknowledged."},
		{"everybody takes on a view at once", func(s *world.Snapshot) {
			for i := range s.Members {
				r := s.Members[i].Report
				r.Role, r.Quorum, r.Voting, r.Incarnation = world.Learner, false, 0, 0
			}
		}, "", "QuorumLost=False QuorumThere: A majority has its disks"},
		{"with consent", of(stranded, consents(1, 1)), "Recovering 2 with 1",
			"Progressing=True Recovering: Recovered from the lost quorum of view 1: " +
				"view 2 has member 1 alone. Given up are members 2, 3: what they acknowledged and the trusted member " +
				"had not heard of is lost, and " +
				"reads may go back to older values"},
		{"with consent for another view", of(stranded, consents(1, 4)), "",
			"QuorumLost=True MembersLost: " + gone2 + " spec.recovery does nothing: it is " +
				"for view 4, and view 1 is in force; epoch must be that of status.view."},
		{"with trust in nobody", of(stranded, consents(9, 1)), "",
			"QuorumLost=True MembersLost: " + gone2 + " spec.recovery does nothing: member 9 is not in view 1."},
		{"with trust in a lost member", of(stranded, consents(3, 1)), "",
			"QuorumLost=True MembersLost: " + gone2 + " spec.recovery does nothing: member 3 " +
				"(site c) does not answer: connection refused."},
		{"with a quorum", consents(1, 1), "",
			"QuorumLost=False QuorumThere: spec.recovery does nothing: a quorum votes"},
		{"with a quorum that the operator does not reach",
			of(func(s *world.Snapshot) { silent(s, 2); silent(s, 3) }, consents(1, 1)), "",
			"QuorumLost=False QuorumThere: spec.recovery does nothing: member 1 says that it reaches a quorum"},
		{"with members that are cut off",
			of(func(s *world.Snapshot) {
				silent(s, 2)
				silent(s, 3)
				s.Member(1).Report.Quorum = false
			}, consents(1, 1)),
			"",
			"QuorumLost=False QuorumMayComeBack: spec.recovery does nothing: a majority may come back with its " +
				"disks; of members that never " +
				"will, delete the claims and the pods, by force where their nodes are gone for good"},
		{"with trust in a member that learns",
			of(stranded, consents(1, 1), func(s *world.Snapshot) { s.Member(1).Report.Role = world.Learner }), "",
			"Available=False QuorumLost: Nothing can be read or written: 0 of 3 members vote and reach a majority, " +
				"which is 2; missing: member 1 (site a) " +
				"takes a state transfer: 2 of 2 shards vote; member 2 (site b) does not answer: connection refused; " +
				"member 3 (site c) does not answer: " +
				"connection refused"},
		{"paused", of(stranded, consents(1, 1), func(s *world.Snapshot) { s.Cluster.Spec.Paused = true }), "",
			"QuorumLost=True MembersLost: " + gone2 +
				" spec.recovery does nothing: spec.paused is set; remove it."},
		{"of the members before a change",
			of(begun, told, func(s *world.Snapshot) { gone(s, 2); s.Member(1).Report.Quorum = false }, consents(1, 2)),
			"Recovering 3 with 1",
			"Available=False QuorumLost: Nothing can be read or written: 1 of 4 members vote and reach a quorum, " +
				"which is a majority " +
				"of each side of the change; missing: member 1 (site a) votes, but reaches no majority; member 2 " +
				"(site b) does not answer: connection " +
				"refused; member 3 (site c) does not answer: connection refused"},
		{"with trust in a newcomer that has not fetched", of(begun, told, func(s *world.Snapshot) {
			gone(s, 2)
			s.Member(1).Report.Quorum, s.Member(4).Report.Quorum = false, false
		}, consents(4, 2)), "", "Paused=False NotPaused: The operator keeps the cluster as asked"},
	} {
		c.run(t)
	}
}

// A recovery is recorded, the others are stopped, the trusted member is told, and newcomers join.
func TestRecovery(t *testing.T) {
	s := healthy(3)
	stranded(s)
	consents(1, 1)(s)
	s.Cluster.Spec.Storage.Retention = v1alpha1.Delete
	s.Member(2).Volume = volumeOf(view.Member{ID: 2, Site: "b"})
	s.Member(2).VolumeNode, s.Member(2).NodeGone = "n2", true
	var steps []string
	take := func() Plan {
		p := Next(*s)
		s.Cluster.Status = p.Status
		steps = append(steps, line(p.Step))
		return p
	}
	p := take()
	if r := p.Status.Recovered; r == nil || r.Epoch != 1 || r.TrustedMember != 1 ||
		len(r.GivenUp) != 2 || r.Message == "" {
		t.Errorf("status %+v", p.Status.Recovered)
	}
	if len(p.Events) != 1 || p.Events[0].Type != corev1.EventTypeWarning || p.Events[0].Reason != "QuorumRecovered" {
		t.Errorf("events %+v", p.Events)
	}
	s.Record.View = p.Step.(rules.WriteRecord).View
	take()
	s.Member(2).StatefulSet = nil
	take()
	s.Member(3).StatefulSet = nil
	if got := summary(take())[1]; !strings.Contains(got, "Progressing=True StoppingMembers: ") ||
		!strings.Contains(got, "demo--b--2-0; demo--c--3-0") {
		t.Error(got)
	}
	s.Member(2).Pod, s.Member(3).Pod = nil, nil
	take()
	told(s)
	take()
	newcomer(s, 4, "b")
	newcomer(s, 5, "c")
	p = take()
	want := "Recovering 2 with 1, discard 2, 1 objects, discard 3, 1 objects, , tell 2 to [1], , BeginningChange 3 " +
		"with 1 +4 +5"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("steps %s\nwant  %s", got, want)
	}
	if r := p.Status.Recovered; r == nil || r.Epoch != 1 || len(r.GivenUp) != 2 {
		t.Errorf("it is forgotten: %+v", r)
	}
	s.Record.View = p.Step.(rules.WriteRecord).View
	told(s)
	if got := line(take().Step); got != "" || s.Member(2).Volume == nil {
		t.Errorf("the volume that was given up is not kept: %s", got)
	}
	const past = "QuorumLost=False RecoveryIsPast: spec.recovery does nothing: it is for view 1, and view 2 is in force"
	if all := strings.Join(summary(p), "\n"); !strings.Contains(all, past) {
		t.Errorf("got %s", all)
	}
}

// The one that is left can't be restarted: there is no majority without it. So others join before it is updated.
func TestARecoveredMemberIsUpdatedOnceOthersHaveJoined(t *testing.T) {
	s := healthy(3)
	stranded(s)
	consents(1, 1)(s)
	s.Record.View = Next(*s).Step.(rules.WriteRecord).View
	s.Members = s.Members[:1]
	told(s)
	newImage(s)
	if p := Next(*s); kindsOf(p, 4) != "PersistentVolumeClaim" || kindsOf(p, 5) != "PersistentVolumeClaim" {
		t.Errorf("newcomers are not started: %s", strings.Join(summary(p), "\n"))
	}
	newcomer(s, 4, "b")
	newcomer(s, 5, "c")
	if got := line(Next(*s).Step); got != "BeginningChange 3 with 1 +4 +5" {
		t.Errorf("with newcomers that wait: %q", got)
	}
}

// A status that was lost is made again while the view shows what happened, and one that told too much is corrected.
func TestRecoveryIsToldAgain(t *testing.T) {
	s := healthy(3)
	stranded(s)
	consents(1, 1)(s)
	before := s.Record.View
	p := Next(*s)
	s.Record.View = p.Step.(rules.WriteRecord).View
	if r := Next(*s).Status.Recovered; r == nil || len(r.GivenUp) != 2 {
		t.Errorf("status %+v", r)
	}
	s.Record.View, s.Cluster.Status = before, p.Status
	s.Cluster.Spec.Recovery = nil
	if r := Next(*s).Status.Recovered; r != nil {
		t.Errorf("what was not recorded is told: %+v", r)
	}
}
