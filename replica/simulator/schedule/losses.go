package schedule

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// DiskLoss is the loss of disks for good, with their members, at an answer. All other faults end then.
type DiskLoss struct {
	Answer   int   // how many operations were answered for good until then
	Members  []int // the positions of their nodes, and of those of witnesses
	PowerCut bool  // all other processes stop at that moment too, and start again on what is durable
}

// Outage is the loss of power of all members at once. As many as may be lost never come back, and there is no other fault
// any more.
type Outage struct {
	// Answer is how many operations were answered for good until then, or a few more: some member has something that is
	// not on its disk yet. 0, or if that does not come to be: it is when everything is at rest.
	Answer int
}

// drawOutage adds an outage: at some answer, when what was acknowledged is on few disks, or at the end.
func (s *Schedule) drawOutage(operations int, options Options) {
	if !slices.Contains(options.Faults, faults.Outage) {
		return
	}
	draw := kernel.NewStream(s.Seed, kernel.ForOutages, 0)
	s.Outage = &Outage{}
	if !draw.Chance(600) {
		return
	}
	s.Outage.Answer = 1 + draw.Below(operations)
	if disks := s.Environment.Disks; draw.Chance(500) { // one is slower than the others' answers come
		slow := min(s.Environment.Network.Largest()*time.Duration(1+draw.Below(3)), s.Environment.Retry/2)
		disks[draw.Below(len(disks))] = Window{slow / 2, slow}
	}
}
