package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// scene is a cluster whose members say what a test has them say.
type scene struct {
	t       *testing.T
	record  record.Record
	reports map[view.MemberID]Report
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, record: record.New(manifest(t, threeSites)), reports: map[view.MemberID]Report{}}
	for _, m := range s.record.Members {
		s.wait(m.ID)
	}
	return s
}

// now is what is decided from.
func (s *scene) now() Situation { return Situation{Record: &s.record, Reports: s.reports} }

func (s *scene) wait(id view.MemberID) {
	s.reports[id] = Report{Disk: fmt.Sprint("disk-", id), Waiting: true, Running: true}
}

func members(v view.View) (ids []view.MemberID) {
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	return ids
}

func manifest(t *testing.T, spec string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	m, err := v1alpha1.Decode(
		[]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const threeSites = "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}"

// hold has members say that they hold the recorded view, and did their part in it.
func (s *scene) hold(done bool, ids ...view.MemberID) {
	for _, id := range ids {
		r := s.reports[id]
		r.View, r.Waiting, r.Serves = s.record.View, false, true
		r.Answer = membership.MemberReport{Digest: s.record.View.Digest(), Settled: done, Fetched: done}
		s.reports[id] = r
	}
}

// step takes the next step as the driver does, and returns it.
func (s *scene) step() Step {
	s.t.Helper()
	next, err := s.now().Next()
	if err != nil {
		s.t.Fatal(err)
	}
	if next.View.Epoch > 0 {
		s.record.View = next.View
		if s.record.Change != nil {
			s.record.Change.Abandoned = next.Abandoned
		}
	}
	return next
}

// waits wants no step, but a wait for something.
func (s *scene) waits(want string) {
	s.t.Helper()
	if next := s.step(); next.View.Epoch > 0 || next.Over || !strings.Contains(next.Waits, want) {
		s.t.Fatalf("step %+v, want a wait for %q", next, want)
	}
}

// views wants a view of these members.
func (s *scene) views(epoch uint64, joint bool, want ...view.MemberID) {
	s.t.Helper()
	v := s.step().View
	if v.Epoch != epoch || v.Joint() != joint || fmt.Sprint(members(v)) != fmt.Sprint(want) {
		s.t.Fatalf("view %+v, want epoch %d of %d", v, epoch, want)
	}
}

func (s *scene) over() {
	s.t.Helper()
	if next := s.step(); !next.Over {
		s.t.Fatalf("step %+v, want the end of the change", next)
	}
}

// found brings the scene to a cluster of three.
func (s *scene) found() {
	s.t.Helper()
	s.views(1, false, 1, 2, 3)
	s.hold(true, 1, 2, 3)
}

func TestFounding(t *testing.T) {
	s := newScene(t)
	s.reports[2] = Report{Running: true}
	s.waits("b to name its empty disk")
	s.wait(2)
	s.found()
	if next := s.step(); next.Waits != "" || next.Over || next.View.Epoch != 0 {
		t.Errorf("nothing is to do, and the step is %+v", next)
	}
	// A directory that knows nothing of it finds the view with the members.
	s.record.View = view.View{}
	held := s.reports[1]
	s.reports[1], s.reports[2] = Report{Running: true}, Report{Running: true}
	s.waits("too few have told")
	s.reports[1] = held
	s.views(1, false, 1, 2, 3)
}

func TestAReplacementFromAskingToTheEnd(t *testing.T) {
	s := newScene(t)
	s.found()
	id := s.record.Newcomer("b")
	if got := s.record.Label(id); got != "b-2" {
		t.Errorf("the newcomer beside b is called %s", got)
	}
	s.record.Change = &record.Change{Join: []view.MemberID{id}, Leave: []view.MemberID{2}}
	s.reports[id] = Report{Running: true}
	s.waits("b-2 to name its empty disk")
	s.wait(id)
	s.views(2, true, 1, 2, 3, 4)
	if m := s.record.View.Members[3]; m.Disk != "disk-4" || !m.Joining || !s.record.View.Members[1].Leaving {
		t.Errorf("joint view %+v", s.record.View)
	}
	s.waits("a, c, b-2 to do its part")
	s.hold(true, 1, 3)
	s.waits("b-2 to do its part")
	s.hold(true, id)
	s.views(3, false, 1, 3, 4)
	s.hold(true, 1, 3)
	s.waits("b, b-2 to hold the view of epoch 3")
	s.reports[2] = Report{} // it was killed
	s.hold(true, id)
	s.over()
}

func TestAChangeThatIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		joint bool
		fails func(s *scene)
		epoch uint64
	}{
		"by the user, before it began": {false, func(s *scene) { s.record.Change.Abandoned = "so" }, 1},
		"by the user, in the middle":   {true, func(s *scene) { s.record.Change.Abandoned = "so" }, 3},
		"the newcomer crashed before":  {false, func(s *scene) { s.reports[4] = Report{Crashed: "disk full"} }, 1},
		"the newcomer crashed later":   {true, func(s *scene) { s.reports[4] = Report{Crashed: "disk full"} }, 3},
	} {
		s := newScene(t)
		s.found()
		s.record.Change = &record.Change{Join: []view.MemberID{s.record.Newcomer("d")}, Leave: []view.MemberID{1}}
		s.wait(4)
		if test.joint {
			s.views(2, true, 1, 2, 3, 4)
			s.hold(false, 1, 2, 3, 4)
		}
		test.fails(s)
		for range 2 {
			if s.record.View.Joint() || s.record.Change.Abandoned == "" {
				s.step()
			}
		}
		if v := s.record.View; v.Epoch != test.epoch || fmt.Sprint(members(v)) != "[1 2 3]" || v.Joint() {
			t.Errorf("%s: the view is %+v", name, v)
		}
		s.hold(true, 1, 2, 3)
		if s.record.View.Epoch > 1 && s.reports[4].Running {
			s.waits("d to hold the view of epoch 3") // that it was removed
			s.hold(true, 4)
		}
		s.over()
	}
}

