package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/workload"
)

// simulateFlags are the flags of simulate as they were given.
type simulateFlags struct {
	protocol string
	sites    string
	rtt      string
	profile  string
	clients  int
	think    time.Duration
	sync     time.Duration // that an fsync takes; 0: what a disk with power-loss protection takes
	workload string
	conflict float64
	keys     string
	values   int // how many bytes they have
	duration time.Duration
	seed     uint64
	faults   string
	output   string
	history  string
	soak     int
	lose     int
	shrink   bool
	digests  bool
	costs    string
	learn    bool
	schedule string // a file to read
	keep     string // a file to write
	corpus   string // a folder of such files
	stale    bool
	// deviations is how many of each plain run are tried; -1: all.
	deviations int
	// tolerance is faultTolerance of a manifest; 0: it is left out.
	tolerance int
	// fragments is gus.erasureCoding.dataFragments of a manifest; 0: values are stored whole.
	fragments int
}

// The bounds of an experiment. What they allow may still take more memory than there is: then it ends with an error.
const (
	maxDuration = 24 * time.Hour // virtual
	maxClients  = 10_000         // at each site
	maxRTT      = time.Minute    // in longer ones, clients see next to nothing
	maxToldOf   = 10_000_000     // schedules of which each one's digest or cost is told, which are held in memory
)

const simulateLong = `Runs a protocol with simulated clients, network, disks and faults in virtual time, checks what the clients
saw, and prints latencies by kind of operation and site. The same flags give the same result on any machine.

Under GryffRSC clients are sessions, and what they saw is to be regular sequentially consistent.

With --data-fragments protocol Gus stores values of more than 16 bytes as fragments: of an experiment all, each of 64 bytes, and of
schedules each second one. As many members may have lost their disks at once as --fault-tolerance says, and never are there fewer of them.

An experiment has at most 24 hours of virtual time, 10000 clients at each site, and round trips of at most 1 min. What all clients saw is
held in memory: a run that takes more than half of the machine's ends, and says when. SIGINT and SIGTERM end it at once.

The exit status is not 0 if the history is not what the protocol promises, or an operation or a change of members got stuck though
faults were over.`

const simulateExample = `  georegister simulate --protocol gryff --profile gryff --sites 3
  georegister simulate --protocol abd --rtt a-b=72ms,a-c=151ms,b-c=88ms --workload ycsb-b -o json
  georegister simulate --protocol gryff --workload gryff-a --faults crash,loss --duration 60s
  georegister simulate --faults all --duration 30s --history history.jsonl && georegister check history.jsonl
  georegister simulate --protocol gryff --soak 100000
  georegister simulate --protocol all --soak 10000
  georegister simulate --protocol gryff --soak 100000 --learn --write-schedule failure.json
  georegister simulate --schedule failure.json
  georegister simulate --protocol gryff --soak 2000 --lose 3
  georegister simulate --protocol gryff --deviations 200
  georegister simulate --protocol gus --fault-tolerance 2 --sites 7 --soak 10000
  georegister simulate --protocol gus --data-fragments 3 --faults crash,wipe`

func newSimulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:     "simulate",
		Short:   "Run a protocol in virtual time: latencies, faults and the verdict",
		Long:    simulateLong,
		Example: simulateExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("rtt") && c.Flags().Changed("profile") {
				return errors.New("--rtt and --profile both name a network; give one of them")
			}
			if c.Flags().Changed("fault-tolerance") && f.tolerance < 1 {
				return fmt.Errorf("--fault-tolerance: %d; give at least 1, or leave it out", f.tolerance)
			}
			if c.Flags().Changed("data-fragments") && f.fragments < 1 {
				return fmt.Errorf("--data-fragments: %d; give at least 1, or leave it out", f.fragments)
			}
			if err := f.checkFiles(c); err != nil {
				return err
			}
			if c.Flags().Changed("soak") {
				if err := f.checkSoak(); err != nil {
					return err
				}
				for _, name := range append(ofExperiments(), "output") {
					if c.Flags().Changed(name) {
						return fmt.Errorf("--%s: schedules of --soak draw their own networks and operations; leave "+
							"one of the two out", name)
					}
				}
				if !c.Flags().Changed("faults") {
					f.faults = "all"
				}
			}
			if err := f.checkDeviations(c); err != nil {
				return err
			}
			if f.schedule != "" {
				return f.replay(c)
			}
			if f.corpus != "" && !f.learn {
				return errors.New("--corpus: what comes near it, --learn does; give it, too")
			}
			if (f.learn || f.keep != "" && f.deviations == 0) && f.soak == 0 {
				return errors.New("--learn, --write-schedule: they are of the schedules of --soak; give it, too")
			}
			if f.learn && f.lose > 0 {
				return errors.New("--learn: it is of the schedules of --soak as they are; leave --lose out")
			}
			if f.lose < 0 || f.lose > 0 && f.soak == 0 {
				return fmt.Errorf("--lose: %d; give how many answers of each schedule of --soak, or leave it out",
					f.lose)
			}
			if f.digests && (f.soak == 0 || f.lose > 0) {
				return errors.New(
					"--digests: it is of the schedules of --soak as they are; give --soak, and leave --lose out")
			}
			none := f.soak == 0 && f.deviations == 0
			if f.costs != "" && (none || f.lose > 0 || f.learn || f.protocol == allProtocols) {
				return errors.New("--costs: it is of the schedules of --soak as they are, or of the plain runs of " +
					"--deviations, of one protocol; give these, and leave --lose and --learn out")
			}
			return f.run(c)
		},
	}
	defaults := workload.Default()
	flags := c.Flags()
	flags.StringVar(&f.protocol, "protocol", "gryff", protocolHelp())
	flags.StringVar(&f.sites, "sites", "", "how many sites of the profile, or a list of their names; all if empty")
	flags.StringVar(&f.profile, "profile", "gryff",
		"sites and round trips by name: "+strings.Join(profile.Names(), " or "))
	flags.StringVar(&f.rtt, "rtt", "", "sites and round trips of one's own, such as a-b=72ms,a-c=151ms,b-c=88ms")
	flags.IntVar(&f.clients, "clients", 16, "closed-loop clients at each site, at most 10000")
	flags.DurationVar(&f.think, "think", 0, "how long a client rests between two operations")
	flags.DurationVar(&f.sync, "fsync", 0,
		"how long each write to a disk takes, as to one as slow as a round trip (default: about 0.2 ms)")
	flags.StringVar(&f.workload, "workload", "ycsb-a",
		"the mix: "+strings.Join(workload.MixNames(), ", ")+", or READ:WRITE:RMW weights")
	flags.Float64Var(&f.conflict, "conflict", defaults.Conflict,
		"probability that an operation is on the key that all clients share, from 0 to 1")
	flags.StringVar(&f.keys, "keys", string(defaults.Keys), "how keys are chosen: conflict, zipf or uniform")
	flags.IntVar(&f.values, "value-bytes", defaults.ValueBytes,
		"how many bytes written values have at least; with --data-fragments 64 in place of 16")
	flags.BoolVar(&f.stale, "stale", false,
		"let reads be stale, within the protocol's bound: they wait for less with curp")
	flags.DurationVar(&f.duration, "duration", 180*time.Second,
		"simulated time, at most 24h; figures leave out its first and last twelfth")
	flags.Uint64Var(&f.seed, "seed", 1, "what everything random comes from; with --soak, the first one")
	flags.StringVar(&f.faults, "faults", "none",
		fmt.Sprintf("none, all, or a list of %v, and with --soak %v, which are how schedules are drawn: with directed "+
			"one of eight is one in which something rare is likely, and without faults beside it all are",
			faults.Without(faults.Kinds(), faults.Variations()...), faults.Variations()))
	flags.IntVar(&f.tolerance, "fault-tolerance", 0,
		"how many members may be lost at once, as faultTolerance of a manifest: with gus and more than 5 sites other "+
			"quorums, with curp the backups (default: any minority)")
	flags.IntVar(&f.fragments, "data-fragments", 0,
		"with gus: how many fragments restore a value, as dataFragments of a manifest (default: values are stored "+
			"whole); --fault-tolerance is 1 then unless given. A soak without changes of members has fewer where "+
			"members are too few")
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	flags.StringVar(&f.history, "history", "", "write what the clients saw to this file, for `georegister check`")
	flags.IntVar(&f.soak, "soak", 0,
		"instead: this many short random fault schedules on random networks, one seed each, with all faults unless "+
			"--faults says which")
	flags.IntVar(&f.deviations, "deviations", 0,
		"instead: plain runs of few operations, and so many of each in which one thing more goes wrong, such as a "+
			"message that is lost; -1: all there are")
	flags.IntVar(&f.lose, "lose", 0,
		"with --soak: at so many answers of each schedule, lose every set of disks that may be lost without losing "+
			"what was acknowledged, and read it")
	flags.BoolVar(&f.learn, "learn", false,
		"with --soak: half of the schedules are near earlier ones in which something rare happened, and not those of "+
			"their own seeds")
	flags.StringVar(&f.corpus, "corpus", "",
		"with --learn: a folder of schedules that --write-schedule has written; those of the protocol come first, and "+
			"many others are near them")
	flags.StringVar(&f.keep, "write-schedule", "",
		"with --soak: write the first schedule that fails, made shorter unless --shrink=false, to this file, for "+
			"--schedule")
	flags.StringVar(&f.schedule, "schedule", "",
		"instead: run the schedule of this file, which --write-schedule has written, and show what goes wrong; no "+
			"other flag counts")
	flags.BoolVar(&f.shrink, "shrink", true,
		"with --soak: make the first schedule that fails shorter, and show it as a diagram of messages; else only its "+
			"seed and what went wrong are told")
	flags.BoolVar(&f.digests, "digests", false,
		"with --soak: print a digest of what happened in each 100 schedules, to compare two versions of the program by")
	flags.StringVar(&f.costs, "costs", "",
		"with --soak or --deviations: write what each schedule or plain run cost into this file, a line of JSON each, "+
			"to compare two versions of the program by")
	return c
}

