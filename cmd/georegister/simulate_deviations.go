package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/faults"
)

// tellEvery is how often those that wait are told how far something is.
const tellEvery = 2 * time.Second

// ofExperiments are the flags that describe an experiment, and say nothing of other runs.
func ofExperiments() []string {
	return []string{
		"profile", "rtt", "clients", "think", "fsync", "workload", "conflict", "keys", "value-bytes", "stale",
		"duration", "history",
	}
}

// checkDeviations refuses what does not go with --deviations, and has all faults be tried unless some are named.
func (f *simulateFlags) checkDeviations(c *cobra.Command) error {
	if !c.Flags().Changed("deviations") {
		return nil
	}
	for _, name := range append(ofExperiments(), "soak") {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s: the plain runs of --deviations are given; leave one of the two out", name)
		}
	}
	if f.deviations < -1 || f.deviations == 0 || f.deviations > maxToldOf {
		return fmt.Errorf("--deviations: %d; give how many of each plain run, at most %d, or -1 for all", f.deviations,
			maxToldOf)
	}
	if !c.Flags().Changed("faults") {
		f.faults = "all"
	}
	return nil
}

// deviate has one thing go wrong in each of many runs that are plain else, tells how far it is, and explains the first
// failure.
func (f simulateFlags) deviate(c *cobra.Command, s simulated, kinds []faults.Kind) error {
	n, err := s.plainSites(f.sites)
	if err != nil {
		return err
	}
	told := time.Now()
	report := simulator.Deviations{
		Start: s.start, Options: s.options(kinds), Members: n, Seed: f.seed,
		Runs: max(f.deviations, 0),
		Progress: func(done, all int) {
			if time.Since(told) >= tellEvery || done == all {
				told = time.Now()
				fmt.Fprintf(c.ErrOrStderr(), "%s: %d of %d deviations\n", s.name, done, all)
			}
		},
	}.Run(c.Context())
	if err := c.Context().Err(); err != nil {
		return fmt.Errorf("stopped after %d runs: %w", report.Runs, err)
	}
	unwritten := f.writeCosts(report.Costs) // what was found is told all the same
	out := c.OutOrStdout()
	if f.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report.Deviated); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	} else {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "plain run\tdeviation\truns\tslower: mean\tmost\tnot done: mean\tmost\t"+
			"behind: mean\tmost\tmessages more: mean\tmost")
		for _, d := range report.Deviated {
			runs := time.Duration(d.Runs)
			fmt.Fprintf(table, "%s\t%s\t%d", d.Plain, d.Kind, d.Runs)
			for _, took := range []time.Duration{
				d.Slower / runs, d.Slowest, d.Unready / runs, d.Longest, d.Behind / runs, d.Furthest,
			} {
				fmt.Fprintf(table, "\t%v", took.Round(time.Millisecond))
			}
			fmt.Fprintf(table, "\t%.1f\t%d\n", float64(d.Messages)/float64(d.Runs), d.Most)
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if report.Failure == nil {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %d runs\nverdict: %s, nothing stuck or late\n", s.name, report.Runs,
			s.row.Consistency)
		return unwritten
	}
	if f.shrink {
		fmt.Fprintln(out, simulator.Explain(report.Failure))
	}
	if f.keep != "" {
		unwritten = errors.Join(unwritten, s.writeSchedule(f.keep, report.Failure.Schedule))
	}
	return errors.Join(fmt.Errorf("%s: %w", report.By, report.Failure), unwritten)
}
