package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/workload"
)

// allProtocols stands for every protocol and variant.
const allProtocols = "all"

// simulated is a protocol that the simulator runs.
type simulated struct {
	name        string          // of the protocol or its variant, as it was given
	variant     string          // what it is by its options, for what is listed by variants
	start       simulator.Start // nil with masters, whose world with masters and witnesses the simulator makes itself
	partitioned *definition.Partitioned
	row         capability.Protocol
	// tolerance is how many members may be lost at once; 0: any minority.
	tolerance int
	// fragments is how many restore a value; 0: values are stored whole.
	fragments int
	// losses is how many members may have lost their disks at once; 0: any minority. More would cost fragments.
	losses int
}

// Values of more bytes than threshold are stored as fragments, if any are. They are short, since nothing here takes
// longer with longer ones.
const (
	threshold  = 16
	largeValue = 64
)

// findSimulated finds a protocol or a variant by its name, and what is to be tolerated where that is given; the error
// names the flag that is wrong.
func findSimulated(name string, tolerance, fragments int) (simulated, error) {
	entry, variant, err := catalog.FindVariant(name)
	if err != nil {
		return simulated{}, fmt.Errorf("--protocol: %w", err)
	}
	tolerance, fragments = cmp.Or(tolerance, variant.FaultTolerance), cmp.Or(fragments, variant.DataFragments)
	row := entry.Row
	s := simulated{name: name, partitioned: entry.Partitioned, row: row, tolerance: tolerance, fragments: fragments}
	if fragments > 0 {
		if err := row.CheckErasureCoding(); err != nil {
			return simulated{}, fmt.Errorf("--data-fragments: %w; leave it out, or use --protocol gus", err)
		}
		s.tolerance = max(tolerance, 1) // with any minority lost, one fragment would be all of the value
		s.losses = s.tolerance
	}
	if row.Fast {
		s.losses = s.tolerance // of what was under way more could be lost
	}
	s.variant = entry.Name()
	for _, v := range entry.Variants {
		if (v.DataFragments > 0) == (fragments > 0) && (fragments > 0 || tolerance > 0) {
			s.variant = v.Name
		}
	}
	if entry.Partitioned == nil {
		s.start = simulator.Member(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
			c.Faults = s.tolerance
			if s.fragments > 0 {
				n := c.View.Before().Size()
				c.Fragments = protocol.Fragments{
					Data: min(s.fragments, n-2*min(s.tolerance, row.Faults(n))), Threshold: threshold,
				}
			}
			return entry.Factory(c, j, r)
		})
	}
	return s, nil
}

// options say what schedules of a soak are like, but for how many members there are.
func (s simulated) options(kinds []faults.Kind) schedule.Options {
	o := schedule.Options{Faults: kinds, RMWs: schedule.ManyRMWs, Regular: s.row.Regular(), Losses: s.losses}
	if s.row.CheckOperation(register.RMW) != nil {
		o.RMWs = schedule.FewRMWs
	}
	o.Idempotent = s.row.CheckOperation(register.Write) != nil
	if s.row.CountsFaults() {
		o.Tolerance = s.tolerance
	}
	if s.partitioned != nil {
		o.Partitioned, o.Stale = s.partitioned, schedule.SomeStale
	}
	if s.fragments > 0 {
		o.Large, o.Data, o.Keep = largeValue, s.fragments, true
	}
	return o
}

// runs has an experiment be one of this protocol.
func (s simulated) runs(x *simulator.Experiment) {
	x.Start, x.Regular = s.start, s.row.Regular()
	x.Losses, x.Data, x.Keep = s.losses, s.fragments, s.fragments > 0
	if s.fragments > 0 && x.Workload.ValueBytes == workload.Default().ValueBytes {
		x.Workload.ValueBytes = largeValue
	}
	if s.row.CheckOperation(register.Write) != nil {
		x.Workload.RMWs = workload.RMWIdempotent
	}
	if s.partitioned != nil {
		x.Partitions = &simulator.Partitions{Protocol: s.partitioned, Backups: s.tolerance}
	}
}

