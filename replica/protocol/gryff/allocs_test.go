package gryff_test

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

// The hot path of the three members together stays below ten allocations for an operation.
func TestReadsAndWritesAllocateLittle(t *testing.T) {
	for kind, op := range map[string]register.Operation{
		"read":         {Kind: register.Read, Key: "key"},
		"regular read": {Kind: register.Read, Key: "key", Regular: true},
		"write":        {Kind: register.Write, Key: "key", Value: register.Value("0123456789abcdef")},
	} {
		three := protocoltest.NewTrio(t, func(c protocol.Config, j *protocol.Journal) (protocol.Protocol, error) {
			return member.Start(c, j, gryff.FactoryRSC)
		})
		now := protocol.Instant(0)
		n := testing.AllocsPerRun(2000, func() {
			now = now.Add(time.Millisecond)
			three.Members[0].Tick(now)
			three.Members[0].Submit(protocol.Request{Handle: 1, Operation: op})
			three.Turn(0)
		})
		if three.Done != 2001 {
			t.Fatalf("%d operations ended, want 2001", three.Done)
		}
		if n >= 10 {
			t.Errorf("a %s makes %.1f allocations", kind, n)
		}
		t.Logf("a %s makes %.1f allocations", kind, n)
	}
}
