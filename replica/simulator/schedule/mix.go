package schedule

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// mixes are few kinds of faults together, each where some bugs live: power failures, lost disks, links, and
// one kind alone. A kind that is there twice comes twice as often.
var mixes = [][]faults.Kind{
	{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder},
	{faults.Crash, faults.Crash, faults.Loss, faults.Torn},
	{faults.Wipe, faults.Wipe, faults.Partition, faults.Loss, faults.Crash},
	{faults.Wipe, faults.Partition},
	{faults.Partition, faults.Loss, faults.Reorder, faults.Duplicate, faults.Slow},
	{faults.Duplicate, faults.Loss, faults.Partition, faults.Crash},
	{faults.Reorder, faults.Loss},
	{faults.Pause, faults.Partition, faults.Skew},
	{faults.Crash},
	{faults.Reorder},
}

// mixed are the options of a seed's schedule if Mix has a part in them, and what of the schedule itself it draws, from a
// stream of its own.
func mixed(seed uint64, options Options) (Options, func(*Schedule)) {
	draw := kernel.NewStream(seed, kernel.ForMix, 0)
	if !slices.Contains(options.Faults, faults.Mix) || draw.Chance(300) {
		return options, func(*Schedule) {}
	}
	if draw.Chance(500) {
		options.Faults = faults.Without(options.Faults, faults.Change)
	}
	if draw.Chance(400) {
		options.Faults = faults.Without(options.Faults, faults.OldCopy, faults.Rot)
	}
	if draw.Chance(400) {
		few := slices.DeleteFunc(slices.Clone(mixes[draw.Below(len(mixes))]), func(k faults.Kind) bool {
			return !slices.Contains(options.Faults, k)
		})
		if len(few) > 0 {
			// Those that are drawn apart from the others stay.
			options.Faults = append(few, faults.Without(options.Faults, faults.Basic()...)...)
		}
	}
	if draw.Chance(300) {
		options.Members = []int{slices.Min(options.Members)}
	}
	if draw.Chance(250) && options.RMWs > FewRMWs {
		options.RMWs = FewRMWs
	}
	if draw.Chance(300) {
		options.Keys = 1 + draw.Below(8)
	}
	impatient := draw.Chance(150)
	if impatient {
		// Members that suspect each other sooner than they could answer promise no end of their duels; with those that an
		// outage leaves, or a change that is given up, which are just enough, there may be none.
		options.Impatient, options.Faults = true, faults.Without(options.Faults, faults.Outage)
	}
	stops := draw.Chance(300)
	if draw.Chance(500) {
		options.changes = 3 + draw.Below(6)
	}
	if draw.Chance(200) { // members of Gus keep few undecided writes in such schedules alone (drawLimits)
		options.Faults = faults.Without(options.Faults, faults.Change, faults.Outage)
	}
	return options, func(s *Schedule) {
		// Leases are promised by clocks that count what a machine was suspended for.
		s.Environment.ClockStops = stops && options.Partitioned == nil
		for i := range s.Faults {
			if f := &s.Faults[i]; impatient && f.Kind == faults.Change {
				f.Alive = true
			}
		}
	}
}

// Directed makes the schedule of a seed in which something rare is likely.
type Directed func(seed uint64, options Options) Schedule

// directed is the schedule of a seed that is a directed one, if Directed has it be one: one of eight, or all if no faults
// are to be drawn.
func directed(seed uint64, options Options) (s Schedule, is bool) {
	draw := kernel.NewStream(seed, kernel.ForMix, 1)
	if !slices.Contains(options.Faults, faults.Directed) || len(options.Directed) == 0 {
		return s, false
	}
	if len(faults.Without(options.Faults, faults.Variations()...)) > 0 && !draw.Chance(125) {
		return s, false
	}
	s = options.Directed[draw.Below(len(options.Directed))](seed, options)
	s.Environment.OperatorPolicy = options.OperatorPolicy
	if s.Environment.Partitioned != nil {
		s.Environment.Doubtful = s.Environment.Doubtful || draw.Chance(500) // witnesses that restart are vouched for
	} else {
		s.Environment.Losses, s.Environment.Data = options.Losses, options.Data
		s.Environment.Tolerance = options.Tolerance
	}
	if s.Environment.Tuning == (protocol.Tuning{}) {
		s.drawLimits(options)
		s.Environment.Tuning.Uncommitted = 0 // many clients work all the time: one entry after the other takes too long
	}
	if s.Environment.Partitioned != nil {
		s.drawSlowDisk(options) // with others, clients that work all the time would have too many operations at once
	}
	s.drawFetches(options)
	s.drawInFlight(options)
	if options.Regular && !s.Environment.Regular {
		s.drawSessions(options)
	}
	s.SortFaults()
	return s, true
}
