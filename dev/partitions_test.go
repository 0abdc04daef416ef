package dev

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness"
)

func TestWhatCURPRefuses(t *testing.T) {
	c := founded(t, curpThree, Options{})
	for want, err := range map[string]error{
		"lost with that of its member; use `wipe a`": c.Wipe("a/witness"),
		`no site "x"`: c.Kill("x/witness"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := founded(t, threeSites, Options{}).Kill("a/witness"); err == nil ||
		!strings.Contains(err.Error(), "protocol Gryff has no witnesses") {
		t.Errorf("%v", err)
	}
}

// runWitness runs the witness beside a member in this process, until the test ends.
func runWitness(t *testing.T, c *Cluster, m *member) {
	t.Helper()
	config := m.witness.config().(witness.Config)
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- witness.Run(ctx, config, witness.Options{Listening: func(net.Addr) { close(listening) }})
	}()
	select {
	case <-listening:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	start(t, &m.witness.unit) // that stands for it
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Lives begin when their view is recorded, and end when no partition needs them.
func TestLivesFollowTheView(t *testing.T) {
	c := founded(t, curpThree, Options{})
	r := &c.directory.Record
	for _, m := range c.processes.all() {
		runWitness(t, c, m)
	}
	// The members say that they hold the view and have recovered their partitions.
	say := func() map[view.MemberID]decide.Report {
		reports, witnesses := map[view.MemberID]decide.Report{}, c.processes.askWitnesses(t.Context())
		for _, m := range r.Members {
			said := &membership.MemberReport{
				Member: m.ID, Disk: fmt.Sprint("disk-", m.ID), Digest: r.View.Digest(), Epoch: r.View.Epoch,
			}
			for _, p := range r.View.Partitions {
				said.Partitions = append(said.Partitions,
					membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term, Recovered: p.Master == m.ID})
			}
			reports[m.ID] = decide.Report{Running: true, Member: said, Witness: witnesses[m.ID]}
		}
		return reports
	}
	awaitLives := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			reports := say()
			var got []string
			for _, m := range r.Members {
				for _, l := range reports[m.ID].Witness.Lives {
					got = append(got, fmt.Sprintf("%s %d/%d", m.Label, l.Partition, l.Term))
				}
			}
			if strings.Join(got, ", ") == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("lives are %q, want %q", got, want)
			}
			c.apply(t.Context(), reports)
		}
	}
	defer c.processes.background.Wait()
	for i, reports := 0, say(); i < len(r.Members); i++ { // the disks that they have
		r.View.Witnesses[i].Disk = reports[r.Members[i].ID].Witness.Disk
	}
	awaitLives("a 2/1, b 0/1, c 1/1")
	// Others take the place of member a; when they have recovered, the earlier lives are over.
	r.View.Epoch++
	r.View.Partitions = []view.Partition{
		{Term: 2, Master: 3, Backups: []view.MemberID{5}, Witnesses: []view.MemberID{6}}, r.View.Partitions[1],
		{Term: 2, Master: 5, Backups: []view.MemberID{3}, Witnesses: []view.MemberID{4}},
	}
	awaitLives("b 2/2, c 0/2, c 1/1")
}

func TestWhatAMemberTells(t *testing.T) {
	got := fmt.Sprintf("%+v", *Observation{ID: 5, Status: &adminv1.StatusResponse{
		Disk: "d", Digest: "x", View: &adminv1.View{Epoch: 4},
		Peers:     []*adminv1.Peer{{Member: 1, Reachable: true}, {Member: 3, Connected: true}},
		Witnesses: []*adminv1.Peer{{Member: 2, Reachable: true}, {Member: 4}},
		Partitions: []*adminv1.Part{
			{
				Term: 7, Lost: true, Recovered: true, Restarted: true, CaughtUp: []uint32{3}, Copying: true,
				WholeTerm: 6, NotedTerm: 5, Length: 9,
			},
		},
	}}.report().Member)
	want := "{Member:5 Disk:d Digest:x Epoch:4 Settled:false Fetched:false Hears:[1 2] Partitions:[{Term:7 Lost:true " +
		"Recovered:true Restarted:true CaughtUp:[3] Copying:true WholeTerm:6 NotedTerm:5 Length:9}]}"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A newcomer that waits is no good without the witness beside it.
func TestANewcomerNeedsItsWitness(t *testing.T) {
	o := Observation{State: Waiting, Witness: &WitnessObservation{State: Crashed, Reason: "disk full"}}
	if why := o.report().Crashed; why != "disk full" {
		t.Errorf("%q", why)
	}
}

func TestWhatRecoverRefuses(t *testing.T) {
	for _, tt := range []struct {
		spec string
		who  []string
		want string
	}{
		{curpThree, []string{"a"}, "all members that are left go on: `recover all`"},
		{threeSites, []string{"a", "1"}, "use: recover MEMBER"},
	} {
		if _, err := founded(t, tt.spec, Options{}).Recover(t.Context(), tt.who[0], tt.who[1:]...); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.who, err, tt.want)
		}
	}
}

// With masters, a member on another disk than the view names follows on it, and is no part of a quorum; without, it
// counts as soon as it votes again.
func TestWhoIsOnAnotherDiskIsNoPartOfAQuorum(t *testing.T) {
	for spec, want := range map[string]bool{curpThree: false, threeSites: true} {
		v := founded(t, spec, Options{}).directory.Record.View
		at := func(disks ...string) (all []Observation) {
			for i, disk := range disks {
				all = append(all, Observation{
					ID: v.Members[i].ID, State: Serving, Status: &adminv1.StatusResponse{Disk: disk},
				})
			}
			return all
		}
		if !reachesQuorum(v, at(v.Members[0].Disk, v.Members[1].Disk)) {
			t.Errorf("%s: two of three on their disks are no quorum", spec)
		}
		if got := reachesQuorum(v, at(v.Members[0].Disk, "another")); got != want {
			t.Errorf("%s: with a member on another disk a quorum is reached: %t", spec, got)
		}
	}
}
