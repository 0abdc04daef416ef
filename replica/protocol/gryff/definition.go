package gryff

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol Gryff.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		Name: "Gryff", Consistency: capability.Linearizable, Members: capability.Sizes(), Fast: true,
		Note: "with more than 3 members, 1 is for a read that finds the last write with a majority, who it brings it " +
			"to included, and 2 for an rmw " +
			"that finds it with all of n - 1; else it takes one more, also long after the write. With faultTolerance f " +
			"the fast path of an rmw asks n/2 + f, rounded down, instead of n - 1; with 1 it always takes that",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority), BestOnly: []int{3}, UpTo: carriedBytes,
			},
			{
				Kind: register.Write, Best: capability.Trips(2, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.RMW, Best: capability.Trips(2, capability.AllButOne),
				Worst: capability.Trips(3, capability.Majority), BestOnly: []int{3},
			},
		},
	},
	Factory: Factory,
	GoodAt:  "reads in one round trip, rmws, no leader",
	Price:   "writes take two round trips",
	Samples: []string{
		"gryff-chaos-mesh.yaml", "gryff-five-regions.yaml", "gryff-memory.yaml", "gryff-three-regions.yaml",
		"gryff-three-zones.yaml",
	},
	Records: records,
}

// DefinitionRSC defines protocol GryffRSC.
var DefinitionRSC = definition.Protocol{
	Row: capability.Protocol{
		// As Gryff, of clients that have sessions. The worst has a write-back before it, be it in its own shard or in
		// others, and a read that of Gryff, too. With three members no read leaves anything to come after.
		Name: "GryffRSC", Consistency: capability.RegularSequential, Members: capability.Sizes(), Fast: true,
		Note: "a session's operation that comes after a read that found what no quorum is known to hold yet takes one " +
			"more than in Gryff if it is of another key or an rmw; a read by a client without sessions, " +
			"or of a value " +
			"over 64 KiB, may take its second as in Gryff. With 3 members there are no such reads, but a session may " +
			"bring them along " +
			"from when there were more",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(3, capability.Majority), BestOnly: []int{3}, UpTo: carriedBytes,
			},
			{
				Kind: register.Write, Best: capability.Trips(2, capability.Majority),
				Worst: capability.Trips(3, capability.Majority), BestOnly: []int{3},
			},
			{
				Kind: register.RMW, Best: capability.Trips(2, capability.AllButOne),
				Worst: capability.Trips(4, capability.Majority), BestOnly: []int{3},
			},
			{
				Kind: register.Fence, Best: capability.Trips(0, capability.Nobody),
				Worst: capability.Trips(1, capability.Majority),
			},
		},
	},
	Factory: FactoryRSC,
	GoodAt: "the same for clients that have [sessions](docs/sessions.md): reads take one round trip also where they " +
		"meet writes",
	Price:    "regular sequential consistency, not linearizability",
	Samples:  []string{"gryffrsc-five-regions.yaml"},
	Variants: []definition.Variant{{Name: "gryffrsc-small", FaultTolerance: 1}},
	Records:  records,
}

var records = []definition.Record{
	{Prefix: "r", Message: &peerv1.RegisterRecord{}},
	{Prefix: "s", Message: &peerv1.KeyState{}},
	{Prefix: "i", Message: &peerv1.Message{}},
}
