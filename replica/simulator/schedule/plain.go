package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Operations that clients of a drawn plain run begin as soon as the one before has ended, for each one of a plain run.
const (
	calmRetries = 16 // how long nothing more begins, in times of Retry
	burst       = 2
	burstCount  = 1000 // what they write is not what operations of plain runs write
)

// drawPlain is the plain run of a seed, which is one of Plains, with a few faults of the kinds that are listed. Each
// befalls one member for some time, and not single messages: what one message more changes does not have others be lost.
func drawPlain(seed uint64, options Options) Schedule {
	draw := kernel.NewStream(seed, kernel.ForPlain, 0)
	n := options.Members[draw.Below(len(options.Members))]
	all := Plains(seed, n, options)
	if len(all) > 1 {
		all = all[1:] // the first is one in which nothing goes wrong
	}
	s := all[draw.Below(len(all))].Schedule
	s.Settle -= (40 - calmRetries) * s.Environment.Retry
	s.drawBursts(options)
	if s.Environment.Tuning != (protocol.Tuning{}) {
		s.Abandon = manyAbandon // who asks again for an answer that is not kept is never told it
	}
	if options.Regular {
		s.drawAsides(draw)
	}
	env := &s.Environment
	retry, trip := env.Retry, env.Network.Largest()
	if slices.Contains(options.Faults, faults.SlowDisk) {
		took := draw.Between(trip/4, trip)
		env.Disks = slices.Repeat([]Window{{took, took}}, len(env.Disks))
	}
	var kinds []faults.Kind
	for _, kind := range []faults.Kind{faults.Loss, faults.Duplicate, faults.Reorder, faults.Crash, faults.Partition} {
		if slices.Contains(options.Faults, kind) {
			kinds = append(kinds, kind)
		}
	}
	last := s.Clients[n-1].Operations
	for range 1 + draw.Below(3) {
		if len(kinds) == 0 {
			break
		}
		f := faults.Fault{
			Kind: kinds[draw.Below(len(kinds))], Node: draw.Below(n),
			At: draw.Between(0, last[len(last)-1].At+trip),
		}
		switch f.Kind {
		case faults.Loss:
			f.For, f.Rate = draw.Between(trip/4, retry), 1000
		case faults.Duplicate, faults.Reorder:
			f.For, f.Rate, f.Size = draw.Between(trip, 2*retry), 1000, draw.Between(trip, 2*retry)
		case faults.Crash:
			f.For = []time.Duration{retry / 2, 8 * retry}[draw.Below(2)]
		case faults.Partition:
			f.Everywhere, f.Side, f.OneWay = true, 1<<f.Node, draw.Chance(500)
			f.For = draw.Between(retry, 12*retry)
			if env.Partitioned != nil {
				f.Side |= f.Side << n // the witness beside it, or at its site
			}
		}
		s.Faults = append(s.Faults, f)
	}
	s.SortFaults()
	return s
}

// drawBursts has clients begin more operations at once.
func (s *Schedule) drawBursts(options Options) {
	draw := kernel.NewStream(s.Seed, kernel.ForPlain, 1)
	script := NewScript(draw, options.RMWs)
	script.Keys, script.count = []int{1, 3}[draw.Below(2)], burstCount
	script.Idempotent, script.Large = options.Idempotent, options.Large
	for i := range s.Clients {
		plan := &s.Clients[i]
		for _, first := range slices.Clone(plan.Operations) {
			for range burst {
				op := script.Operation()
				op.Regular = options.Regular && op.Kind == register.Read
				plan.Operations = append(plan.Operations, Planned{first.At, op})
			}
		}
		slices.SortStableFunc(plan.Operations, func(a, b Planned) int { return cmp.Compare(a.At, b.At) })
	}
}

// drawAsides has sessions move, and tell others what they depend on, between their operations.
func (s *Schedule) drawAsides(draw kernel.Stream) {
	for i := range s.Clients {
		plan := &s.Clients[i]
		for _, p := range plan.Operations {
			a := Aside{At: p.At}
			switch draw.Below(4) {
			case 0:
				a.Kind, a.Whom = AsideMove, draw.Below(len(s.Clients))
			case 1:
				a.Kind, a.Whom = AsideTell, (i+1+draw.Below(len(s.Clients)-1))%len(s.Clients)
				a.Delay = draw.Between(profile.Local, nearest)
			default:
				continue
			}
			plan.Asides = append(plan.Asides, a)
		}
	}
}
