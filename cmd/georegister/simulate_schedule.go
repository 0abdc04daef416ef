package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// recordedSchedule is a schedule as it stands in a file, with the protocol that it is of.
type recordedSchedule struct {
	Protocol       string            `json:"protocol"`
	FaultTolerance int               `json:"faultTolerance,omitempty"`
	DataFragments  int               `json:"dataFragments,omitempty"`
	Schedule       schedule.Schedule `json:"schedule"`
}

// writeSchedule writes a schedule of the protocol to a file.
func (s simulated) writeSchedule(path string, of schedule.Schedule) error {
	text, err := json.MarshalIndent(recordedSchedule{s.name, s.tolerance, s.fragments, of}, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("--write-schedule: %w", err)
	}
	return nil
}

// readSchedule reads what writeSchedule wrote. What this version does not know of is an error: it would be another
// schedule.
func readSchedule(path string) (simulated, schedule.Schedule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return simulated{}, schedule.Schedule{}, fmt.Errorf("--schedule: %w", err)
	}
	none := schedule.Schedule{}
	var r recordedSchedule
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return simulated{}, none, fmt.Errorf("--schedule: %s is no schedule of this version: %w", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return simulated{}, none, fmt.Errorf("--schedule: %s goes on after the schedule", path)
	}
	s, err := findSimulated(r.Protocol, r.FaultTolerance, r.DataFragments)
	if err != nil {
		return simulated{}, none, fmt.Errorf("--schedule: %s: %w", path, err)
	}
	sites := len(r.Schedule.Environment.Network.Sites)
	if sites == 0 || r.Schedule.Environment.Retry <= 0 {
		return simulated{}, none, fmt.Errorf("--schedule: %s has no members, or no time to send again (Retry)", path)
	}
	for _, c := range r.Schedule.Clients {
		if c.Home < 0 || c.Home >= sites {
			return simulated{}, none, fmt.Errorf("--schedule: %s has a client at site %d of %d", path, c.Home, sites)
		}
	}
	if p := r.Schedule.Environment.Partitioned; (p != nil) != (s.partitioned != nil) {
		return simulated{}, none, fmt.Errorf("--schedule: %s is of another world than that of %s", path, s.name)
	} else if p != nil {
		p.Protocol = s.partitioned
	}
	return s, r.Schedule, nil
}

// checkSoak refuses a number of schedules that can not be run, or not from that seed on.
func (f simulateFlags) checkSoak() error {
	switch {
	case f.soak < 1:
		return fmt.Errorf("--soak: %d schedules; give at least 1", f.soak)
	case f.soak > maxToldOf && (f.digests || f.costs != ""):
		return fmt.Errorf("--soak: %d schedules; with --digests or --costs give at most %d", f.soak, maxToldOf)
	case f.seed+uint64(f.soak)-1 < f.seed:
		return fmt.Errorf("--seed: there are no %d seeds from %d on; give a smaller one, or lower --soak", f.soak,
			f.seed)
	}
	return nil
}

// checkFiles refuses flags that name no file, and files that can not be written, before anything runs.
func (f simulateFlags) checkFiles(c *cobra.Command) error {
	for _, of := range []struct {
		flag, path string
		written    bool
	}{
		{"schedule", f.schedule, false}, {"corpus", f.corpus, false},
		{"write-schedule", f.keep, true}, {"costs", f.costs, true}, {"history", f.history, true},
	} {
		if !c.Flags().Changed(of.flag) {
			continue
		}
		if of.path == "" {
			return fmt.Errorf("--%s: it is empty; name a file or folder, or leave it out", of.flag)
		}
		if !of.written {
			continue
		}
		if err := checkWritable(of.path); err != nil {
			return fmt.Errorf("--%s: %w", of.flag, err)
		}
	}
	return nil
}

// checkWritable reports why a file can not be written. What is there stays as it is.
func checkWritable(path string) error {
	was, missing := os.Stat(path)
	if missing == nil && !was.IsDir() && !was.Mode().IsRegular() {
		return nil // who reads a pipe would take this for all that comes
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = file.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// replay runs the schedule of a file, and shows it if it fails.
func (f simulateFlags) replay(c *cobra.Command) error {
	c.SilenceUsage = true
	s, of, err := readSchedule(f.schedule)
	if err != nil {
		return err
	}
	o := simulator.Run(of, s.start, nil)
	if o.Failure != nil {
		fmt.Fprintln(c.OutOrStdout(), simulator.Explain(o.Failure))
		return o.Failure
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: %d operations, %d events\nverdict: %s, nothing stuck\n", s.name, o.Operations,
		o.Events, s.row.Consistency)
	return nil
}

// readCorpus reads the schedules of a folder that are of the protocol, and have faults of some kinds only, in the order
// of the files' names. Without a folder there are none.
func (s simulated) readCorpus(folder string, kinds []faults.Kind) (all []schedule.Schedule, err error) {
	if folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("--corpus: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) != ".json" })
	if len(entries) == 0 {
		return nil, fmt.Errorf("--corpus: there are no files %s/*.json", folder)
	}
	for _, e := range entries {
		of, one, err := readSchedule(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("--corpus: %w", err)
		}
		strange := func(f faults.Fault) bool { return !slices.Contains(kinds, f.Kind) }
		if of.name == s.name && one.Lost == nil && !slices.ContainsFunc(one.Faults, strange) {
			all = append(all, one)
		}
	}
	return all, nil
}

// learnt tells what a search that learns has.
func (f simulateFlags) learnt(l simulator.Learnt) string {
	if !f.learn {
		return ""
	}
	return fmt.Sprintf("; %d events and %d pairs of them told apart, schedules kept of %d",
		l.Events, l.Pairs, l.Kept)
}

// printDigests prints one digest for each 100 schedules, or what is left of them.
func (f simulateFlags) printDigests(out io.Writer, traces []uint64) {
	first := f.seed
	for some := range slices.Chunk(traces, 100) {
		digest := fnv.New64a()
		for _, trace := range some {
			fmt.Fprintf(digest, "%x ", trace)
		}
		fmt.Fprintf(out, "digest of the schedules %d to %d: %016x\n", first, first+uint64(len(some))-1, digest.Sum64())
		first += uint64(len(some))
	}
}

// writeCosts writes what schedules cost, if somebody asked.
func (f simulateFlags) writeCosts(costs []simulator.Cost) error {
	if f.costs == "" {
		return nil
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, c := range costs {
		if c == (simulator.Cost{}) { // it was not run, since another one failed
			continue
		}
		if err := encoder.Encode(c); err != nil {
			return fmt.Errorf("write what schedules cost: %w", err)
		}
	}
	if err := os.WriteFile(f.costs, lines.Bytes(), 0o600); err != nil {
		return fmt.Errorf("--costs: %w", err)
	}
	return nil
}
