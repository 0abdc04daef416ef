package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator"
)

// curpName is the protocol with masters and witnesses, whose world the simulator makes itself.
const curpName = "curp"

// simulated is a protocol that the simulator runs.
type simulated struct {
	start simulator.Start // nil for CURP
	curp  bool
	row   capability.Protocol
}

func simulatedNames() []string {
	names := catalog.Names()
	if !slices.Contains(names, curpName) {
		names = append(names, curpName)
	}
	slices.Sort(names)
	return names
}

func findSimulated(name string) (simulated, error) {
	if strings.EqualFold(name, curpName) {
		row, err := capability.Find(curpName)
		if err != nil { // it is simulated before it is deployed
			row, err = capability.Find("gryff") // as many members, and all operations
			row.Name = "CURP"
		}
		return simulated{curp: true, row: row}, err
	}
	inner, err := catalog.Find(name)
	if err != nil {
		return simulated{}, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(simulatedNames(), ", "))
	}
	row, err := capability.Find(name)
	return simulated{start: simulator.Member(inner), row: row}, err
}

// parseFaults reads the kinds of faults that the protocol's world has.
func (s simulated) parseFaults(list string) ([]simulator.FaultKind, error) {
	if !s.curp {
		return simulator.ParseFaults(list)
	}
	return simulator.ParseCURPFaults(list)
}
