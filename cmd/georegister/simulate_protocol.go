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

// parseFaults reads the kinds of faults that the protocol's world has.
func (s simulated) parseFaults(list string) ([]simulator.FaultKind, error) {
	if !s.curp {
		return simulator.ParseFaults(list)
	}
	return simulator.ParseCURPFaults(list)
}
