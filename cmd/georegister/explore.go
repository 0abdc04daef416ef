package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/replica/explorer"
	"github.com/georegister/georegister/replica/protocol/catalog"
)

// exploreFlags are the flags of explore as they were given.
type exploreFlags struct {
	protocol   string
	members    int
	tolerance  int
	operations string
	before     string
	faults     string
	atOnce     bool
	deviations int
	ordered    bool // deviations was given
	patience   time.Duration
	maxMemory  string // empty: toolMemory
	output     string
}

const exploreLong = `Takes a small scope, a few operations and faults, through every order of deliveries, writes to disks, timeouts,
invocations and crashes, over the protocol's own code, and checks each history that clients can see. Where nothing is left to happen,
everything is retransmitted and delivered: no operation may be stuck then, and each member reads each key.

Semicolons are between the sessions of --operations, and commas between the operations of one; "2: " before a session's operations has it be at
member 2, and otherwise the first is at member 1, the second at member 2. An operation is "write KEY VALUE", "read KEY",
"rmw KEY FUNCTION ARGUMENT", or "fence" under GryffRSC. What is left out is key k, a value of its own, and append.v1 of a letter.

With --deviations, orders near the plain one are taken, in which messages arrive as they were sent and batches become durable at once:
first those with no deviation, then with one, and so on, up to the number that is given, or until the time or the memory is used up.
A deviation is a message or a batch that comes later, at any time, or a fault, or a timeout. Invocations and restarts may come at any time.

The exit status is not 0 if a failure was found, or if it ended before the whole scope was explored. SIGINT and SIGTERM end it at once.`

const exploreExample = `  georegister explore --protocol abd --operations 'write; read'
  georegister explore --protocol gryff --operations 'write; write' --faults loss,timeout=2
  georegister explore --protocol gryffrsc --operations 'write x; 2: read x, read y'
  georegister explore --protocol raft --operations 'rmw; read' --faults crash,takeover --deviations 4 --for 10m`

// startLed is what comes before the operations under a protocol with a leader, if nothing is said: it has one then.
const startLed = "1: write k 0"

func newExploreCommand() *cobra.Command {
	var f exploreFlags
	c := &cobra.Command{
		Use:     "explore",
		Short:   "Take a few operations and faults through every order of what can happen",
		Long:    exploreLong,
		Example: exploreExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.ordered = c.Flags().Changed("deviations")
			return f.run(c)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.protocol, "protocol", "abd", "the protocol: "+strings.Join(catalog.Names(), ", "))
	flags.IntVar(&f.members, "members", 3, "how many members")
	flags.IntVar(&f.tolerance, "fault-tolerance", 0,
		"how many members may be lost at once, with a protocol that has other quorums then; 0: any minority")
	flags.StringVar(&f.operations, "operations", "write; read", "the sessions and their operations")
	flags.StringVar(&f.before, "before", "",
		"operations that have ended before; with a leader, but for curp, a write, unless something is said")
	flags.StringVar(&f.faults, "faults", "none", "none, or how many of each may happen, such as loss,timeout=2: "+
		strings.Join(explorer.FaultNames(), ", "))
	flags.BoolVar(&f.atOnce, "durable-at-once", false, "let each batch be durable in the step that made it")
	flags.IntVar(&f.deviations, "deviations", 0,
		"take orders by how often they deviate from the plain one, up to so often; -1: no bound (default: every order)")
	flags.DurationVar(&f.patience, "for", 0, "end after this time (default: none)")
	flags.StringVar(&f.maxMemory, "max-memory", "",
		"end soon after it takes more than this, such as 4Gi, and for a moment up to a third more (default: half of "+
			"the machine's)")
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	return c
}

// scope checks the flags that describe one, and names the flag that is wrong.
func (f *exploreFlags) scope() (explorer.Scope, error) {
	var none explorer.Scope
	entry, err := catalog.Find(f.protocol)
	if err != nil {
		return none, fmt.Errorf("--protocol: %w", err)
	}
	s := explorer.Scope{
		Start: entry.Start, Members: f.members, Regular: entry.Regular(), Partitioned: entry.Partitioned != nil,
		Tolerance: f.tolerance, AtOnce: f.atOnce,
	}
	if err := s.CheckMembers(); err != nil {
		return none, fmt.Errorf("--members: %w", err)
	}
	if f.tolerance != 0 {
		if err := entry.Row.CheckFaults(f.members, f.tolerance); err != nil {
			return none, fmt.Errorf("--fault-tolerance: %w", err)
		}
	}
	if s.Sessions, err = explorer.ParseSessions(f.operations, f.members); err != nil {
		return none, fmt.Errorf("--operations: %w", err)
	}
	before := f.before
	if before == "" && entry.Led && !s.Partitioned {
		before = startLed
	}
	if before != "" {
		if s.Before, err = explorer.ParseSessions(before, f.members); err != nil {
			return none, fmt.Errorf("--before: %w", err)
		}
	}
	if s.Faults, err = explorer.ParseFaults(f.faults); err != nil {
		return none, fmt.Errorf("--faults: %w", err)
	}
	for _, of := range []struct {
		flag     string
		sessions []explorer.Session
	}{{"before", s.Before}, {"operations", s.Sessions}} {
		for _, session := range of.sessions {
			for _, op := range session.Operations {
				if err := entry.Row.CheckOperation(op.Kind); err != nil {
					return none, fmt.Errorf("--%s: %w", of.flag, err)
				}
			}
		}
	}
	if err := s.CheckOperations(); err != nil {
		return none, fmt.Errorf("--operations, --before: %w", err)
	}
	if err := s.CheckFaults(); err != nil {
		return none, fmt.Errorf("--faults: %w", err)
	}
	return s, nil
}

