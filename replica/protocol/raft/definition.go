package raft

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol Raft.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		Name: "Raft", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for the leader's site",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.Write, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
		},
	},
	Factory: Factory,
	Led:     true,
	GoodAt:  "one leader for all",
	Price:   "everything goes to the leader",
	Records: Records,
}

// Records are those of a log, its hard state, and what is applied of it.
var Records = []definition.Record{
	{Prefix: "h", Message: &peerv1.RaftHard{}},
	{Prefix: "t", Message: &peerv1.RaftStart{}},
	{Prefix: "a", Message: &peerv1.RaftApplied{}},
	{Prefix: "k", Message: &peerv1.KeyState{}},
	{Prefix: "l"},
}