// checkSites refuses a number of sites that the protocol, or what it is to tolerate, is not for, and names the flag
// that is wrong. Where there are relaxed quorums for more members than a manifest may have, these can be simulated.
func (s simulated) checkSites(n int) error {
	if s.tolerance == 0 || !s.relaxed(n) {
		if err := s.row.CheckMembers(n); err != nil {
			return fmt.Errorf("--sites: %w", err)
		}
	}
	switch most := s.row.Faults(n); {
	case s.tolerance == 0:
		return nil
	case s.partitioned == nil:
		if err := s.row.CheckFaults(n, s.tolerance); err != nil {
			return fmt.Errorf("--fault-tolerance: %w", err)
		}
	case s.tolerance > most:
		return fmt.Errorf("--fault-tolerance: %d replicas can lose from 1 to %d; lower it, or add sites", n, most)
	}
	return s.checkFragments(n)
}

// checkFragments refuses more fragments than members of that number can have.
func (s simulated) checkFragments(n int) error {
	if s.fragments == 0 {
		return nil
	}
	if err := s.row.CheckFragments(n, s.tolerance, s.fragments); err != nil {
		return fmt.Errorf("--data-fragments: %w", err)
	}
	return nil
}

// relaxed reports whether members of that number have relaxed quorums.
func (s simulated) relaxed(n int) bool {
	_, ok := view.RelaxedFor(n, s.tolerance)
	return s.row.Relaxed && ok
}

// widest is the largest number of sites that schedules of a soak have by themselves.
const widest = 9

// sizes are the numbers of members that the schedules of a soak choose from: nil for the simulator's own, or those that
// have quorums of other sizes for what is to be tolerated.
func (s simulated) sizes(kinds []faults.Kind) (sizes []int, err error) {
	switch {
	case s.fragments > 0:
		return s.fragmentSizes(slices.Contains(kinds, faults.Change))
	case s.tolerance == 0:
		return nil, nil
	case s.partitioned != nil:
		return nil, errors.New("--fault-tolerance: schedules of --soak draw it with protocol CURP; leave it out")
	}
	for n := 3; n <= widest; n += 2 {
		if s.relaxed(n) || s.row.Fast && n > 3 && s.checkSites(n) == nil {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 0 {
		return nil, fmt.Errorf("--fault-tolerance: %w", s.row.CheckFaults(widest, s.tolerance))
	}
	return sizes, nil
}

// fragmentSizes are those of sizes with fragments: where members change, all that can have as many as were asked for,
// since a disk knows for good how many restore a value.
func (s simulated) fragmentSizes(change bool) (sizes []int, err error) {
	fits := false
	for _, n := range s.row.Members {
		if tolerated := s.row.CheckFaults(n, s.tolerance); tolerated != nil {
			err = fmt.Errorf("--fault-tolerance: %w", tolerated)
			continue
		}
		if err = s.checkFragments(n); err == nil || !change {
			sizes, fits = append(sizes, n), fits || err == nil
		}
	}
	if !fits {
		return nil, err
	}
	return sizes, nil
}

// parseFaults reads the kinds of faults that the protocol's world has: in the schedules of a soak, or in an experiment.
func (s simulated) parseFaults(list string, soak bool) ([]faults.Kind, error) {
	known := faults.Kinds()
	if s.partitioned != nil {
		known = faults.CURPKinds()
	}
	if s.partitioned != nil && !soak {
		known = faults.WithStableMembers(known)
	}
	if soak {
		known = append(known, faults.Mix, faults.Directed)
		if list != "all" { // as other schedules have more faults of more kinds
			known = append(known, faults.Plain)
		}
	} else { // what an experiment measures is of the bounds that clusters run with
		known = faults.Without(known, faults.Variations()...)
	}
	return faults.Parse(list, known)
}

// countSites reads how many members runs are to have that have sites of their own, and refuses what can't be; runs is
// how people are told of these.
func (s simulated) countSites(asked, runs string) (int, error) {
	n, err := strconv.Atoi(asked)
	if err != nil {
		return 0, fmt.Errorf("--sites: %q is no number; %s have sites of their own, so give how many", asked, runs)
	}
	return n, s.checkSites(n)
}

// plainSites is how many members plain runs have: as many as were asked for, or the fewest from five on that have what
// is to be tolerated, and relaxed quorums if that asks for them.
func (s simulated) plainSites(asked string) (int, error) {
	if asked != "" {
		return s.countSites(asked, "plain runs")
	}
	if s.row.CountsFaults() && s.tolerance > 0 && s.fragments == 0 {
		sizes, err := s.sizes(nil)
		if err != nil {
			return 0, err
		}
		return sizes[0], nil
	}
	var err error
	for _, n := range []int{5, 7, widest} {
		if err = s.checkSites(n); err == nil {
			return n, nil
		}
	}
	return 0, err
}
