package schedule

import (
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawLimits gives the members of a part of the schedules small bounds of what they remember, gather and send at once,
// some of them in each, and clients larger values. It draws from a stream of its own.
func (s *Schedule) drawLimits(options Options) {
	draw := kernel.NewStream(s.Seed, kernel.ForLimits, 0)
	if !slices.Contains(options.Faults, faults.Limits) || draw.Chance(400) {
		return
	}
	s.Environment.Tuning = drawTuning(draw, s.Environment.Retry)
	if looked := kernel.NewStream(s.Seed, kernel.ForLimits, 6); options.Data > 0 && looked.Chance(500) {
		s.Environment.Tuning.Looked = 1 + looked.Below(3)
		if looked.Chance(700) {
			s.Environment.Tuning.Grace = time.Millisecond // so reads find values of which fragments have gone
		}
	}
	if starts := kernel.NewStream(s.Seed, kernel.ForLimits, 3); starts.Chance(300) {
		s.Environment.Starts = manyStarts[starts.Below(len(manyStarts))] - uint32(starts.Below(5))
	}
	if log := kernel.NewStream(s.Seed, kernel.ForLimits, 2); log.Chance(300) {
		s.Environment.Tuning.Uncommitted = []int{1, 64, 256}[log.Below(3)]
	}
	if answers := kernel.NewStream(s.Seed, kernel.ForLimits, 7); answers.Chance(300) {
		s.Environment.Tuning.AllAnswerBytes = []int{1, 16, 64}[answers.Below(3)]
	}
	if coarse := kernel.NewStream(s.Seed, kernel.ForLimits, 4); coarse.Chance(300) {
		s.Environment.Coarse = s.Environment.Retry * time.Duration(1+coarse.Below(4))
	}
	changes := slices.ContainsFunc(s.Faults, func(f faults.Fault) bool { return f.Kind == faults.Change })
	if changes || slices.Contains(options.Faults, faults.Change) || slices.Contains(options.Faults, faults.Outage) {
		// A member of Gus that has forgotten a write tells nothing of it, for good. Where others have left or are lost, too, a
		// read may wait for a newer write, and none comes in the end.
		s.Environment.Tuning.Writes = 0
	}
	s.Abandon = max(s.Abandon, manyAbandon)
	if draw.Chance(700) {
		s.growValues(draw)
	}
	if answers := kernel.NewStream(s.Seed, kernel.ForLimits, 5); answers.Chance(30) {
		s.growAnswers(answers)
	}
}

// manyAbandon is of how many of 1000 attempts clients give up where answers are forgotten: who asks again is told just
// that, wherever it asks.
const manyAbandon = 300

// manyStarts are numbers of starts that a disk comes to during a schedule, or after it: 16 bits, and nearly the most
// that it counts.
var manyStarts = []uint32{1 << 16, 1<<24 - 1000}

// drawTuning makes about half of the bounds small.
func drawTuning(draw kernel.Stream, retry time.Duration) (t protocol.Tuning) {
	bound := func(bound *int, choices ...int) {
		if chosen := choices[draw.Below(len(choices))]; draw.Chance(500) {
			*bound = chosen
		}
	}
	bound(&t.Sessions, 1, 2, 3)
	bound(&t.Answers, 1, 2)
	bound(&t.AnswerBytes, 1, 8, 64)
	bound(&t.Batch, 1, 2)
	bound(&t.Carried, 1, 8, 64)
	bound(&t.Recorded, 1, 64, 128)
	bound(&t.PageBytes, 32, 128, 512)
	bound(&t.Resting, 1, 2)
	bound(&t.LogEntries, 1, 2, 4, 8, 16)
	bound(&t.LogBytes, 256, 1024, 4096)
	bound(&t.Slots, 4, 8, 16, 64)
	bound(&t.Writes, 1, 2)
	bound(&t.Versions, 1, 2)
	if draw.Chance(300) {
		t.SessionsFor = max(draw.Between(retry/2, 20*retry), time.Millisecond)
	}
	bound(&t.Attempts, 1, 2)
	return t
}

// drawInFlight has sessions of a part of the schedules have several operations in progress. Those of a regular protocol
// have one: they are processes of the model.
func (s *Schedule) drawInFlight(options Options) {
	draw := kernel.NewStream(s.Seed, kernel.ForLimits, 1)
	if slices.Contains(options.Faults, faults.InFlight) && draw.Chance(400) && !options.Regular {
		s.Environment.InFlight = 2 + draw.Below(3)
	}
}

// Sizes of values, in bytes, with which a schedule is beyond a bound: of the tuning, 2 KiB of a request that witnesses
// save, 16 KiB of an answer that is kept, and 64 KiB of a value that questions bring along. The largest take as long as
// all others together, so few schedules have them, and few of their values.
var (
	someSizes = []int{16, 40, 100, 600, 3 << 10}
	largest   = []int{17 << 10, 65 << 10}
)

// growAnswers has rmws answer values that are nearly as large as an answer may be to be kept, or larger.
func (s *Schedule) growAnswers(draw kernel.Stream) {
	for _, plan := range s.Clients {
		for i := range plan.Operations {
			call := &plan.Operations[i].Operation.Call
			if call.Function == register.CompareAndSwap || call.Function == register.SetIfAbsent {
				call.Function, call.Args = register.GetAndSet, call.Args[len(call.Args)-1:]
			}
		}
	}
	s.growTo(draw, []int{15 << 10, 17 << 10}[draw.Below(2)], 300+draw.Below(600))
}

// growValues makes some of the values larger.
func (s *Schedule) growValues(draw kernel.Stream) {
	size, rate := someSizes[draw.Below(len(someSizes))], 200+draw.Below(600)
	if draw.Chance(30) {
		size, rate = largest[draw.Below(len(largest))], 20+draw.Below(100)
	}
	s.growTo(draw, size, rate)
}

// growTo makes so many of 1000 values as large as that.
func (s *Schedule) growTo(draw kernel.Stream, size, rate int) {
	larger := map[string]register.Value{} // by the value before; never ranged over
	grow := func(value []byte) register.Value {
		if _, known := larger[string(value)]; !known {
			larger[string(value)] = value
			if missing := size - len(value); missing > 0 && len(value) > 0 && draw.Chance(rate) {
				larger[string(value)] = grown(value, missing)
			}
		}
		return larger[string(value)]
	}
	for _, plan := range s.Clients {
		for i := range plan.Operations {
			op := &plan.Operations[i].Operation
			switch {
			case op.Kind == register.Write && op.Value.Present():
				op.Value = grow(op.Value)
			case replaces(op.Call.Function):
				for i := range op.Call.Args {
					op.Call.Args[i] = grow(op.Call.Args[i])
				}
			case op.Call.Function == register.SetNewest:
				op.Call.Args[1] = grow(op.Call.Args[1])
			}
		}
	}
}

// replaces reports whether a function's arguments are values of the register.
func replaces(function string) bool {
	return slices.Contains([]string{register.CompareAndSwap, register.GetAndSet, register.SetIfAbsent}, function)
}

// grown is a value with so many more bytes: an integer stays the same one.
func grown(value []byte, more int) register.Value {
	if value[0] == '<' {
		return register.Value("<" + strings.Repeat("0", more) + string(value[1:]))
	}
	return register.Value(strings.Repeat("0", more) + string(value))
}
