package schedule

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawChanges adds changes of members to a schedule, from a stream of their own: the rest of the schedule stays what it
// is without them.
func (s *Schedule) drawChanges(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForChanges, 0)
	size, join := n, 0
	var changes []faults.Fault
	for range 1 + draw.Below(3) + options.changes {
		f := faults.Fault{
			Kind:  faults.Change,
			At:    draw.Between(s.Settle/20, s.Settle*5/10),
			For:   draw.Between(s.Environment.Retry/16, s.Environment.Retry/4),
			Node:  draw.Below(n),
			Rate:  []int{0, 200, 500}[draw.Below(3)],
			Size:  draw.Between(0, s.Environment.Retry/2),
			Alive: draw.Chance(600),
		}
		f.Join, f.Leave = drawSizes(draw, size, slices.Contains(options.Members, 4))
		if options.Keep {
			f.Join = max(f.Join, f.Leave)
		}
		size += f.Join - f.Leave
		join += f.Join
		if draw.Chance(300) {
			s.afterWipe(draw, &f)
		}
		changes = append(changes, f)
	}
	s.splitNewcomers(draw, n, join)
	for i := range changes {
		if draw.Chance(200) { // some learn what others know only from their peers
			changes[i].Side = drawSide(draw, n)
		}
	}
	for _, f := range changes {
		s.Faults = append(s.Faults, f)
		if draw.Chance(500) {
			s.Faults = append(s.Faults, s.splitAround(draw, n, join, f))
		}
		if draw.Chance(300) { // one at its site, perhaps a newcomer, stops
			kind := []faults.Kind{faults.Crash, faults.Torn, faults.Wipe, faults.Pause}[draw.Below(4)]
			at := f.At + draw.Between(0, 4*s.Environment.Retry)
			s.Faults = append(s.Faults,
				faults.Fault{
					Kind: kind, Node: f.Node, At: at, For: draw.Between(time.Millisecond, s.Environment.Retry),
				})
		}
	}
}

// drawApart has the newcomers of a change cut off again and again, in one of eight schedules: members decide while one
// side of a joint view has not heard of what the other one has. It draws from a stream of its own.
func (s *Schedule) drawApart(n int, options Options) {
	draw, retry := kernel.NewStream(s.Seed, kernel.ForApart, 0), s.Environment.Retry
	if !slices.Contains(options.Faults, faults.Apart) || options.Partitioned != nil || !draw.Chance(125) {
		return
	}
	newcomers := uint64(1)<<faults.Newcomers(s.Faults) - 1
	for _, f := range s.Faults {
		if f.Kind != faults.Change || f.Join == 0 {
			continue
		}
		for at := f.At; at < f.At+12*retry; {
			cut := draw.Between(retry/2, 3*retry)
			s.Faults = append(s.Faults, faults.Fault{
				Kind: faults.Partition, Everywhere: true, At: at, For: cut, Side: newcomers << n, Rate: 1000 * draw.Below(2),
			})
			at += cut + draw.Between(retry/2, 2*retry)
		}
	}
}

// stretch has everything begin later, so that there is time for changes while it goes on.
func (s *Schedule) stretch(times time.Duration) {
	s.Settle *= times
	for i := range s.Clients {
		for j := range s.Clients[i].Operations {
			s.Clients[i].Operations[j].At *= times
		}
	}
	for i := range s.Faults {
		s.Faults[i].At *= times
	}
}

// drawSizes says how many join and how many leave a view of some size. It is odd and stays so, unless four may be
// members too.
func drawSizes(draw kernel.Stream, size int, four bool) (join, leave int) {
	switch kind := draw.Below(10); {
	case four && (size == 3 || size == 4) && kind < 3:
		return 1, 0
	case four && (size == 4 || size == 5) && kind < 6:
		return 0, 1
	case size == 4:
		return 1 + kind%2, 1 + kind%2
	case size == 1:
		return 2, 0
	case kind < 2 && size < 7:
		return 2, 0
	case kind < 4:
		return 0, 2
	case kind < 5 && size < 7:
		return 3, 1
	case kind < 7:
		several := 2 + draw.Below(2)
		return several, several
	}
	return 1, 1
}

// afterWipe has someone leave who has just lost its disk, if there is one.
func (s *Schedule) afterWipe(draw kernel.Stream, f *faults.Fault) {
	for _, wiped := range s.Faults {
		if wiped.Kind == faults.Wipe {
			f.Node, f.At = wiped.Node, wiped.At+draw.Between(0, wiped.For*2)
			return
		}
	}
}

// splitNewcomers says for each partition on which side those are who come later.
func (s *Schedule) splitNewcomers(draw kernel.Stream, n, count int) {
	for i := range s.Faults {
		if s.Faults[i].Kind == faults.Partition {
			s.Faults[i].Side |= uint64(draw.Below(1<<count)) << n
		}
	}
}

// splitAround cuts the network while members change, so that there are members of two views that can talk among
// themselves: the one that leaves first with others on the one side, some newcomers on the other.
func (s *Schedule) splitAround(draw kernel.Stream, n, count int, f faults.Fault) faults.Fault {
	p := drawPartition(draw, n)
	p.Side |= uint64(draw.Below(1<<count)) << n
	if p.Side&(1<<f.Node) == 0 {
		p.Side ^= 1<<(n+count) - 1
	}
	p.At = max(0, f.At-draw.Between(0, s.Environment.Retry))
	p.For = draw.Between(s.Environment.Retry, 6*s.Environment.Retry)
	return p
}