// Of three members the only one that is to stay crashes: the others go on.
func TestAShrinkingChangeThatCrashedIsGivenUp(t *testing.T) {
	s := newScene(t)
	s.found()
	s.record.Change = &record.Change{Leave: []view.MemberID{2, 3}}
	s.views(2, true, 1, 2, 3)
	s.hold(false, 1, 2, 3)
	s.waits("a to do its part")
	s.reports[1] = Report{Crashed: "disk full"}
	s.views(3, false, 1, 2, 3)
	if why := s.record.Change.Abandoned; why != "too few of those after it are left: a crashed" {
		t.Errorf("it is abandoned because %q", why)
	}
	s.hold(true, 2, 3)
	s.over()
}

// One that stays and is lost is not waited for, if the change is safe without it; a newcomer that was killed is.
func TestWhoIsWaitedFor(t *testing.T) {
	s := newScene(t)
	s.found()
	s.record.Change = &record.Change{Join: []view.MemberID{s.record.Newcomer("d"), s.record.Newcomer("e")}}
	s.wait(4)
	s.wait(5)
	s.views(2, true, 1, 2, 3, 4, 5)
	s.hold(true, 1, 2, 4)
	s.reports[3] = Report{} // killed by the user
	s.reports[5] = Report{}
	s.waits("e to do its part")
	s.wait(5)
	s.hold(true, 5)
	s.views(3, false, 1, 2, 3, 4, 5)
	s.hold(true, 1, 2)
	s.waits("d, e to hold")
	s.hold(true, 4, 5)
	s.over()
}

func TestAViewIsNotMadeBeforeTheOneBeforeIsCommitted(t *testing.T) {
	s := newScene(t)
	s.views(1, false, 1, 2, 3)
	s.record.Change = &record.Change{Join: []view.MemberID{s.record.Newcomer("d")}, Leave: []view.MemberID{1}}
	s.wait(4)
	s.hold(true, 3)
	s.waits("a quorum to hold the view of epoch 1")
	s.hold(true, 2)
	s.views(2, true, 1, 2, 3, 4)
}
