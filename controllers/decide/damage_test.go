package decide

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/controllers/world"
)

const whatWasFound = "Member 2 (site b) found its disk damaged, and joins again on an empty one: log 7 is damaged; " +
	"what is left is kept in " +
	"/data/damaged until it votes"

// loseDisk has a member find its disk damaged.
func loseDisk(s *world.Snapshot) *world.Report {
	r := s.Member(2).Report
	r.Disk, r.Role, r.Voting, r.Quorum = "another", world.Learner, 0, false
	r.Loss = &world.Loss{Cause: "log 7 is damaged", Aside: "/data/damaged"}
	return r
}

// join ends that.
func joinAgain(r *world.Report) {
	r.Role, r.Voting, r.Quorum, r.Incarnation = world.Voter, r.Shards, true, 2
	r.Loss = &world.Loss{Cause: "log 7 is damaged", Over: true}
}

func damageEvents(p Plan) (all []string) {
	for _, e := range p.Events {
		if e.Reason == "DiskDamaged" {
			all = append(all, e.Message)
		}
	}
	return all
}

// A damaged disk is a condition as long as its member does not vote again, and one event.
func TestADamagedDiskIsTold(t *testing.T) {
	s := healthy(3)
	s.Cluster.Status = Next(*s).Status
	r := loseDisk(s)
	p := Next(*s)
	if got := strings.Join(summary(p), "\n"); !strings.Contains(got, "Degraded=True DiskDamaged: "+whatWasFound) {
		t.Errorf("conditions:\n%s", got)
	}
	if got := p.Status.Members[1].State; !strings.Contains(got, "log 7 is damaged") ||
		!strings.Contains(got, "0 of 2 shards vote") {
		t.Errorf("its state: %s", got)
	}
	if got := damageEvents(p); len(got) != 1 || got[0] != whatWasFound {
		t.Errorf("events %q", got)
	}
	s.Cluster.Status = p.Status
	if got := damageEvents(Next(*s)); len(got) > 0 {
		t.Errorf("told again: %q", got)
	}
	joinAgain(r)
	p = Next(*s)
	if got := strings.Join(summary(p), "\n"); strings.Contains(got, "DiskDamaged") || len(damageEvents(p)) > 0 {
		t.Errorf("it votes: %q, conditions:\n%s", damageEvents(p), got)
	}
}

func TestADamagedDiskThatJoinsBetweenTwoLooksIsTold(t *testing.T) {
	s := healthy(3)
	s.Cluster.Status = Next(*s).Status
	joinAgain(loseDisk(s))
	p := Next(*s)
	if got := damageEvents(p); len(got) != 1 {
		t.Errorf("events %q", got)
	}
	s.Cluster.Status = p.Status
	if got := damageEvents(Next(*s)); len(got) > 0 {
		t.Errorf("told again: %q", got)
	}
	s.Cluster.Status.Members = nil // nothing is known of what was told
	if got := damageEvents(Next(*s)); len(got) > 0 {
		t.Errorf("an old story is told: %q", got)
	}
}
