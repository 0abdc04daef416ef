package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const curpThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}]}"

// curpScene is a cluster with masters, whose members and witnesses say what a test has them say: all hear all but the
// dead.
type curpScene struct {
	*scene
	dead []view.MemberID
}

func newCURPScene(t *testing.T) *curpScene { return newCURPSceneOf(t, curpThree) }

func newCURPSceneOf(t *testing.T, spec string) *curpScene {
	s := &curpScene{scene: &scene{t: t, record: record.New(manifest(t, spec)), reports: map[view.MemberID]Report{}}}
	for _, m := range s.record.Members {
		s.wait(m.ID)
		s.name(m)
	}
	return s
}

// name has a witness name its disk.
func (s *curpScene) name(m record.Member) {
	r := s.reports[m.ID]
	r.Witness = &membership.WitnessReport{Witness: m.Witness, Disk: fmt.Sprint("disk-", m.Witness)}
	s.reports[m.ID] = r
}

// say has all members that live say that they hold the view, serve what they are master of, and whom they hear.
func (s *curpScene) say(recovered bool) {
	var all, alive []view.MemberID
	for _, m := range s.record.Members {
		all = append(all, m.ID)
		if !slices.Contains(s.dead, m.ID) {
			alive = append(alive, m.ID, m.Witness)
		}
	}
	s.hold(true, all...)
	for _, id := range all {
		r := s.reports[id]
		r.Member = &membership.MemberReport{
			Member: id, Disk: r.Disk, Digest: s.record.View.Digest(), Epoch: s.record.View.Epoch, Hears: alive,
		}
		for _, p := range s.record.View.Partitions {
			part := membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}
			if !recovered && len(p.Formers) > 0 { // it is not that far yet
				part.WholeTerm = p.Formers[len(p.Formers)-1].Term
				part.NotedTerm = part.WholeTerm
			}
			if recovered && p.Master == id {
				part.Recovered, part.CaughtUp = true, learners(s.record.View, p, alive)
			}
			r.Member.Partitions = append(r.Member.Partitions, part)
		}
		s.reports[id] = r
		if slices.Contains(s.dead, id) {
			s.reports[id] = Report{}
		}
	}
}

// learners are the members of a view, of those who live, that follow the master of a partition and are no backups.
func learners(v view.View, p view.Partition, alive []view.MemberID) (all []view.MemberID) {
	for _, m := range v.Members {
		if !p.Former().Has(m.ID) && slices.Contains(alive, m.ID) {
			all = append(all, m.ID)
		}
	}
	return all
}

// partition is one of the recorded view, in few words.
func (s *curpScene) partition(i int) string {
	p := s.record.View.Partitions[i]
	names := func(ids []view.MemberID) string { return "[" + s.record.Labels(ids) + "]" }
	text := fmt.Sprint(p.Term, " ", s.record.Label(p.Master), " ", names(p.Backups), " ", names(p.Witnesses))
	for _, f := range p.Formers {
		text += fmt.Sprint(" after ", f.Term)
	}
	return text
}

func TestFoundingWithPartitions(t *testing.T) {
	s := newCURPScene(t)
	r := s.reports[3]
	r.Witness = nil
	s.reports[3] = r
	s.waits("b/witness to name its empty disk")
	s.name(s.record.Members[1])
	s.views(1, false, 1, 3, 5)
	v := s.record.View
	if len(v.Witnesses) != 3 ||
		v.Witnesses[1] != (view.Witness{ID: 4, Site: "b", Address: "127.0.0.1:0", Disk: "disk-4", Beside: 3}) {
		t.Errorf("the witnesses are %+v", v.Witnesses)
	}
	for i, want := range []string{"1 a [b] [b/witness]", "1 b [c] [c/witness]", "1 c [a] [a/witness]"} {
		if got := s.partition(i); got != want {
			t.Errorf("partition %d: %s, want %s", i, got, want)
		}
	}
	s.waits("a quorum of the members to connect")
	s.say(true)
	if next := s.step(); next.View.Epoch != 0 || next.Waits != "" {
		t.Errorf("nothing is to do, and the step is %+v", next)
	}
}

func TestAMasterThatIsNotHeardIsReplaced(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	// That this process does not hear it decides nothing, nor does one member.
	silent := s.reports[1]
	s.reports[1] = Report{Running: true, Silent: true}
	s.waits("")
	s.reports[3].Member.Hears = []view.MemberID{4, 5, 6}
	s.waits("too few members say whether they hear its master a")
	s.reports[1] = silent
	s.dead = []view.MemberID{1}
	s.say(true)
	next := s.step()
	if next.View.Epoch != 2 || len(next.Because) != 2 ||
		next.Because[0] != "partition 0: its master a is not heard by a quorum of members; member b takes its place" {
		t.Fatalf("%+v", next)
	}
	if got := s.partition(0); got != "2 b [c] [c/witness] after 1" {
		t.Errorf("partition 0: %s", got)
	}
	s.say(false)
	s.waits("partition 0: member b recovers it")
	s.say(true)
	if next = s.step(); next.View.Epoch != 3 ||
		!strings.Contains(strings.Join(next.Because, "\n"), "its master b has recovered term 2") {
		t.Errorf("%+v", next)
	}
}

