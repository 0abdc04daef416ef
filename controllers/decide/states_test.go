package decide

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// abandoned is the step back to five members.
const abandoned = "AbandoningChange 3 with 1 2 3 4 5"

// relaxed is a cluster at rest that promises less than a minority; with fragments to a value if there are any.
func relaxed(sites int, faults, fragments int32) *world.Snapshot {
	s := healthy(sites)
	s.Cluster.Spec.Protocol, s.Cluster.Spec.FaultTolerance = "Gus", &faults
	if fragments > 0 {
		s.Cluster.Spec.Gus = &v1alpha1.GusOptions{ErasureCoding: &v1alpha1.ErasureCoding{DataFragments: fragments}}
	}
	return s
}

// exchange has newcomers take the places of members at the same sites, and everybody told of the joint view.
func exchange(t *testing.T, s *world.Snapshot, leave ...view.MemberID) {
	t.Helper()
	var newcomers []membership.Founder
	for _, id := range leave {
		m := s.Record.View.Members[s.Record.View.Index(id)]
		next := s.Record.View.LastIssued() + view.MemberID(len(newcomers)) + 1
		newcomer(s, next, m.Site)
		disk := s.Member(next).Report.Disk
		newcomers = append(newcomers, membership.Founder{ID: next, Site: m.Site, Address: m.Address, Disk: disk})
	}
	v, err := membership.Change(s.Record.View, newcomers, leave)
	if err != nil {
		t.Fatal(err)
	}
	s.Record.View = v
	told(s)
}

