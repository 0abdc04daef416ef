package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/clients"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A record that is lost together with a majority of the view that it would have to be rebuilt as can't be told apart
// from that of a change that was finished by just those who are lost; any other ends. Here one of three members has
// lost its disk, both newcomers lose theirs once the change is given up, and that is told to nobody before it is
// forgotten.
func TestRecordsThatAreForgotten(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name             string
		abandon, forgets bool
		lost             []view.MemberID
		hopeless         bool
	}{
		{"with three of five disks", true, true, []view.MemberID{1, 4, 5}, true},
		{"with two of five disks", true, true, []view.MemberID{1, 4}, false},
		{"before the change is given up", false, true, []view.MemberID{4, 5}, false},
		{"by nobody", true, false, []view.MemberID{1, 4, 5}, false},
	} {
		// Order is irrelevant: each is a test.
		for name, inner := range map[string]member.Factory{"ABD": abd.Factory, "Gryff": gryff.Factory} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				s, _ := directed.Triangle(1)
				for home := range 3 {
					directed.Plan(&s, home, 10*ms, register.Operation{Kind: register.Write, Value: register.Value("old")})
					directed.Plan(&s, home, time.Second, register.Operation{Kind: register.Write, Value: register.Value("new")})
				}
				took := map[string]int{}
				k := &kernel.Kernel{Context: t.Context(), Seed: s.Seed, Count: func(path string) { took[path]++ }}
				w := newRun(k, s.Environment, Member(inner), false, 2)
				for _, plan := range s.Clients {
					operations := clients.Planned(plan.Operations)
					w.Clients.Add(plan.Home, &operations, 0)
				}
				m := w.Manager
				m.Losses = 1 // it loses its record here, and not at random
				m.Want(&faults.Injected{Fault: faults.Fault{Kind: faults.Change, For: 10 * ms, Join: 2, Side: 1 << 1}})
				lose := func(id view.MemberID) {
					nd := w.Nodes[id-1]
					if !w.Manager.Tolerates(nd) {
						t.Fatalf("member %d may not lose its disk", id)
					}
					nd.Crash(0, 0)
					nd.Wipe()
				}
				if !w.Run(time.Second, func() bool { return m.Made[m.Record].Joint() }) {
					t.Fatalf("nobody joins: %v", w.Err)
				}
				lose(c.lost[0])
				if !w.Run(time.Second, func() bool { return w.Nodes[2].Held == m.Record }) || m.Made[m.Record].Held {
					t.Fatalf("one member at least, and no quorum, is to hold the joint view: %v", w.Err)
				}
				if c.abandon {
					m.Take(m.Change, membership.Decide(membership.Snapshot{View: m.Made[m.Record].View, Abandon: true}))
				}
				for _, id := range c.lost[1:] {
					lose(id)
				}
				if c.forgets {
					m.Losses++
					m.LoseRecord()
				}
				class, reason := w.live(2 * time.Second)
				if class != "" || w.hopeless != c.hopeless {
					t.Fatalf("hopeless: %v; %s: %s", w.hopeless, class, reason)
				}
				if rebuilt := c.forgets && !c.hopeless; rebuilt != (took["change.rebuilt"] > 0) {
					t.Errorf("rebuilt: %d", took["change.rebuilt"])
				}
				if class, reason := w.judge(w.Clients.Recorder.Operations(), checkTimeout); class != "" {
					t.Errorf("%s: %s", class, reason)
				}
			})
		}
	}
}

func TestWhichRecordsAreUnknowable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		known   bool            // the record is
		lost    []view.MemberID // disks
		knowing view.MemberID   // who was told that the change was abandoned, or nobody
		want    bool
	}{
		{name: "nobody is lost"},
		{name: "a majority after the change is left", lost: []view.MemberID{1, 4}},
		{name: "both newcomers", lost: []view.MemberID{4, 5}},
		{name: "a majority after the change is lost", lost: []view.MemberID{1, 4, 5}, want: true},
		{name: "a majority before it is lost", lost: []view.MemberID{1, 2}, want: true},
		{name: "and the record is known", known: true, lost: []view.MemberID{1, 4, 5}},
		{name: "and somebody knows the view after it", lost: []view.MemberID{1, 4, 5}, knowing: 3},
		{name: "of that view too, a majority is lost", lost: []view.MemberID{1, 2, 4}, knowing: 3, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := directed.Triangle(1)
			w := newRun(&kernel.Kernel{Context: t.Context(), Seed: 1}, s.Environment, Member(abd.Factory), false, 2)
			m := w.Manager
			var founders []membership.Founder
			for _, nd := range w.Nodes[3:] {
				nd.Born = true
				founders = append(founders, membership.Founder{ID: nd.Config.Self, Disk: nd.Disk()})
			}
			joint, err := membership.Change(m.Made[0].View, founders, nil)
			if err != nil {
				t.Fatal(err)
			}
			before, err := membership.Abandon(joint)
			if err != nil {
				t.Fatal(err)
			}
			held, after := m.Add(joint), m.Add(before)
			for _, nd := range w.Nodes {
				if nd.Lost = slices.Contains(c.lost, nd.Config.Self); !nd.Lost {
					nd.Enter(held)
				}
				if nd.Config.Self == c.knowing {
					nd.Enter(after)
				}
			}
			m.Lost = !c.known
			if got := m.Hopeless(); got != c.want {
				t.Errorf("hopeless: %v", got)
			}
		})
	}
}
