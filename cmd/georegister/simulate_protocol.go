package main

import (
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator"
)

// simulated is a protocol that the simulator runs.
type simulated struct {
	start simulator.Start // nil for CURP, whose world with masters and witnesses the simulator makes itself
	curp  bool
	row   capability.Protocol
}

// regular reports whether histories are to be regular sequentially consistent, and no more.
func (s simulated) regular() bool { return s.row.Regular() }

func findSimulated(name string) (simulated, error) {
	entry, err := catalog.Find(name)
	if err != nil {
		return simulated{}, err
	}
	row, err := capability.Find(name)
	if entry.Parted || err != nil {
		return simulated{curp: entry.Parted, row: row}, err
	}
	return simulated{start: simulator.Member(entry.Factory), row: row}, nil
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