// With fewer members than that takes, no partition goes on with fewer backups than it had: it waits, and people read
// for what.
func TestAMasterHasItsBackupsOrWaits(t *testing.T) {
	s := newCURPSceneOf(t, "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]}")
	s.views(1, false, 1, 3, 5, 7, 9)
	s.dead = []view.MemberID{1, 7}
	s.say(true)
	for i := range s.record.View.Partitions {
		s.reports[9].Member.Partitions[i].Lost = true
	}
	s.waits("partition 0: its master a is not heard by a quorum of members; member b takes its place once it can " +
		"have 2 backups: " +
		"of the members that it hears, c can be")
	s.say(true)
	if next := s.step(); next.View.Epoch != 2 || s.partition(0) != "2 b [c, e] [c/witness, e/witness] after 1" {
		t.Errorf("%s: %+v", s.partition(0), next)
	}
}

// A member that lost its disk is replaced: its parts go to others, the newcomer's witness comes, and then it leaves.
func TestALostDiskIsReplaced(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	wiped := s.reports[3]
	wiped.Disk = "another"
	s.reports[3] = wiped
	id := s.record.Newcomer("b")
	s.record.Change = &record.Change{Join: []view.MemberID{id}, Leave: []view.MemberID{3}}
	s.wait(id)
	newcomer := *s.record.Find(id)
	var told []string
	for range 40 {
		next := s.step()
		told = append(told, next.Because...)
		if next.Over {
			break
		}
		s.say(true)
		if v := s.record.View; v.Joint() && v.Index(id) >= 0 {
			s.name(newcomer)
		}
		s.reports[3].Member.Disk = "another"
	}
	v := s.record.View
	if fmt.Sprint(members(v)) != "[1 5 7]" || v.Joint() || len(v.Witnesses) != 3 ||
		!strings.Contains(strings.Join(told, "\n"), "witness b-2/witness comes") {
		t.Fatalf("the view is %+v after %q", v, told)
	}
	if got := s.partition(1); !strings.Contains(got, " b-2 [a] [a/witness]") { // its home
		t.Errorf("partition 1: %s", got)
	}
}

// A newcomer that crashes in the middle is sent away again.
func TestAPartitionedChangeIsGivenUp(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	id := s.record.Newcomer("b")
	s.record.Change = &record.Change{Join: []view.MemberID{id}, Leave: []view.MemberID{3}}
	s.wait(id)
	s.views(2, true, 1, 3, 5, 7)
	s.dead = []view.MemberID{id}
	s.say(true)
	s.reports[id] = Report{Crashed: "disk full"}
	if next := s.step(); next.Abandoned != "b-2 crashed: disk full" || s.record.View.Epoch != 2 {
		t.Fatalf("%+v", next)
	}
	s.reports[id] = Report{Crashed: "disk full"}
	s.views(3, false, 1, 3, 5)
	s.say(true)
	s.reports[id] = Report{Crashed: "disk full"}
	s.over()
}

// A view that can wait is not made while a partition recovers; one that replaces who is lost is.
func TestWhatDisturbsARecovery(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	next := s.record.View
	next.Epoch++
	next.Partitions = slices.Clone(next.Partitions)
	check := func(what string, want bool) {
		t.Helper()
		if got := s.now().Disturbs(next); got != want {
			t.Errorf("%s: %t, want %t", what, got, want)
		}
	}
	next.Partitions[0].Witnesses = []view.MemberID{6}
	check("at rest", false)
	s.record.View.Partitions = slices.Clone(s.record.View.Partitions)
	s.record.View.Partitions[1].Formers = []view.Former{{Term: 1}}
	s.record.View.Partitions[1].Term = 2
	next.Partitions[1] = s.record.View.Partitions[1]
	s.say(false)
	check("while one recovers", true)
	next.Partitions[2].Master = 3
	check("a master is lost", false)
	next.Partitions[2].Master = 5
	next.Partitions[1].Term = 3
	check("a backup is lost while its master recovers", false)
	next.Partitions[1].Term = 2
	s.say(true)
	check("when it has recovered", false)
	s.say(false)
	s.reports[3] = Report{}
	check("when nobody tells", false)
}
