package simulator

import (
	"slices"
	"time"
)

// without is kinds less one.
func without(kinds []FaultKind, kind FaultKind) []FaultKind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k FaultKind) bool { return k == kind })
}

// drawReplacements adds replacements of members to a schedule, from a stream of their own: the rest of the
// schedule stays what it is without them.
func (s *Schedule) drawReplacements(seed uint64, n int) {
	draw := newStream(seed, forReplacements, 0)
	count := 1 + draw.below(3)
	s.splitSpares(draw, n, count)
	for range count {
		f := Fault{
			Kind:  Replace,
			At:    draw.between(s.Settle/20, s.Settle*6/10),
			For:   draw.between(s.env.retry/16, s.env.retry/2),
			Node:  draw.below(n),
			Rate:  []int{0, 200, 600}[draw.below(3)],
			Size:  draw.between(0, s.env.retry),
			Alive: draw.chance(600),
		}
		if draw.chance(300) {
			s.afterWipe(draw, &f)
		}
		s.Faults = append(s.Faults, f)
		if draw.chance(500) {
			s.Faults = append(s.Faults, s.splitAround(draw, n, count, f))
		}
		if draw.chance(300) { // its seat's holder, perhaps the newcomer, stops
			kind := []FaultKind{Crash, Torn, Wipe, Pause}[draw.below(4)]
			at := f.At + draw.between(0, 4*s.env.retry)
			s.Faults = append(s.Faults, Fault{Kind: kind, Node: f.Node, At: at, For: draw.between(time.Millisecond, s.env.retry)})
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// afterWipe makes the replaced member one that has just lost its disk, if there is one.
func (s *Schedule) afterWipe(draw stream, f *Fault) {
	for _, wiped := range s.Faults {
		if wiped.Kind == Wipe {
			f.Node, f.At = wiped.Node, wiped.At+draw.between(0, wiped.For*2)
			return
		}
	}
}

// splitSpares says for each partition on which side those are who come later.
func (s *Schedule) splitSpares(draw stream, n, count int) {
	for i := range s.Faults {
		if s.Faults[i].Kind == Partition {
			s.Faults[i].Side |= uint64(draw.below(1<<count)) << n
		}
	}
}

// splitAround cuts the network while a member is replaced, so that there are members of two views that can talk
// among themselves: the one that is given up with others on the one side, the newcomer on the other.
func (s *Schedule) splitAround(draw stream, n, count int, f Fault) Fault {
	p := drawPartition(draw, n)
	p.Side |= uint64(draw.below(1<<count)) << n
	if p.Side&(1<<f.Node) == 0 {
		p.Side ^= 1<<(n+count) - 1
	}
	p.At = max(0, f.At-draw.between(0, s.env.retry))
	p.For = draw.between(s.env.retry, 6*s.env.retry)
	return p
}
