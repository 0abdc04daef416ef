package epaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol EPaxos.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		// With three members the one that is asked decides, which is a majority with its coordinator.
		Name: "EPaxos", Consistency: capability.Linearizable, Members: capability.Sizes(), Fast: true,
		Note: "a read or an rmw also waits until what it depends on is known at its coordinator, which takes no " +
			"round trip of its own. With faultTolerance f the fast path asks n/2 + f, rounded down, instead of " +
			"n - 2; with 1 it is always taken",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.AllButTwo),
				Worst: capability.Trips(2, capability.Majority), BestOnly: []int{3},
			},
			{
				Kind: register.Write, Best: capability.Trips(1, capability.AllButTwo),
				Worst: capability.Trips(2, capability.Majority), BestOnly: []int{3},
			},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.AllButTwo),
				Worst: capability.Trips(2, capability.Majority), BestOnly: []int{3},
			},
		},
	},
	Factory:  Factory,
	GoodAt:   "every operation in one round trip while keys are not shared, with three replicas always",
	Price:    "reads wait for the updates that they meet",
	Samples:  []string{"epaxos-five-regions.yaml", "epaxos-three-regions.yaml"},
	Variants: []definition.Variant{{Name: "epaxos-small", FaultTolerance: 1}},
	Records: []definition.Record{
		{Prefix: "s", Message: &peerv1.KeyState{}},
		{Prefix: "i", Message: &peerv1.Message{}},
	},
}