func (f simulateFlags) run(c *cobra.Command) error {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("--output: unknown format %q; use table or json", f.output)
	}
	names := []string{f.protocol}
	if f.protocol == allProtocols {
		if f.soak == 0 && f.deviations == 0 {
			return errors.New("--protocol: all of them are searched, with --soak or --deviations; an experiment " +
				"is of one")
		}
		names = nil
		for _, v := range catalog.Variants() {
			names = append(names, v.Name)
		}
	}
	relaxCollector()
	for _, name := range names {
		if err := f.runProtocol(c, name); err != nil {
			return err
		}
	}
	return nil
}

// runProtocol searches a protocol, or measures it.
func (f simulateFlags) runProtocol(c *cobra.Command, name string) error {
	s, err := findSimulated(name, f.tolerance, f.fragments)
	if err != nil {
		return err
	}
	kinds, err := s.parseFaults(f.faults, f.soak != 0 || f.deviations != 0)
	if err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	c.SilenceUsage = true // from here on, what fails is not a misspelt command line
	if f.soak != 0 {
		return f.soakRun(c, s, kinds)
	}
	if f.deviations != 0 {
		return f.deviate(c, s, kinds)
	}
	x, err := f.experiment(s)
	if err != nil {
		return err
	}
	x.Faults = kinds
	s.runs(&x)
	began := time.Now()
	ctx, stop := boundMemory(c.Context(), toolMemory(), "lower --duration or --clients")
	defer stop()
	x.Progress = progress(c.ErrOrStderr(), f.duration)
	m, err := simulator.Measure(ctx, x)
	if err != nil {
		return err
	}
	if err := f.print(c.OutOrStdout(), m); err != nil {
		return err
	}
	if f.history != "" {
		err = history.WriteRecordFile(f.history, history.Record{Operations: m.History})
	}
	took := time.Since(began)
	fmt.Fprintf(c.ErrOrStderr(),
		"%v simulated in %v: %d operations, %d faults, %d messages, %d batches written, "+
			"%d bytes sent, %d stored and %d held in the end, %d events, %.0f events/s\n",
		f.duration, took.Round(time.Millisecond), m.Operations, m.Faults, m.Cost.Messages, m.Cost.Batches, m.Cost.Bytes,
		m.Cost.Stored, m.Cost.Held, m.Events, float64(m.Events)/took.Seconds())
	if !m.OK() {
		return errors.Join(fmt.Errorf("%s: %s", m.Report.Verdict, m.Reason), err)
	}
	return err
}

