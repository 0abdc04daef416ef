package epaxos

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// turn does what a member asks, and what follows from it, at once.
func (c *cluster) turn(i int) {
	for _, m := range c.keep(i) {
		c.members[m.To-1].Receive(view.MemberID(i+1), m.Message)
		c.turn(int(m.To - 1))
	}
}

// What three members together allocate for a command that commits on the fast path, with this test's disks and
// messages, stays below a bound: each of them makes an instance, votes on it or is told of it, and a state of the key;
// two write the instance down and delete it again.
func TestCommandsAllocateLittle(t *testing.T) {
	for kind, c := range map[string]struct {
		op   register.Operation
		most float64
	}{
		"read":  {register.Operation{Kind: register.Read, Key: "key"}, 70},
		"write": {register.Operation{Kind: register.Write, Key: "key", Value: register.Value("0123456789abcdef")}, 75},
	} {
		three := newCluster(3)
		now := protocol.Instant(1)
		n := testing.AllocsPerRun(2000, func() {
			now = now.Add(time.Millisecond)
			three.members[0].Tick(now)
			delete(three.answers, 1)
			three.members[0].Submit(protocol.Request{Handle: 1, Operation: c.op})
			three.turn(0)
			if r := three.answers[1]; r.Status != register.OK || !r.Fast || r.RoundTrips != 1 {
				t.Fatalf("a %s ends as %+v, want the fast path", kind, r)
			}
		})
		if n >= c.most {
			t.Errorf("a %s makes %.1f allocations, want fewer than %.0f", kind, n, c.most)
		}
		t.Logf("a %s makes %.1f allocations", kind, n)
		for i, m := range three.members {
			if m.Pending() != 0 || len(three.disks[i]) > 2 {
				t.Errorf("member %d has %d instances and %d records at rest, want a state and a free slot", i+1,
					m.Pending(), len(three.disks[i]))
			}
		}
	}
}
