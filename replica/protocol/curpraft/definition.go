package curpraft

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol CURPRaft.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		Name: "CURPRaft", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for a read at the leader's site, and for an update that commutes with what is not committed; all " +
			"else is as in Raft",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.Write, Best: capability.Trips(1, capability.Superquorum),
				Worst: capability.Trips(2, capability.Majority),
			},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.Superquorum),
				Worst: capability.Trips(2, capability.Majority),
			},
		},
	},
	Factory: Factory,
	Led:     true,
	GoodAt:  "one leader for all, with witnesses: updates that commute in one round trip",
	Price:   "everything goes to the leader",
	Messages: definition.Messages{
		Own: func(m *peerv1.Message) bool {
			return m.Kind >= peerv1.Kind_RECORD && m.Kind <= peerv1.Kind_GATHERED
		}, Describe: describe, NoCarstamp: true,
	},
	Records: append(slices.Clone(raft.Records), definition.Record{Prefix: "w", DescribeKey: describeWitnessKey}),
}