// experiment checks the flags that describe one, and names the flag that is wrong.
func (f simulateFlags) experiment(s simulated) (simulator.Experiment, error) {
	none, row := simulator.Experiment{}, s.row
	network, err := f.network()
	if err != nil {
		return none, err
	}
	if err := s.checkSites(len(network.Sites)); err != nil {
		return none, err
	}
	spec := workload.Default()
	if spec.Mix, err = workload.ParseMix(f.workload); err != nil {
		return none, fmt.Errorf("--workload: %w", err)
	}
	if err := row.CheckOperation(register.RMW); err != nil && spec.Mix.RMW > 0 {
		return none, fmt.Errorf("--workload %s has read-modify-writes: %w", f.workload, err)
	}
	if err := row.CheckOperation(register.Write); err != nil && spec.Mix.Write > 0 {
		return none, fmt.Errorf("--workload %s has writes, give weights such as 50:0:50: %w", f.workload, err)
	}
	if spec.Keys, err = workload.ParseKeys(f.keys); err != nil {
		return none, fmt.Errorf("--keys: %w", err)
	}
	if f.duration <= 0 {
		return none, fmt.Errorf("--duration: %v; it must be positive", f.duration)
	}
	spec.Conflict, spec.Stale, spec.ValueBytes = f.conflict, f.stale, f.values
	x := simulator.Experiment{
		Network: network, Clients: f.clients, Think: f.think, Sync: f.sync, Workload: spec, Duration: f.duration,
		Seed: f.seed,
	}
	return x, checkExperiment(x)
}

// protocolHelp lists what --protocol takes.
func protocolHelp() string {
	var variants []string
	for _, v := range catalog.Variants() {
		if v.FaultTolerance+v.DataFragments > 0 {
			variants = append(variants, v.Name)
		}
	}
	return fmt.Sprintf("the protocol: %s; with options of its own: %s; with --soak also %s",
		strings.Join(catalog.Names(), ", "), strings.Join(variants, ", "), allProtocols)
}

