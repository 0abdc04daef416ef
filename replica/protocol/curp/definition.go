package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol CURP.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		// The worst has a witness that rejects, a request to sync and the sync.
		Name: "CURP", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for an update that commutes with what is not synced; 0 is for a read at the site of the master, " +
			"or of a backup with a " +
			"witness of the partition, and elsewhere it is 1",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(0, capability.Nobody),
				Worst: capability.Trips(2, capability.Replicas),
			},
			{
				Kind: register.Write, Best: capability.Trips(1, capability.Replicas),
				Worst: capability.Trips(3, capability.Replicas),
			},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.Replicas),
				Worst: capability.Trips(3, capability.Replicas),
			},
		},
	},
	Partitioned: &definition.Partitioned{Start: Start, Divide: store.Divide},
	Led:         true,
	GoodAt:      "updates in one round trip to a master and f witnesses; reads at a backup's site in none",
	Price:       "masters: a shard stops for seconds when its own is lost",
	Samples:     []string{"curp-dedicated-witnesses.yaml", "curp-five-regions.yaml", "curp-three-zones.yaml"},
	Messages: definition.Messages{
		Own: func(m *peerv1.Message) bool { return m.Curp != nil || m.Witness != nil }, Trace: trace,
	},
	Records: []definition.Record{
		{Prefix: "r", Message: &peerv1.RegisterRecord{}},
		{Prefix: "s", Message: &peerv1.PartitionSession{}},
		{Prefix: "d", Message: &peerv1.Answer{}},
		{Prefix: "L", Message: &peerv1.LogEntry{}},
		{Prefix: "P", Message: &peerv1.PartitionRecord{}},
		{Prefix: "K", Message: &peerv1.PositionRecord{}},
		{Prefix: "C"},
	},
}
