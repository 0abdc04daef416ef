package main

import (
	"errors"
	"fmt"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/view"
)

// simulated is a protocol that the simulator runs.
type simulated struct {
	start simulator.Start // nil for CURP, whose world with masters and witnesses the simulator makes itself
	curp  bool
	row   capability.Protocol
	// tolerance is how many members may be lost at once; 0: any minority.
	tolerance int
}

// regular reports whether histories are to be regular sequentially consistent, and no more.
func (s simulated) regular() bool { return s.row.Regular() }

func findSimulated(name string, tolerance int) (simulated, error) {
	entry, err := catalog.Find(name)
	if err != nil {
		return simulated{}, err
	}
	row, err := capability.Find(name)
	s := simulated{curp: entry.Parted, row: row, tolerance: tolerance}
	if !entry.Parted && err == nil {
		s.start = simulator.Member(func(c protocol.Config, j *protocol.Journal, r *phase.Roster) member.Inner {
			c.Faults = tolerance
			return entry.Factory(c, j, r)
		})
	}
	return s, err
}

// checkSites refuses a number of sites that the protocol, or what it is to tolerate, is not for, and names the flag that is wrong.
// Where there are relaxed quorums for more members than a manifest may have, these can be simulated.
func (s simulated) checkSites(n int) error {
	if s.tolerance == 0 || !s.relaxed(n) {
		if err := s.row.CheckMembers(n); err != nil {
			return fmt.Errorf("--sites: %w", err)
		}
	}
	switch most := s.row.Faults(n); {
	case s.tolerance == 0:
		return nil
	case !s.curp:
		if err := s.row.CheckFaults(n, s.tolerance); err != nil {
			return fmt.Errorf("--fault-tolerance: %w", err)
		}
	case s.tolerance > most:
		return fmt.Errorf("--fault-tolerance: %d replicas can lose from 1 to %d; lower it, or add sites", n, most)
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

// sizes are the numbers of members that the schedules of a soak choose from: nil for the simulator's own, or those that have relaxed
// quorums for what is to be tolerated.
func (s simulated) sizes() (sizes []int, err error) {
	switch {
	case s.tolerance == 0:
		return nil, nil
	case s.curp:
		return nil, errors.New("--fault-tolerance: schedules of --soak draw it with protocol CURP; leave it out")
	}
	for n := 3; n <= widest; n += 2 {
		if s.relaxed(n) {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 0 {
		return nil, fmt.Errorf("--fault-tolerance: %w", s.row.CheckFaults(widest, s.tolerance))
	}
	return sizes, nil
}

// parseFaults reads the kinds of faults that the protocol's world has: in the schedules of a soak, or in an experiment.
func (s simulated) parseFaults(list string, soak bool) ([]simulator.FaultKind, error) {
	switch {
	case !s.curp:
		return simulator.ParseFaults(list)
	case soak:
		return simulator.ParseCURPFaults(list)
	}
	return simulator.ParseCURPExperimentFaults(list)
}