// Where large values are stored as fragments, nobody who joins may be missing for those who leave; where they are
// stored whole, a majority is enough.
func TestAChangeWithFragmentsNeedsASuccessorForEachThatLeaves(t *testing.T) {
	const finished = "FinishingChange 3 with 6 7 8 9 10"
	all := []view.MemberID{1, 2, 3, 4, 5}
	for name, c := range map[string]struct {
		fragments int32
		fetched   []view.MemberID
		lost      []view.MemberID
		want      string
	}{
		"all are done":              {3, []view.MemberID{6, 7, 8, 9, 10}, nil, finished},
		"k + f are done":            {3, []view.MemberID{6, 7, 8, 9}, []view.MemberID{10}, finished},
		"a majority is done":        {3, []view.MemberID{6, 7, 8}, []view.MemberID{9, 10}, abandoned},
		"two are not done yet":      {3, []view.MemberID{6, 7, 8}, nil, ""},
		"a majority, and all whole": {0, []view.MemberID{6, 7, 8}, []view.MemberID{9, 10}, finished},
		"of k + f, one is not done": {3, []view.MemberID{6, 7, 8}, []view.MemberID{10}, abandoned},
	} {
		t.Run(name, func(t *testing.T) {
			s := relaxed(5, 1, c.fragments)
			exchange(t, s, all...)
			fetched(s, c.fetched...)
			for _, id := range c.lost {
				gone(s, id)
			}
			if got := line(Next(*s).Step); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// fewer is a change from five members to three, of which everybody was told.
func fewer(t *testing.T, s *world.Snapshot) {
	t.Helper()
	s.Cluster.Spec.Sites = testCluster(3).Spec.Sites
	v, err := membership.Change(s.Record.View, nil, []view.MemberID{4, 5})
	if err != nil {
		t.Fatal(err)
	}
	s.Record.View = v
	told(s)
}

// A majority of those after a change that makes members fewer is lost: the five can go on, and the three can't.
func TestAShrinkingChangeWhoseMembersAreLostIsAbandoned(t *testing.T) {
	anew := func(s *world.Snapshot, id view.MemberID) { // its disk is an empty one now
		r := s.Member(id).Report
		r.Role, r.Disk, r.Incarnation, r.Quorum = world.Learner, "another", 2, false
	}
	for name, c := range map[string]struct {
		lose func(s *world.Snapshot)
		want string
	}{
		"two of three have lost their volumes": {func(s *world.Snapshot) { gone(s, 2); gone(s, 3) }, abandoned},
		"two of three have new disks":          {func(s *world.Snapshot) { anew(s, 2); anew(s, 3) }, abandoned},
		"one volume, and one new disk":         {func(s *world.Snapshot) { gone(s, 2); anew(s, 3) }, abandoned},
		"one has lost its volume":              {func(s *world.Snapshot) { gone(s, 2) }, ""},
		"and those before it are too few":      {func(s *world.Snapshot) { gone(s, 2); gone(s, 3); silent(s, 4) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(5)
			fewer(t, s)
			c.lose(s)
			p := Next(*s)
			if got := line(p.Step); got != c.want {
				t.Errorf("%q, want %q: %q", got, c.want, summary(p))
			}
		})
	}
}

// What may still be lost is no more than the manifest promises, though more would leave a majority.
func TestConditionsPromiseNoMoreThanFaultTolerance(t *testing.T) {
	zones := func(s *world.Snapshot) { s.Zones["node-b"] = s.Zones["node-a"] }
	gus := func(f, fragments int32, change ...func(*world.Snapshot)) func(*world.Snapshot) {
		return func(s *world.Snapshot) {
			*s = *relaxed(len(s.Cluster.Spec.Sites), f, fragments)
			for _, change := range change {
				change(s)
			}
		}
	}
	away := func(id view.MemberID) func(*world.Snapshot) { return func(s *world.Snapshot) { silent(s, id) } }
	const missing = "; missing: member 2 (site b) does not answer: connection refused"
	const everyone = "QuorumHealthy=True EveryoneVotes: All "
	const tooMany = "ToleratesZoneLoss=False ZoneHoldsTooMany: "
	const spread = "ToleratesZoneLoss=True ZonesSpread: The loss of any one of "
	for _, c := range []struct {
		name   string
		sites  int
		change func(*world.Snapshot)
		want   string
	}{
		{"a minority", 7, func(*world.Snapshot) {}, everyone + "7 members vote; 3 of them may be lost"},
		{"relaxed", 7, gus(2, 0), everyone + "7 members vote; 2 of them may be lost"},
		{"relaxed, and one is away", 7, gus(2, 0, away(2)),
			"QuorumHealthy=False MembersMissing: 6 of 7 members vote, " +
				"no more than 2 may be missing (spec.faultTolerance), so 1 more may be lost" + missing},
		{"up to five it changes nothing", 5, gus(1, 0), everyone + "5 members vote; 2 of them may be lost"},
		{"a fast quorum of a majority", 5, gus(1, 0, func(s *world.Snapshot) { s.Cluster.Spec.Protocol = "EPaxos" }),
			everyone + "5 members vote; 1 of them may be lost"},
		{"fragments", 5, gus(1, 3), everyone + "5 members vote; 1 of them may be lost"},
		{"fragments, and two are away", 5, gus(1, 3, away(2), away(3)),
			"QuorumHealthy=False MembersMissing: 3 of 5 members vote, " +
				"no more than 1 may be missing (spec.faultTolerance), so 0 more may be lost" + missing +
				"; member 3 (site c) does not answer: connection refused"},
		{"two of five in a zone", 5, zones, spread + "4 zones leaves a majority of 3"},
		{"two of five in a zone, with fragments", 5, gus(1, 3, zones), tooMany + "Without zone zone-a, " +
			"3 of 5 members vote, and no more than 1 may be missing (spec.faultTolerance)"},
		{"two of seven in a zone", 7, gus(2, 0, zones), spread + "6 zones leaves a majority of 4"},
		{"two of seven in a zone, and another is away", 7, gus(2, 0, zones, away(3)), tooMany +
			"Without zone zone-a, 4 of 7 members vote, and no more than 2 may be missing (spec.faultTolerance)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := healthy(c.sites)
			c.change(s)
			says(t, Next(*s), c.want)
		})
	}
}

// One member has one fragment of each large value: who trusts it is told so before, and afterwards.
func TestToTrustAMemberNamesTheValuesThatAreLost(t *testing.T) {
	const lost = "All values of more than 65536 bytes are lost (spec.gus.erasureCoding): one member has one fragment " +
		"of each, and 3 restore it; reads of them are refused until they are written again"
	for fragments, says := range map[int32]bool{0: false, 1: false, 3: true} {
		s := relaxed(5, 1, fragments)
		for _, id := range []view.MemberID{2, 3, 4} {
			gone(s, id)
		}
		s.Member(1).Report.Quorum, s.Member(5).Report.Quorum = false, false
		before := strings.Join(summary(Next(*s)), "\n")
		asks := strings.Contains(before, "set spec.recovery to {trustMember: 1, epoch: 1}")
		if !asks || strings.Contains(before, lost) != says {
			t.Errorf("with %d fragments: %s", fragments, before)
		}
		consents(1, 1)(s)
		p := Next(*s)
		got := line(p.Step)
		if got != "Recovering 2 with 1" || strings.Contains(p.Step.(rules.WriteRecord).Reason, lost) != says {
			t.Errorf("with %d fragments: %s, %+v", fragments, got, p.Step)
		}
		if r := p.Status.Recovered; r == nil || strings.Contains(r.Message, lost) != says {
			t.Errorf("with %d fragments the status is %+v", fragments, r)
		}
	}
}

// All members are exchanged for others, which fetch the state yet: none of those is given up for its new disk.
func TestNewcomersAreNotGivenUpWhileTheyFetch(t *testing.T) {
	s := healthy(3)
	exchange(t, s, 1, 2, 3)
	for id := view.MemberID(4); id <= 6; id++ {
		r := s.Member(id).Report
		r.Role, r.Voting, r.Quorum = world.Learner, 0, false
	}
	p := Next(*s)
	if got := line(p.Step); strings.Contains(got, "Abandoning") {
		t.Errorf("%q: %q", got, summary(p))
	}
}
