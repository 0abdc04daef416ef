package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/workload"
)

// comparison runs every protocol that a manifest could name, where that manifest's members are, in virtual time.
type comparison struct {
	spec     v1alpha1.GeoRegisterClusterSpec
	rtt      string // the round trips between sites, where the manifest has none
	mix      string
	conflict float64
	clients  int
	duration time.Duration // 0: as long as it takes for roundTrips
	bySite   bool
}

// roundTrips is how many of the longest round trips a comparison takes if nobody says how long it is to take.
const roundTrips = 150

// compared is what one protocol gives.
type compared struct {
	name     string
	protocol capability.Protocol
	figures  map[register.Kind]workload.KindFigures
}

// allSites stands for all sites together, in lines of them.
const allSites = ""

// run prints what each protocol gives. Progress goes to told.
func (c comparison) run(ctx context.Context, out, told io.Writer) error {
	network, err := c.network()
	if err != nil {
		return err
	}
	experiment, err := c.experiment(network)
	if err != nil {
		return err
	}
	experiment.Progress = progress(told, experiment.Duration)
	ctx, stop := boundMemory(ctx, toolMemory(), "lower --duration or --clients")
	defer stop()
	var rows []compared
	var without []string
	for _, row := range capability.Table() {
		if err := row.CheckMembers(len(network.Sites)); err != nil {
			without = append(without, err.Error())
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(told, "%s: %v of virtual time\n", row.Name, experiment.Duration)
		for _, fragments := range c.fragments(row) {
			figures, err := c.measure(ctx, row, experiment, fragments)
			if err != nil {
				return fmt.Errorf("%s: %w", row.Name, err)
			}
			rows = append(rows, compared{c.name(row, fragments), row, figures})
		}
	}
	sites := []string{allSites}
	if c.bySite {
		sites = append(slices.Clone(network.Sites), allSites)
	}
	return c.print(out, rows, sites, network.Sites, without)
}

// experiment is what is the same for every protocol.
func (c comparison) experiment(network profile.Profile) (simulator.Experiment, error) {
	load := workload.Default()
	var err error
	if load.Mix, err = workload.ParseMix(c.mix); err != nil {
		return simulator.Experiment{}, fmt.Errorf("--workload: %w", err)
	}
	load.Conflict = c.conflict
	x := simulator.Experiment{Network: network, Clients: c.clients, Workload: load, Duration: c.duration, Seed: 1}
	if c.duration < 0 {
		return x, fmt.Errorf("--duration: %v; it must be positive", c.duration)
	}
	if c.duration == 0 {
		x.Duration = (roundTrips * network.Largest()).Round(time.Millisecond)
	}
	return x, checkExperiment(x)
}

// fragments are the numbers of fragments with which a protocol is compared: 0, for values that are stored whole, and
// what the manifest says of larger ones.
func (c comparison) fragments(row capability.Protocol) []int {
	if row.Name != c.spec.Protocol || c.spec.ErasureCoding() == nil {
		return []int{0}
	}
	return []int{0, int(c.spec.ErasureCoding().DataFragments)}
}

// shards is how many a cluster of the manifest would have with a protocol.
func (c comparison) shards(protocol string) int {
	spec := c.spec
	spec.Protocol = protocol
	return spec.ShardCount()
}

// measure runs one protocol. What it refuses, clients leave out: writes stand for rmws, or rmws for writes. With
// fragments all values are stored so.
func (c comparison) measure(
	ctx context.Context, row capability.Protocol, x simulator.Experiment, fragments int,
) (map[register.Kind]workload.KindFigures, error) {
	tolerance := 0
	if row.Name == c.spec.Protocol && (c.spec.FaultTolerance != nil || fragments > 0) {
		tolerance = c.spec.Faults()
	}
	s, err := findSimulated(row.Name, tolerance, fragments)
	if err != nil {
		return nil, err
	}
	x.Shards = c.shards(row.Name)
	mix := &x.Workload.Mix
	if row.CheckOperation(register.RMW) != nil {
		mix.Write, mix.RMW = mix.Write+mix.RMW, 0
	}
	if row.CheckOperation(register.Write) != nil {
		mix.Write, mix.RMW = 0, mix.Write+mix.RMW
	}
	s.runs(&x)
	m, err := simulator.Measure(ctx, x)
	if err != nil {
		return nil, err
	}
	if !m.OK() {
		return nil, fmt.Errorf("%s: %s", m.Report.Verdict, m.Reason)
	}
	return m.Report.Figures(), nil
}

// name is what the table calls a protocol.
func (c comparison) name(row capability.Protocol, fragments int) string {
	name := row.Name
	if fragments > 0 {
		name += " fragments"
	}
	if row.Name == c.spec.Protocol {
		name += " *"
	}
	return name
}

// print writes a line for each protocol and site, and where those with a fast path are slower than Raft.
func (c comparison) print(out io.Writer, rows []compared, sites, all, without []string) error {
	shards := fmt.Sprint(c.shards(c.spec.Protocol))
	if n := c.shards("CURP"); fmt.Sprint(n) != shards {
		shards += fmt.Sprintf(" (CURP: %d)", n)
	}
	fmt.Fprintf(out,
		"%d members at %d sites, %s shards; %d clients of each member; %s, of which %g%% are on a key that all "+
			"share.\n",
		c.spec.MemberCount(), len(c.spec.Sites), shards, c.clients, c.mix, c.conflict*100)
	fmt.Fprint(out,
		"Milliseconds from the call to the answer, without faults, in virtual time; * is the manifest's own.\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "protocol\tsite\tread p50\tp99\twrite p50\tp99\trmw p50\tp99\t\n")
	for _, row := range rows {
		for _, site := range sites {
			fmt.Fprintf(table, "%s\t%s\t", row.name, cmp.Or(site, "all"))
			for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
				f := row.figures[kind].Overall
				if site != allSites {
					f = row.figures[kind].Sites[site]
				}
				if f.Count > 0 {
					fmt.Fprintf(table, "%.1f\t%.1f\t", f.P50, f.P99)
				} else {
					fmt.Fprint(table, "-\t-\t")
				}
			}
			fmt.Fprintln(table)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Fprintln(out)
	if err := printSlower(out, rows, all); err != nil {
		return fmt.Errorf("write where protocols are slower: %w", err)
	}
	if e := c.spec.ErasureCoding(); e != nil {
		fmt.Fprintf(out,
			"Fragments: of values of more than %d bytes (spec.gus.erasureCoding); the other lines are of smaller "+
				"ones.\n", e.Threshold())
	}
	if len(c.spec.Homes) > 0 {
		fmt.Fprint(out, "Left out: spec.homes; CURP's masters are where distances say.\n")
	}
	if c.spec.Dedicated() {
		fmt.Fprint(out, "Left out: spec.curp.witness.placement; CURP's witnesses are beside members.\n")
	}
	for _, text := range without {
		fmt.Fprintf(out, "Not compared: %s.\n", text)
	}
	_, err := fmt.Fprint(out,
		"Where there are no rmws, clients write in their place, and the other way round. `georegister protocols` "+
			"says what each\n"+
			"guarantees and refuses; every history above was judged to have what its protocol guarantees.\n")
	return err
}

// network is the one that the manifest declares, or that --rtt gives it, with a site for each member: those of one site
// are as far from each other as a client from its member. Jitter, loss and rates are left out.
func (c comparison) network() (profile.Profile, error) {
	between := c.spec.RTT
	switch {
	case c.rtt != "" && c.spec.WAN != nil:
		return profile.Profile{},
			errors.New("--rtt: the manifest has round trips, in spec.wan; leave one of the two out")
	case c.rtt != "":
		given, err := profile.Parse(c.rtt)
		if err != nil {
			return profile.Profile{}, fmt.Errorf("--rtt: %w", err)
		}
		for _, site := range c.spec.Sites {
			if given.Index(site.Name) < 0 {
				return profile.Profile{},
					fmt.Errorf("--rtt: no round trips of site %s of the manifest; give those of every pair of sites",
						site.Name)
			}
		}
		between = func(a, b string) time.Duration { return given.RTT[given.Index(a)][given.Index(b)] }
	case c.spec.WAN == nil && len(c.spec.Sites) > 1:
		return profile.Profile{},
			errors.New("the manifest has no spec.wan, which says how far its sites are apart: give --rtt, such as " +
				"a-b=72ms,a-c=151ms,b-c=88ms")
	}
	var at, names []string // by member
	for _, site := range c.spec.Sites {
		for i := range site.MemberCount() {
			name := site.Name
			if i > 0 {
				name = fmt.Sprintf("%s/%d", site.Name, i+1)
			}
			at, names = append(at, site.Name), append(names, name)
		}
	}
	var pairs []profile.Pair
	for i, a := range names {
		for j := range i {
			pairs = append(pairs, profile.Pair{A: a, B: names[j], RTT: max(between(at[i], at[j]), profile.Local)})
		}
	}
	return profile.New(c.spec.Protocol, names, pairs)
}

const protocolsLong = `Lists the protocols: what each serves, at which cost, with how many members.

With -f, says what each would give where the members of a GeoRegisterCluster manifest are: every protocol that can
have so many is run in virtual time over the round trips of spec.wan (or --rtt), with the manifest's shards and the same clients, and
judged. With spec.gus.erasureCoding there is a line for values that are stored as fragments, too. Left out are jitter, loss and rates of links,
the size of values, and where spec.homes and spec.curp.witness put masters and witnesses: they are where distances say.
It also says where a protocol with a fast path is slower than Raft, and why.`

// mixHelp lists the workloads.
func mixHelp() string {
	return "with -f: the mix: " + strings.Join(workload.MixNames(), ", ") + ", or READ:WRITE:RMW weights"
}
