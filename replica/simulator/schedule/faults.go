package schedule

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawKinds picks a few kinds of faults, or all.
func drawKinds(draw kernel.Stream, kinds []faults.Kind) []faults.Kind {
	if draw.Chance(400) {
		return kinds
	}
	var some []faults.Kind
	for range 1 + draw.Below(4) {
		some = append(some, kinds[draw.Below(len(kinds))])
	}
	return some
}

// drawFaults spreads faults over the time in which operations run.
func (s *Schedule) drawFaults(draw kernel.Stream, n int, kinds []faults.Kind, count int) {
	for range count {
		f := faults.Fault{
			Kind: kinds[draw.Below(len(kinds))],
			At:   draw.Between(s.Settle/20, s.Settle*9/10),
			For:  draw.Between(s.Environment.Retry/4, s.Environment.Retry*3),
			Node: draw.Below(n),
		}
		switch f.Kind {
		case faults.Crash, faults.Torn, faults.Wipe:
			f.Rate = []int{0, 500, 1000}[draw.Below(3)]
			f.Intact = draw.Below(3)
			if draw.Chance(400) {
				// back before its old messages have arrived
				f.For = draw.Between(time.Millisecond, s.Environment.Network.Largest())
			}
		case faults.Partition:
			p := drawPartition(draw, n)
			p.At, p.For = f.At, f.For
			f = p
		case faults.Loss, faults.Duplicate, faults.Reorder:
			f.Rate = 100 + draw.Below(600)
			f.Size = draw.Between(time.Millisecond, s.Environment.Retry*3)
			if draw.Chance(500) {
				f.Everywhere = true
			}
		case faults.OldCopy:
			f.Size = draw.Between(s.Environment.Retry, 6*s.Environment.Retry)
		case faults.Slow:
			f.Size = draw.Between(time.Millisecond, s.Environment.Retry)
		case faults.Skew:
			f.Size = draw.Between(0, 6*s.Environment.Retry)
			f.Drift = draw.Below(200_001) - 100_000
		case faults.Pause:
			f.For = draw.Between(s.Environment.Retry/4, 6*s.Environment.Retry)
		}
		s.Faults = append(s.Faults, f)
		if f.Kind == faults.Crash || f.Kind == faults.Torn || f.Kind == faults.Wipe {
			s.drawCompany(draw, n, f, slices.Contains(kinds, faults.Partition))
		}
	}
	s.SortFaults()
}

// SortFaults orders faults by time: of two of one kind on a link, the later one is in force. Those of one time stay in
// the order in which they were drawn.
func (s *Schedule) SortFaults() {
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
}

// drawCompany adds what makes the stop of a process worse: others stop with it, as in a power failure; it stops
// again; or the network is cut one way before it stops, and another way once it is back, which is how quorums of
// different times come to miss each other.
func (s *Schedule) drawCompany(draw kernel.Stream, n int, f faults.Fault, cut bool) {
	if f.Kind != faults.Wipe && draw.Chance(250) {
		for other := range n {
			if other != f.Node && draw.Chance(700) {
				also := f
				also.Node = other
				s.Faults = append(s.Faults, also)
			}
		}
	}
	if draw.Chance(250) { // it stops again soon after it is back
		again := f
		again.At += f.For + draw.Between(0, s.Environment.Retry)
		s.Faults = append(s.Faults, again)
	}
	if !cut || draw.Chance(400) {
		return
	}
	retry := s.Environment.Retry
	before, after := drawPartition(draw, n), drawPartition(draw, n)
	early := draw.Between(0, retry/2)
	before.At = max(0, f.At-early)
	before.For = early + f.For + draw.Between(0, retry*2)
	after.At = before.At + before.For
	after.For = draw.Between(retry, retry*5)
	s.Faults = append(s.Faults, before, after)
}

func drawPartition(draw kernel.Stream, n int) faults.Fault {
	return faults.Fault{
		Kind: faults.Partition, Everywhere: true, Side: drawSide(draw, n), OneWay: draw.Chance(300),
		Rate: []int{0, 500, 1000}[draw.Below(3)],
	}
}

// drawSide picks at least one and not all of n nodes, one node alone more often than the others together.
func drawSide(draw kernel.Stream, n int) uint64 {
	if draw.Chance(300) {
		return 1 << draw.Below(n)
	}
	for {
		if side := draw.Uint64() & (1<<n - 1); side != 0 && side != 1<<n-1 {
			return side
		}
	}
}

// DrawSteadily has the faults of an experiment come all the time: one for every few round trips, most of the time one
// or two at once.
func (s *Schedule) DrawSteadily(options Options) {
	if len(options.Faults) == 0 {
		return
	}
	n, partitioned := len(s.Environment.Network.Sites), s.Environment.Partitioned != nil
	if partitioned {
		options.Faults = faults.WithStableMembers(options.Faults)
	}
	kinds := faults.Without(options.Faults, faults.Change, faults.Lose, faults.Move, faults.LostQuorum, faults.Split, faults.Outage)
	kinds = faults.Without(kinds, faults.Variations()...)
	if len(kinds) > 0 {
		s.drawFaults(kernel.NewStream(s.Seed, kernel.ForSchedule, 0), n, kinds, 1+int(s.Settle/(4*s.Environment.Retry)))
	}
	if slices.Contains(options.Faults, faults.Change) {
		s.drawChanges(s.Seed, n, options)
	}
	if partitioned {
		s.drawForPartitions(kernel.NewStream(s.Seed, kernel.ForPartitions, 0), n, options)
		s.drawMoves(s.Seed, n, options)
	}
	s.SortFaults()
}
