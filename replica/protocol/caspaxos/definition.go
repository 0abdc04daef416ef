package caspaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol CASPaxos. Its messages and records have the types of RMWPaxos, which describes them.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		Name: "CASPaxos", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for a read of a register at rest, and 2 is for a change that meets no other one of its key; the " +
			"worst is a bound that " +
			"20 clients keep to of which a quarter use one key, and more of them can make it more, without a bound",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(30, capability.Majority),
			},
			{
				Kind: register.Write, Best: capability.Trips(2, capability.Majority),
				Worst: capability.Trips(30, capability.Majority),
			},
			{
				Kind: register.RMW, Best: capability.Trips(2, capability.Majority),
				Worst: capability.Trips(30, capability.Majority),
			},
		},
	},
	Factory: Factory,
	GoodAt:  "the plain baseline: rmws without a leader and without a log, each key by itself",
	Price:   "writes and rmws take two round trips, and those of one key that meet begin again",
	Samples: []string{"caspaxos-three-regions.yaml"},
	Records: []definition.Record{{Prefix: "p", Message: &peerv1.RMWPaxosRecord{}}},
}