func (f *exploreFlags) run(c *cobra.Command) error {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("--output: unknown format %q; use table or json", f.output)
	}
	s, err := f.scope()
	if err != nil {
		return err
	}
	memory := toolMemory()
	if f.maxMemory != "" {
		q, err := resource.ParseQuantity(f.maxMemory)
		if memory = q.Value(); err != nil || memory < leastMemory {
			return fmt.Errorf("--max-memory is %q; give at least %s, such as 4Gi", f.maxMemory, quantity(leastMemory))
		}
	}
	if f.deviations < -1 {
		return fmt.Errorf("--deviations: %d; give how many there may be, or -1 for any number", f.deviations)
	}
	if f.patience < 0 {
		return fmt.Errorf("--for: %v; give a time, or leave it out", f.patience)
	}
	c.SilenceUsage = true // from here on, what fails is not a misspelt command line
	ctx, stop := boundMemory(c.Context(), memory, "explore a smaller scope, or fewer deviations")
	defer stop()
	if f.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.patience, fmt.Errorf("%v have passed", f.patience))
		defer cancel()
	}
	began := time.Now()
	r, err := explorer.Explore(ctx, s, explorer.Options{
		Ordered: f.ordered, Deviations: f.deviations, Progress: f.progress(c.ErrOrStderr(), began),
	})
	if err != nil {
		return err
	}
	if err := f.print(c.OutOrStdout(), r, time.Since(began)); err != nil {
		return err
	}
	switch {
	case r.Failure != nil:
		return r.Failure
	case !r.Complete:
		return fmt.Errorf("the scope is not explored to its end: %w", context.Cause(ctx))
	}
	return nil
}

// progress tells now and then how far an exploration is.
func (f *exploreFlags) progress(out io.Writer, began time.Time) func(explorer.Progress) {
	told, before := began, 0
	held := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	return func(p explorer.Progress) {
		passed := time.Since(told)
		if passed < tellEvery {
			return
		}
		metrics.Read(held)
		if p.States < before {
			before = 0 // everything is explored again, since an assumption was wrong
		}
		fmt.Fprintf(out, "%s: %d states, %d of them to go on from, %d steps deep%s, %.0f states/s, %s\n",
			f.protocol, p.States, p.Waiting, p.Depth, f.deviated(p.Deviations),
			float64(p.States-before)/passed.Seconds(), quantity(int64(held[0].Value.Uint64())))
		told, before = time.Now(), p.States
	}
}

// deviated says how many deviations something has, if they are counted.
func (f *exploreFlags) deviated(deviations int) string {
	if !f.ordered {
		return ""
	}
	return fmt.Sprintf(", %d deviations", deviations)
}

// exploredReport is what is printed as JSON.
type exploredReport struct {
	Verdict     string  `json:"verdict"` // "right", "not decided", or what a failure is called
	Protocol    string  `json:"protocol"`
	Operations  string  `json:"operations"`
	Faults      string  `json:"faults"`
	States      int     `json:"states"`
	LocalStates int     `json:"local_states"`
	Ends        int     `json:"ends"`
	Histories   int     `json:"histories"`
	Complete    bool    `json:"complete"`
	Deviations  *int    `json:"deviations,omitempty"` // the most of which all orders were taken; left out: every order was
	Seconds     float64 `json:"seconds"`
	Failure     string  `json:"failure,omitempty"`
	Diagram     string  `json:"diagram,omitempty"`
}

func (f *exploreFlags) print(out io.Writer, r explorer.Report, took time.Duration) error {
	verdict := "right"
	switch {
	case r.Failure != nil:
		verdict = string(r.Failure.Class)
	case !r.Complete:
		verdict = "not decided"
	}
	if f.output == "json" {
		report := exploredReport{
			Verdict: verdict, Protocol: f.protocol, Operations: f.operations, Faults: f.faults, States: r.States,
			LocalStates: r.Locals, Ends: r.Ends, Histories: r.Histories, Complete: r.Complete, Seconds: took.Seconds(),
		}
		if f.ordered {
			report.Deviations = &r.Completed
		}
		if r.Failure != nil {
			report.Failure, report.Diagram = r.Failure.Why, r.Failure.Diagram
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		return nil
	}
	if r.Failure != nil {
		fmt.Fprintf(out, "%v\nafter %d steps:\n%s", r.Failure, r.Failure.Steps, r.Failure.Diagram)
	}
	extent := ""
	if f.ordered {
		extent = fmt.Sprintf(", all orders with up to %d deviations", r.Completed)
	}
	_, err := fmt.Fprintf(out,
		"%s: %d states%s, %d local states of members, %d ends, %d histories, in %v\nverdict: %s\n",
		f.protocol, r.States, extent, r.Locals, r.Ends, r.Histories, took.Round(time.Millisecond), verdict)
	if err != nil {
		return errors.Join(errors.New("write the report"), err)
	}
	return nil
}
