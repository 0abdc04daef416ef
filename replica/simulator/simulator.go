// Package simulator runs replication protocols in a fake world: virtual time, a network, disks and clocks that
// misbehave as a seed says, and clients whose history is checked.
//
// A run is single-threaded and draws everything from its seed, so it replays exactly on any machine. A Schedule is one
// run with explicit operations and faults: Run runs it, Search tries many, Shrink makes a failing one short, Explain
// prints it as a message diagram, and Measure reproduces the experiments of papers in virtual time.
//
// What a run is made of are the packages below this one, each of which knows only those before it:
//
//	kernel     virtual time, the order of events, random draws
//	machine    disks, logs and clocks
//	faults     what can go wrong
//	schedule   what one seed draws: environment, operations, faults
//	directed   schedules in which something rare is likely
//	diagram    how a run is shown
//	field      single fields of encoded messages
//	check      what a history has to be
//	invariant  what members do has to keep to
//	coverage   what tells runs apart
//	network    links, and the faults that are in force on them
//	clients    sessions, their operations, and what they saw
//	cluster    nodes, whose processes run members and witnesses
//	members    decisions on views, masters and witnesses, by the package membership
//	injection  the faults of a schedule, as they happen
package simulator

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/simulator/cluster"
)

// Start starts a protocol over a journal, which may hold the state of an earlier run.
type Start = cluster.Start

// Member starts a member.Member around a protocol, as the runtime does.
func Member(inner member.Factory) Start {
	return func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
		return member.Start(config, journal, inner)
	}
}
