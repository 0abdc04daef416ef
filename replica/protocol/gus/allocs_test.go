package gus_test

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

// What the three members together allocate for an operation stays below a bound; a write has records with an entry, two
// for each member, and all three are told twice.
func TestReadsAndWritesAllocateLittle(t *testing.T) {
	for kind, c := range map[string]struct {
		op   register.Operation
		most float64
	}{
		"read":  {register.Operation{Kind: register.Read, Key: "key"}, 14},
		"write": {register.Operation{Kind: register.Write, Key: "key", Value: register.Value("0123456789abcdef")}, 50},
	} {
		three := protocoltest.NewTrio(t, func(c protocol.Config, j *protocol.Journal) (protocol.Protocol, error) {
			return member.Start(c, j, gus.Factory)
		})
		now := protocol.Instant(0)
		n := testing.AllocsPerRun(2000, func() {
			now = now.Add(time.Millisecond)
			three.Members[0].Tick(now)
			three.Members[0].Submit(protocol.Request{Handle: 1, Operation: c.op})
			three.Turn(0)
		})
		if three.Done != 2001 {
			t.Fatalf("%d operations ended, want 2001", three.Done)
		}
		if n >= c.most {
			t.Errorf("a %s makes %.1f allocations", kind, n)
		}
		t.Logf("a %s makes %.1f allocations", kind, n)
		for i := range three.Members {
			if pending := three.Members[i].Pending(); pending != 0 {
				t.Errorf("member %d has %d operations at rest", i+1, pending)
			}
		}
	}
}
