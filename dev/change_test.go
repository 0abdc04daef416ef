package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// Members are told how long it takes from every site at which one may join later.
func TestDistances(t *testing.T) {
	for spec, want := range map[string]string{
		"{protocol: Gryff, sites: [{name: ca}, {name: va}, {name: ir}], wan: {profile: gryff}}": "[{va 36ms 0s} {ir 75.5ms 0s} {or 29.5ms 0s} {jp 56.5ms 0s}]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}":                           "[]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], wan: {links: [{between: [a, b], rtt: 3ms, jitter: 1ms}, " +
			"{between: [a, c], rtt: 4ms}, {between: [b, c], rtt: 5ms}]}}": "[{b 1.5ms 1ms} {c 2ms 0s}]",
		// Members delay what comes to them: here, to a.
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], wan: {links: [" +
			"{between: [a, b], rtt: 3ms, jitter: 1ms, directions: [{from: b, delay: 7ms}, {from: a, delay: 9ms, jitter: 2ms}]}, " +
			"{between: [c, a], rtt: 4ms, directions: [{from: c, delay: 0s, jitter: 5ms}]}, " +
			"{between: [b, c], rtt: 5ms, directions: [{from: c, delay: 8ms}]}]}}": "[{b 7ms 1ms} {c 0s 5ms}]",
	} {
		m := manifest(t, spec)
		r := newRecord(m)
		c := &Cluster{options: Options{Manifest: m}, directory: &directory{record: r}, cut: map[link]bool{between(1, 3): true}}
		config := c.config(&member{record: r.Members[0]})
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

// founded is a cluster of three without processes.
func founded(t *testing.T, spec string) *Cluster {
	t.Helper()
	m := manifest(t, spec)
	c := &Cluster{options: Options{Manifest: m}, directory: &directory{path: t.TempDir(), record: newRecord(m)}, woken: make(chan struct{}, 1)}
	r := &c.directory.record
	v := view.View{Cluster: r.Cluster, Epoch: 1}
	for _, m := range r.Members {
		f := m.founder(fmt.Sprint("disk-", m.ID))
		v.Members = append(v.Members, view.Member{ID: f.ID, Site: f.Site, Address: f.Address, Disk: f.Disk})
		c.members = append(c.members, &member{record: m})
	}
	r.View = v
	return c
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
		"two join":             {gryff, whole, []string{"or", "jp"}, nil, ""},
		"one for another":      {gryff, whole, []string{"va"}, []view.MemberID{2}, ""},
		"one joins":            {gryff, whole, []string{"or"}, nil, "0 of 3 members would leave and 1 join: protocol Gryff runs with 3, 5 or 7"},
		"all leave":            {gryff, whole, nil, []view.MemberID{1, 2, 3}, "3 of 3 members would leave"},
		"beyond the profile":   {gryff, whole, []string{"or", "mars"}, nil, "site mars: the manifest's spec.wan does not say how far it is; it knows ca, va, ir, or, jp"},
		"no name of a site":    {threeSites, whole, []string{"d", "E"}, nil, `site "E"`},
		"any name":             {threeSites, whole, []string{"d", "e"}, nil, ""},
		"with one down":        {gryff, states(Serving, Down, Serving), []string{"va"}, []view.MemberID{2}, ""},
		"without a quorum":     {gryff, states(Serving, Down, Joining), []string{"va"}, []view.MemberID{2}, "is serving,  is down,  is joining; restart or heal members"},
		"without an answer":    {gryff, nil, []string{"va"}, []view.MemberID{2}, "no quorum is in reach"},
		"a voter without peer": {gryff, states(Serving, NoQuorum, NoQuorum), []string{"va"}, []view.MemberID{2}, "no quorum is in reach"},
	} {
		c := founded(t, test.spec)
		err := c.allowed(test.members, test.join, test.leave)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		c.directory.record.Change = &change{Join: []view.MemberID{4}}
		if err := c.allowed(whole, test.join, test.leave); err == nil || !strings.Contains(err.Error(), "a change is going on already") {
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
	}{{3, 4, "[before members change: waiting for a quorum to connect]"}, {2, 4, "[before members change: waiting for a quorum to connect]"}, {1, 1, "[]"}} {
		c := founded(t, threeSites)
		var said []string
		c.options.Report = func(line string) { said = append(said, line) }
		asked := make([]int, len(c.members))
		for i, m := range c.members {
			m.admin = connects{asked: &asked[i], after: 4}
			m.process = &process{command: &exec.Cmd{Process: &os.Process{}}, ended: make(chan struct{}), wanted: true}
			if i >= tt.alive {
				close(m.process.ended)
			}
		}
		if reaches := reachesQuorum(c.view(), c.gather(t.Context())); reaches != (tt.alive > 1) || asked[0] != tt.asks || fmt.Sprint(said) != tt.said {
			t.Errorf("%d alive: quorum %t after %d looks, and %q", tt.alive, reaches, asked[0], said)
		}
	}
}

func TestWhoCanBeTrusted(t *testing.T) {
	c := founded(t, threeSites)
	voter := &adminv1.StatusResponse{Role: adminv1.Role_VOTER}
	observations := func(first State, status *adminv1.StatusResponse) []Observation {
		return []Observation{{ID: 1, Label: "a", State: first, Status: status}, {ID: 2, State: Down}, {ID: 3, State: Down}}
	}
	for name, test := range map[string]struct {
		site string
		seen []Observation
		want string
	}{
		"a voter":              {"a", observations(NoQuorum, voter), ""},
		"nobody":               {"x", observations(NoQuorum, voter), `no site "x"`},
		"one that is down":     {"a", observations(Down, nil), "`restart a` first"},
		"one without its disk": {"a", observations(Joining, &adminv1.StatusResponse{Role: adminv1.Role_LEARNER}), "does not have the state"},
		"one of a quorum": {"a", []Observation{{ID: 1, State: Serving, Status: voter}, {ID: 2, State: Serving}, {ID: 3, State: Down}},
			"a quorum is in reach"},
	} {
		_, err := c.trusted(test.site, test.seen)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	// In a joint view, one that joins is as good as the others once it has their state.
	r := &c.directory.record
	r.View.Members[0].Joining = true
	joins := func(fetched bool) []Observation {
		return observations(NoQuorum, &adminv1.StatusResponse{Role: adminv1.Role_VOTER, Change: &adminv1.Change{Transfers: true, Fetched: fetched}})
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
	p := newProgress(func(line string) { reported = append(reported, line) })
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
	if lines, err := follow(gone); !slices.Equal(lines, []string{"epoch 2", "a settles"}) || err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("followed %q, %v", lines, err)
	}
	p.line("over")
	p.end(nil)
	if lines, err := follow(t.Context()); !slices.Equal(lines, reported) || len(lines) != 3 || err != nil || p.last() != "over" {
		t.Errorf("followed %q of %q, %v", lines, reported, err)
	}
	p.end(errors.New("given up"))
	if _, err := follow(t.Context()); err == nil || err.Error() != "given up" {
		t.Errorf("a change that was given up ends with %v", err)
	}
}

func TestHowFarAMemberIs(t *testing.T) {
	s := newScene(t)
	s.found()
	s.record.Change = &change{Join: []view.MemberID{s.record.newcomer("d")}, Leave: []view.MemberID{3}}
	s.wait(4)
	if text := s.record.parts(nil, "d to start"); text != "waiting for d to start" {
		t.Errorf("before the joint view: %q", text)
	}
	s.views(2, true, 1, 2, 3, 4)
	joint := s.record.View
	status := func(c *adminv1.Change) *adminv1.StatusResponse {
		return &adminv1.StatusResponse{View: wire.ToProto(joint), Digest: joint.Digest(), Change: c}
	}
	const mib = 1 << 20
	text := s.record.parts([]Observation{
		{ID: 1, Label: "a", Status: status(&adminv1.Change{Settled: true})},
		{ID: 2, Label: "b", State: Down},
		{ID: 3, Label: "c", Status: status(nil)}, // it leaves: nobody waits for it
		{ID: 4, Label: "d", Status: status(&adminv1.Change{Transfers: true, Bytes: 3 * mib / 2, RemainingBytes: 5 * mib})},
	}, "")
	if want := "a is settled, b is down, d fetched 1.5 MiB, about 5.0 MiB to go"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	for want, o := range map[string]Observation{
		"settles":              {Status: status(&adminv1.Change{})},
		"fetched all, 2.0 MiB": {Status: status(&adminv1.Change{Settled: true, Transfers: true, Fetched: true, Bytes: 2 * mib})},
		"is to be told":        {Status: &adminv1.StatusResponse{}},
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

func (l linked) SetLink(_ context.Context, r *adminv1.SetLinkRequest, _ ...grpc.CallOption) (*adminv1.SetLinkResponse, error) {
	*l.told = append(*l.told, fmt.Sprint(r.Member, "-", r.Peer, " ", r.Blocked))
	return &adminv1.SetLinkResponse{}, nil
}

// A newcomer that waits for its view refuses to be told of links, and nobody knows one to it.
func TestHealMendsWhatWasCut(t *testing.T) {
	c := founded(t, threeSites)
	c.cut = map[link]bool{}
	var told []string
	for _, m := range c.members {
		m.admin, m.process = linked{told: &told}, &process{ended: make(chan struct{})}
	}
	if err := errors.Join(c.Partition("a", "c"), c.Heal(), c.Heal()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1-3 true", "3-1 true", "1-3 false", "3-1 false"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestRecoverOfOneThatWasJustAdded(t *testing.T) {
	c := founded(t, threeSites)
	if _, err := c.trusted("b", nil); err == nil || !strings.Contains(err.Error(), "just been added") {
		t.Errorf("got %v", err)
	}
}
