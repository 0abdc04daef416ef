package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol RMWPaxos.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		// The worst is whatever the order of messages: what loses its round is handed to the key's proposer, which may
		// lose too, finishes what the other one began, and then writes.
		Name: "RMWPaxos", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "1 is for a read of a register at rest, and for an update by the member that updated it last; the " +
			"worst has one operation of " +
			"another member in the way, and more of them can make it more, without a bound",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(8, capability.Majority),
			},
			{
				Kind: register.Write, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(9, capability.Majority),
			},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(9, capability.Majority),
			},
		},
	},
	Factory: Factory,
	GoodAt:  "one writer per key: writes and rmws in one round trip, agreed on in place",
	Price:   "writers of one key that meet wait for each other",
	Samples: []string{"rmwpaxos-three-regions.yaml"},
	Messages: definition.Messages{
		Own: func(m *peerv1.Message) bool { return m.RmwPaxos != nil }, Kind: kindName, Describe: describe,
	},
	Records: records,
}

// DefinitionAtLeastOnce defines protocol RMWPaxosAtLeastOnce, whose messages and records are those of RMWPaxos.
var DefinitionAtLeastOnce = definition.Protocol{
	Row: capability.Protocol{
		Name: "RMWPaxosAtLeastOnce", Consistency: capability.Linearizable, Members: capability.Sizes(),
		Note: "as RMWPaxos, for idempotent functions alone",
		Operations: []capability.Operation{
			{
				Kind: register.Read, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(8, capability.Majority),
			},
			{Kind: register.Write,
				Refusal: "protocol RMWPaxosAtLeastOnce has no plain writes: it may apply an update more than " +
					"once, and a write that is applied again takes back what was written after it; call " +
					"set-newest.v1, which " +
					"writes with a version, or use protocol RMWPaxos"},
			{
				Kind: register.RMW, Best: capability.Trips(1, capability.Majority),
				Worst: capability.Trips(9, capability.Majority), Idempotent: true,
			},
		},
	},
	Factory: AtLeastOnce,
	GoodAt:  "the same for updates that may be repeated: no table of who has updated a key",
	Price:   "no plain writes; idempotent rmws alone",
	Records: records,
}

var records = []definition.Record{{Prefix: "p", Message: &peerv1.RMWPaxosRecord{}, Describe: describeRecord}}