func (f simulateFlags) print(w io.Writer, m simulator.Measured) error {
	if f.output == "table" {
		return m.Report.Table(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(m.Report); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// soakRun tries many schedules, tells how far it is, and explains the first failure at length.
func (f simulateFlags) soakRun(c *cobra.Command, s simulated, kinds []faults.Kind) error {
	if f.lose > 0 && slices.Contains(kinds, faults.Directed) {
		kinds = faults.Without(kinds, faults.Directed)
		if len(faults.Without(kinds, faults.Variations()...)) == 0 {
			return errors.New("--lose: directed schedules have members that suspect each other before they could " +
				"have answered, and just enough of these promise no end; list other faults, or leave --lose out")
		}
	}
	options := s.options(kinds)
	var err error
	if f.sites != "" {
		n, err := s.countSites(f.sites, "schedules of --soak")
		if err != nil {
			return err
		}
		options.Members = []int{n}
	} else if options.Members, err = s.sizes(kinds); err != nil {
		return err
	}
	options.Directed = directed.Draws(directed.Of(s.variant, s.partitioned != nil, options.Members))
	corpus, err := s.readCorpus(f.corpus, kinds)
	if err != nil {
		return err
	}
	ctx := c.Context()
	began, told := time.Now(), time.Now()
	report := simulator.Search{
		Start: s.start, Options: options, First: f.seed, Seeds: f.soak, Lose: f.lose, Traced: f.digests,
		Learn: f.learn, Corpus: corpus, Weighed: f.costs != "",
		Progress: func(done int, learnt simulator.Learnt) {
			if time.Since(told) < tellEvery && done < f.soak {
				return
			}
			told = time.Now()
			fmt.Fprintf(c.ErrOrStderr(), "%s: %d of %d schedules, %.0f/s%s\n", s.name, done, f.soak,
				float64(done)/time.Since(began).Seconds(), f.learnt(learnt))
		},
	}.Run(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped after %d schedules: %w", report.Schedules+report.Skipped, err)
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out,
		"%s: %d schedules with at least %d faults that hit work in flight, %d with fewer; %d operations, %d such "+
			"faults, %d events\n",
		s.name, report.Schedules, simulator.MinHits, report.Skipped, report.Operations, report.Hits, report.Events)
	f.printDigests(out, report.Traces)
	unwritten := f.writeCosts(report.Costs) // what was found is told all the same
	if f.learn {
		fmt.Fprintf(out, "schedules near others that were not judged, since that takes more than 5 s: %d\n",
			report.Undecided)
	}
	if f.lose > 0 {
		fmt.Fprintf(out, "sets of disks that were lost for good, each in a run of its own: %d\n", report.Losses)
	}
	if s.partitioned != nil {
		fmt.Fprintf(out,
			"masters replaced: %d (%d before the faults were over), in a recovery: %d, handed over: %d; recoveries: "+
				"%d; witnesses that lost their disks: %d\n",
			report.Paths["curp.failover"], report.Paths["curp.failover.meanwhile"],
			report.Paths["curp.recovering-failover"],
			report.Paths["curp.handover"], report.Paths["curp.recovered"], report.Paths["curp.witness-lost"])
		fmt.Fprintf(out, "masters moved to another home: %d (%d before the faults were over), and back: %d\n",
			report.Paths["curp.moved"], report.Paths["curp.moved.meanwhile"], report.Paths["curp.moved-back"])
		fmt.Fprintf(out,
			"quorums that were lost and given up: %d; partitions that went on whole: %d, with less than all: %d, "+
				"with what a learner had: %d, empty: %d\n",
			report.Paths["curp.rescued"], report.Paths["curp.rescued.whole"], report.Paths["curp.rescued.shortened"],
			report.Paths["curp.rescued.behind"], report.Paths["curp.rescued.empty"])
		fmt.Fprintf(out,
			"members that were lost and replaced: %d; views that were forgotten: %d; schedules in which a part of "+
				"the keys was lost with too many members: %d\n",
			report.Paths["curp.member-lost"], report.Paths["curp.forgotten"], report.Paths["hopeless"])
	}
	if slices.Contains(kinds, faults.Change) {
		fmt.Fprintf(out, "changes of members, and how many of them before the faults were over:")
		for _, c := range report.Changes() {
			fmt.Fprintf(out, " %s %d (%d)", c.Kind, c.All, c.Meanwhile)
		}
		fmt.Fprintln(out)
		if s.partitioned == nil {
			fmt.Fprintf(out,
				"records of the view that were lost: %d; schedules in which so many members were lost with it that "+
					"it can't be rebuilt: %d\n",
				report.Paths["change.record-lost"], report.Paths["hopeless"])
		}
	}
	if slices.Contains(kinds, faults.OldCopy) {
		fmt.Fprintf(out,
			"disks that went back to an older copy: %d of members (%d found out), %d of witnesses (%d), both on one "+
				"volume: %d\n",
			report.Paths["old-copy"], report.Paths["old-copy.found"], report.Paths["old-copy.witness"],
			report.Paths["old-copy.witness-found"], report.Paths["old-copy.volume"])
	}
	if len(report.Failures) == 0 {
		_, err := fmt.Fprintf(out, "verdict: %s, nothing stuck\n", s.row.Consistency)
		return errors.Join(err, unwritten)
	}
	failure := report.Failures[0]
	if f.shrink {
		failure = simulator.Shrink(ctx, failure)
		fmt.Fprintln(out, simulator.Explain(failure))
	}
	if f.keep != "" {
		unwritten = errors.Join(unwritten, s.writeSchedule(f.keep, failure.Schedule))
	}
	return errors.Join(report.Failures[0], unwritten)
}
