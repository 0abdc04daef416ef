package abd

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol ABD.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		Name: "ABD", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for a read that finds the last write with all of the majority that is nearest to it; it takes 2 " +
			"where some of them missed that, " +
			"also long after the write, and then they have it",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.Write, Best: capability.Trips(2, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{Kind: register.RMW, Refusal: "protocol ABD has no read-modify-write operations: it stores plain " +
				"registers, which can't agree on one; use protocol Gryff"},
		},
	},
	Factory: Factory,
	GoodAt:  "the smallest: plain registers",
	Price:   "no rmws; writes take two round trips",
	Samples: []string{"abd-three.yaml"},
	Records: []definition.Record{
		{Prefix: "r", Message: &peerv1.RegisterRecord{}},
	},
}
