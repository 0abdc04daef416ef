package simulator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

const (
	maxShrinkRuns = 2000            // bounds the runs of a shrink
	shrinkCheck   = 5 * time.Second // bounds the check of each: a candidate that takes longer helps nobody who reads it
)

// Shrink returns a shorter schedule that goes wrong in the same way: fewer operations and fewer faults. It
// takes out parts that turn out not to matter, large ones first (delta debugging), until the context ends.
func Shrink(ctx context.Context, f *Failure) *Failure {
	s := &shrinker{ctx: ctx, best: f}
	defer func() { s.best.Number = f.Number }()
	for {
		before := s.size()
		for i := range f.Schedule.Clients { // first: the check of a shorter history is faster
			reduce(s, func(all *schedule.Schedule) *[]schedule.Planned { return &all.Clients[i].Operations })
		}
		for i := range f.Schedule.Clients {
			reduce(s, func(all *schedule.Schedule) *[]schedule.Aside { return &all.Clients[i].Asides })
		}
		reduce(s, func(all *schedule.Schedule) *[]faults.Fault { return &all.Faults })
		reduce(s, func(all *schedule.Schedule) *[]schedule.Strike { return &all.Strikes })
		reduce(s, func(all *schedule.Schedule) *[]schedule.Stop { return &all.Stops })
		reduce(s, func(all *schedule.Schedule) *[]schedule.Redraw { return &all.Redraws })
		if s.size() == before || s.runs >= maxShrinkRuns || s.ctx.Err() != nil {
			return s.best
		}
	}
}

type shrinker struct {
	ctx  context.Context
	best *Failure
	runs int
}

func (s *shrinker) size() int {
	best := &s.best.Schedule
	size := len(best.Faults) + len(best.Strikes) + len(best.Redraws) + len(best.Stops)
	for _, p := range best.Clients {
		size += len(p.Operations) + len(p.Asides)
	}
	return size
}

// try keeps a candidate if it goes wrong in the same way.
func (s *shrinker) try(candidate schedule.Schedule) bool {
	if s.runs >= maxShrinkRuns {
		return false
	}
	s.runs++
	candidate.Check = shrinkCheck
	o, _ := play(s.ctx, candidate, s.best.start, watch{})
	if s.ctx.Err() != nil || o.Failure == nil || o.Failure.Class != s.best.Class {
		return false
	}
	s.best = o.Failure
	return true
}

// reduce takes ranges out of a list of the schedule, halving their length until single elements have been tried.
func reduce[T any](s *shrinker, list func(*schedule.Schedule) *[]T) {
	length := func() int { return len(*list(&s.best.Schedule)) }
	for chunk := length(); chunk > 0; chunk /= 2 {
		for from := 0; from < length(); {
			candidate := s.best.Schedule
			candidate.Clients = slices.Clone(candidate.Clients)
			some := list(&candidate)
			*some = slices.Delete(slices.Clone(*some), from, min(from+chunk, length()))
			if !s.try(candidate) {
				from += chunk
			}
		}
	}
}

// Explain shrinks nothing; it replays a failure and prints it: what went wrong, the operations, the faults,
// and a message diagram with a line per event and a lane per member.
func Explain(f *Failure) string {
	var text strings.Builder
	fmt.Fprintln(&text, f.Error())
	s := f.Schedule
	fmt.Fprintf(&text, "\n%d members, round trips up to %v, retry %v\n", len(s.Environment.Network.Sites), s.Environment.Network.Largest(), s.Environment.Retry)
	for _, fault := range s.Faults {
		fmt.Fprintf(&text, "fault: %v\n", fault)
	}
	for _, strike := range s.Strikes {
		fmt.Fprintf(&text, "fault: %v\n", strike)
	}
	for _, stop := range s.Stops {
		fmt.Fprintf(&text, "fault: %v\n", stop)
	}
	for _, r := range s.Redraws {
		fmt.Fprintf(&text, "the network draws as seed %d has it from %v on\n", r.Seed, r.At)
	}
	_, drawn := play(context.Background(), s, f.start, watch{traced: true})
	text.WriteString("\n" + diagram.Legend + "\n\n" + drawn)
	return text.String()
}
