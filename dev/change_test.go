package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/dev/process"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// Members are told how long it takes from every site at which one may join later.
func TestDistances(t *testing.T) {
	for spec, want := range map[string]string{
		"{protocol: Gryff, sites: [{name: ca}, {name: va}, {name: ir}], wan: {profile: gryff}}": "[{va 36ms 0s} {ir " +
			"75.5ms 0s} {or 29.5ms 0s} {jp 56.5ms 0s}]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}": "[]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], wan: {links: [{between: [a, b], rtt: 3ms, " +
			"jitter: 1ms}, " +
			"{between: [a, c], rtt: 4ms}, {between: [b, c], rtt: 5ms}]}}": "[{b 1.5ms 1ms} {c 2ms 0s}]",
		// Members delay what comes to them: here, to a.
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], wan: {links: [" +
			"{between: [a, b], rtt: 3ms, jitter: 1ms, directions: [{from: b, delay: 7ms}, {from: a, delay: 9ms, " +
			"jitter: 2ms}]}, " +
			"{between: [c, a], rtt: 4ms, directions: [{from: c, delay: 0s, jitter: 5ms}]}, " +
			"{between: [b, c], rtt: 5ms, directions: [{from: c, delay: 8ms}]}]}}": "[{b 7ms 1ms} {c 0s 5ms}]",
	} {
		c := clusterOf(t, spec, Options{})
		c.processes.links[between(1, 3)] = true
		config := c.processes.memberConfig(c.processes.all()[0])
		var got []string
		for _, d := range config.Distances {
			got = append(got, fmt.Sprintf("{%s %s %s}", d.Site, time.Duration(d.Delay), time.Duration(d.Jitter)))
		}
		if text := fmt.Sprint(got); text != want {
			t.Errorf("%s: %s, want %s", spec, text, want)
		}
		if fmt.Sprint(config.Blocked) != "[3]" || *config.TransferRate != node.DefaultTransferRate {
			t.Errorf("links %v are cut, and the rate is %d", config.Blocked, *config.TransferRate)
		}
		if err := config.Validate(); err != nil {
			t.Errorf("%s: a member can't start with it: %v", spec, err)
		}
	}
}

const (
	threeSites     = "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}"
	curpThree      = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}]}"
	dedicatedThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], curp: {witness: {placement: " +
		"Dedicated}}}"
)

func manifest(t *testing.T, spec string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	m, err := v1alpha1.Decode(
		[]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// clusterOf is a cluster with members and witnesses, of which none has been started, and which nobody drives.
func clusterOf(t *testing.T, spec string, o Options) *Cluster {
	t.Helper()
	o.Manifest = manifest(t, spec)
	d, err := record.Open(t.TempDir(), o.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Assign(d.Record.Members, d.Record.Witnesses, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{operator: newOperator(o, d)}
	for _, r := range d.Record.Members {
		m, err := c.processes.newMember(r)
		if err != nil {
			t.Fatal(err)
		}
		c.processes.members = append(c.processes.members, m)
	}
	for _, w := range d.Record.Witnesses {
		c.processes.dedicated = append(c.processes.dedicated, c.processes.newDedicated(w))
	}
	return c
}

// founded is such a cluster with its first view.
func founded(t *testing.T, spec string, o Options) *Cluster {
	t.Helper()
	c := clusterOf(t, spec, o)
	r := &c.directory.Record
	reports := map[view.MemberID]decide.Report{}
	disk := func(id view.MemberID) string { return fmt.Sprint("disk-", id) }
	for _, m := range r.Members {
		reports[m.ID] = decide.Report{
			Disk: disk(m.ID), Waiting: true,
			Witness: &membership.WitnessReport{Witness: m.Witness, Disk: disk(m.Witness)},
		}
	}
	for _, w := range r.Witnesses {
		reports[w.ID] = decide.Report{Witness: &membership.WitnessReport{Witness: w.ID, Disk: disk(w.ID)}}
	}
	step, err := c.situation(reports).Next()
	if err != nil || step.View.Epoch != 1 {
		t.Fatalf("%+v: %v", step, err)
	}
	r.View = step.View
	return c
}

// start has a unit have a process that runs until it is killed, or the test is over.
func start(t *testing.T, u *unit) {
	t.Helper()
	binary, directory := filepath.Join(t.TempDir(), "waits"), t.TempDir()
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(binary, "", directory)
	if err != nil {
		t.Fatal(err)
	}
	u.set(p)
	t.Cleanup(p.Kill)
}

func TestWhatIsAllowed(t *testing.T) {
	const gryff = "{protocol: Gryff, sites: [{name: ca}, {name: va}, {name: ir}], wan: {profile: gryff}}"
	states := func(all ...State) (o []Observation) {
		for i, s := range all {
			o = append(o, Observation{ID: view.MemberID(i + 1), State: s})
		}
		return o
	}
	whole := states(Serving, Serving, Serving)
	for name, test := range map[string]struct {
		spec    string
		members []Observation
		join    []string
		leave   []view.MemberID
		want    string // empty: it is allowed
	}{
		"two join":        {gryff, whole, []string{"or", "jp"}, nil, ""},
		"one for another": {gryff, whole, []string{"va"}, []view.MemberID{2}, ""},
		"one joins": {
			gryff, whole, []string{"or"}, nil,
			"0 of 3 members would leave and 1 join: protocol Gryff runs with 3, 5 or 7",
		},
		"all leave": {gryff, whole, nil, []view.MemberID{1, 2, 3}, "3 of 3 members would leave"},
		"beyond the profile": {
			gryff, whole, []string{"or", "mars"}, nil,
			"site mars: the manifest's spec.wan does not say how far it is; it knows ca, va, ir, or, jp",
		},
		"no name of a site": {threeSites, whole, []string{"d", "E"}, nil, `site "E"`},
		"any name":          {threeSites, whole, []string{"d", "e"}, nil, ""},
		"with one down":     {gryff, states(Serving, Down, Serving), []string{"va"}, []view.MemberID{2}, ""},
		"without a quorum": {
			gryff, states(Serving, Down, Joining), []string{"va"}, []view.MemberID{2},
			"is serving,  is down,  is joining; restart or heal members",
		},
		"without an answer": {gryff, nil, []string{"va"}, []view.MemberID{2}, "no quorum is in reach"},
		"a voter without peer": {
			gryff, states(Serving, NoQuorum, NoQuorum), []string{"va"}, []view.MemberID{2}, "no quorum is in reach",
		},
	} {
		c := founded(t, test.spec, Options{})
		err := c.allowed(test.members, test.join, test.leave)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		c.directory.Record.Change = &record.Change{Join: []view.MemberID{4}}
		if err := c.allowed(whole, test.join, test.leave); err == nil ||
			!strings.Contains(err.Error(), "a change is going on already") {
			t.Errorf("%s, during a change: %v", name, err)
		}
	}
}

// connects is a member that reaches a quorum once it was asked so often.
type connects struct {
	adminv1.AdminClient
	asked *int
	after int
}

func (c connects) Status(context.Context, *adminv1.StatusRequest, ...grpc.CallOption) (*adminv1.StatusResponse, error) {
	*c.asked++
	if *c.asked < c.after-1 { // it takes on a view
		return &adminv1.StatusResponse{Role: adminv1.Role_WAITING}, nil
	}
	return &adminv1.StatusResponse{Role: adminv1.Role_VOTER, Quorum: *c.asked >= c.after}, nil
}

// A change waits until members have connected, and says so once; but not for those that don't run.
func TestAChangeWaitsForAQuorumToConnect(t *testing.T) {
	for _, tt := range []struct {
		alive, asks int
		said        string
	}{
		{3, 4, "[before members change: waiting for a quorum to connect]"},
		{2, 4, "[before members change: waiting for a quorum to connect]"}, {1, 1, "[]"},
	} {
		var said []string
		c := founded(t, threeSites, Options{Report: func(line string) { said = append(said, line) }})
		asked := make([]int, c.Members())
		for i, m := range c.processes.all() {
			m.admin = connects{asked: &asked[i], after: 4}
			if start(t, &m.unit); i >= tt.alive {
				kill(m.units())
			}
		}
		reaches := reachesQuorum(c.view(), c.gather(t.Context()))
		if reaches != (tt.alive > 1) || asked[0] != tt.asks || fmt.Sprint(said) != tt.said {
			t.Errorf("%d alive: quorum %t after %d looks, and %q", tt.alive, reaches, asked[0], said)
		}
	}
}

func TestWhoCanBeTrusted(t *testing.T) {
	c := founded(t, threeSites, Options{})
	voter := &adminv1.StatusResponse{Role: adminv1.Role_VOTER}
	observations := func(first State, status *adminv1.StatusResponse) []Observation {
		return []Observation{
			{ID: 1, Label: "a", State: first, Status: status}, {ID: 2, State: Down}, {ID: 3, State: Down},
		}
	}
	for name, test := range map[string]struct {
		site string
		seen []Observation
		want string
	}{
		"a voter":          {"a", observations(NoQuorum, voter), ""},
		"nobody":           {"x", observations(NoQuorum, voter), `no site "x"`},
		"one that is down": {"a", observations(Down, nil), "`restart a` first"},
		"one without its disk": {
			"a", observations(Joining, &adminv1.StatusResponse{Role: adminv1.Role_LEARNER}), "does not have the state",
		},
		"one of a quorum": {"a",
			[]Observation{{ID: 1, State: Serving, Status: voter}, {ID: 2, State: Serving}, {ID: 3, State: Down}},
			"a quorum is in reach"},
	} {
		_, err := c.trusted(test.site, test.seen)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	// In a joint view, one that joins is as good as the others once it has their state.
	r := &c.directory.Record
	r.View.Members[0].Joining = true
	joins := func(fetched bool) []Observation {
		return observations(NoQuorum,
			&adminv1.StatusResponse{
				Role: adminv1.Role_VOTER, Change: &adminv1.Change{Transfers: true, Fetched: fetched},
			})
	}
	if _, err := c.trusted("a", joins(false)); err == nil || !strings.Contains(err.Error(), "does not have the state") {
		t.Errorf("one that has fetched a part: %v", err)
	}
	if _, err := c.trusted("a", joins(true)); err != nil {
		t.Errorf("one that has fetched everything: %v", err)
	}
}

// Whoever follows a change hears all of it, also what was said before, and how it ended.
func TestProgress(t *testing.T) {
	var reported []string
	p := newProgress(func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) })
	p.line("epoch %d", 2)
	p.waits("a settles")
	p.waits("a is settled") // too soon for another line
	follow := func(ctx context.Context) ([]string, error) {
		var lines []string
		err := p.follow(ctx, func(line string) { lines = append(lines, line) })
		return lines, err
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopping"))
	if lines, err := follow(gone); !slices.Equal(lines, []string{"epoch 2", "a settles"}) || err == nil ||
		!strings.Contains(err.Error(), "stopping") {
		t.Errorf("followed %q, %v", lines, err)
	}
	p.line("over")
	p.end(nil)
	if lines, err := follow(t.Context()); !slices.Equal(lines, reported) || len(lines) != 3 || err != nil ||
		p.last() != "over" {
		t.Errorf("followed %q of %q, %v", lines, reported, err)
	}
	p.end(errors.New("given up"))
	if _, err := follow(t.Context()); err == nil || err.Error() != "given up" {
		t.Errorf("a change that was given up ends with %v", err)
	}
}

func TestHowFarAMemberIs(t *testing.T) {
	r := &founded(t, threeSites, Options{}).directory.Record
	r.Change = &record.Change{Join: []view.MemberID{r.Newcomer("d")}, Leave: []view.MemberID{3}}
	if text := parts(r, nil, "d to start"); text != "waiting for d to start" {
		t.Errorf("before the joint view: %q", text)
	}
	r.View.Epoch = 2
	r.View.Members = append(slices.Clone(r.View.Members), view.Member{ID: 4, Disk: "disk-4", Joining: true})
	r.View.Members[2].Leaving = true
	joint := r.View
	status := func(c *adminv1.Change) *adminv1.StatusResponse {
		return &adminv1.StatusResponse{View: wire.ToProto(joint), Digest: joint.Digest(), Change: c}
	}
	const mib = 1 << 20
	text := parts(r, []Observation{
		{ID: 1, Label: "a", Status: status(&adminv1.Change{Settled: true})},
		{ID: 2, Label: "b", State: Down},
		{ID: 3, Label: "c", Status: status(nil)}, // it leaves: nobody waits for it
		{
			ID: 4, Label: "d",
			Status: status(&adminv1.Change{Transfers: true, Bytes: 3 * mib / 2, RemainingBytes: 5 * mib}),
		},
	}, "")
	if want := "a is settled, b is down, d fetched 1.5 MiB, about 5.0 MiB to go"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	for want, o := range map[string]Observation{
		"settles": {Status: status(&adminv1.Change{})},
		"fetched all, 2.0 MiB": {
			Status: status(&adminv1.Change{Settled: true, Transfers: true, Fetched: true, Bytes: 2 * mib}),
		},
		"is to be told": {Status: &adminv1.StatusResponse{}},
	} {
		if got := o.part(joint); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// linked is a member that notes which links it is told of.
type linked struct {
	adminv1.AdminClient
	told *[]string
}

func (l linked) SetLink(
	_ context.Context, r *adminv1.SetLinkRequest, _ ...grpc.CallOption,
) (*adminv1.SetLinkResponse, error) {
	*l.told = append(*l.told, fmt.Sprint(r.Member, "-", r.Peer, " ", r.Blocked))
	return &adminv1.SetLinkResponse{}, nil
}

// listen has the members of a cluster run, and note which links they are told of.
func listen(t *testing.T, c *Cluster) (told *[]string) {
	t.Helper()
	told = new([]string)
	for _, m := range c.processes.all() {
		m.admin = linked{told: told}
		start(t, &m.unit)
	}
	return told
}

// A newcomer that waits for its view refuses to be told of links, and nobody knows one to it. A witness is on the side
// of its member, or of its site.
func TestWhatIsCutAndHealed(t *testing.T) {
	for spec, cut := range map[string][]string{
		threeSites:     {"1-3", "3-1"},
		curpThree:      {"1-5", "1-6", "5-1", "5-2"},
		dedicatedThree: {"1-6", "1-5", "5-2", "5-1"},
	} {
		c := founded(t, spec, Options{})
		told := listen(t, c)
		if err := c.Partition("a", "c"); err != nil {
			t.Fatal(err)
		}
		blocked := c.processes.memberConfig(c.processes.all()[0]).Blocked
		if want := len(cut) / 2; len(blocked) != want || len(*told) != 2*want || !slices.IsSorted(blocked) {
			t.Errorf("%s: blocked from the start: %d, and told %q", spec, blocked, *told)
		}
		if err := errors.Join(c.Heal(), c.Heal()); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, blocked := range []bool{true, false} {
			for _, l := range cut {
				want = append(want, fmt.Sprint(l, " ", blocked))
			}
		}
		slices.Sort(want)
		if slices.Sort(*told); !slices.Equal(*told, want) {
			t.Errorf("%s: told %q, want %q", spec, *told, want)
		}
	}
}

func TestRecoverOfOneThatWasJustAdded(t *testing.T) {
	c := founded(t, threeSites, Options{})
	if _, err := c.trusted("b", nil); err == nil || !strings.Contains(err.Error(), "just been added") {
		t.Errorf("got %v", err)
	}
}
