package gus

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
)

// Definition defines protocol Gus.
var Definition = definition.Protocol{
	Row: capability.Protocol{
		// A read takes a second one when what it found is not known to be final, and a third and a fourth to have that
		// decided. With relaxed quorums the best is the same, and the worst waits for n - f. The paper has it for four
		// members too (section 3.3).
		Name: "Gus", Consistency: capability.Linearizable, Members: []int{3, 4, 5, 7, 9}, Relaxed: true, Fragments: true,
		Note: "4 is for a read that finds the write of one writer that failed, and 3 what it takes otherwise; if another operation is in the way of " +
			"deciding that, it can be more, without a bound, and so it can for a writer that is taken for failed. With erasureCoding a value " +
			"above the threshold takes one more, to store or to fetch its fragments; a read of one that is replaced meanwhile begins anew",
		Operations: []capability.Operation{
			{Kind: register.Read, Best: capability.Trips(1, capability.Majority), Worst: capability.Trips(4, capability.Majority)},
			{Kind: register.Write, Best: capability.Trips(1, capability.Majority), Worst: capability.Trips(2, capability.Majority)},
			{Kind: register.RMW, Refusal: "not supported by protocol Gus; it stores plain registers, which can't " +
				"agree on a read-modify-write: use protocol Gryff"},
		},
	},
	Factory:  Factory,
	GoodAt:   "reads and writes in one round trip while they don't meet",
	Price:    "no rmws; writes that meet may take two",
	Samples:  []string{"gus-fragments.yaml", "gus-seven-sites.yaml", "gus-three-regions.yaml"},
	Variants: []definition.Variant{{Name: "gus-relaxed", FaultTolerance: 2}, {Name: "gus-fragments", DataFragments: 3}},
	Messages: definition.Messages{
		Own: func(m *peerv1.Message) bool { return m.Gus != nil }, Kind: kindName, Describe: describe, Trace: trace,
	},
	Records: []definition.Record{
		{Prefix: "u", Message: &peerv1.GusRecord{}, Describe: describeRecord},
	},
}
