package schedule

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawCopies adds disks that go back to what they were, and disks that are found damaged. It draws from streams of its
// own.
func (s *Schedule) drawCopies(seed uint64, n int, kinds []faults.Kind) {
	draw, whose := kernel.NewStream(seed, kernel.ForCopies, 0), kernel.NewStream(seed, kernel.ForCopies, 1)
	back, rot := slices.Contains(kinds, faults.OldCopy), slices.Contains(kinds, faults.Rot)
	if !back && !rot || draw.Chance(500) {
		return
	}
	if p := s.Environment.Partitioned; p != nil {
		if !draw.Chance(400) {
			return
		}
		s.Environment.Doubtful = true
		// whose disk is lost is replaced, and perhaps more than once
		p.Spares += 12
		// that all have noted how far a disk is takes some of these
		if times := 60 * s.Environment.Retry / s.Settle; times > 1 {
			s.stretch(times)
		}
	}
	for range 1 + draw.Below(2) {
		f := faults.Fault{
			Kind: faults.OldCopy,
			Node: draw.Below(n),
			At:   draw.Between(s.Settle/20, s.Settle/2),
			Size: draw.Between(s.Environment.Retry, s.Settle/4),
			For:  draw.Between(time.Millisecond, s.Environment.Retry*3),
			Rate: []int{0, 500, 1000}[draw.Below(3)],
		}
		if rot && (!back || draw.Chance(200)) {
			f.Kind = faults.Rot
		}
		if f.Kind == faults.OldCopy && s.Environment.Partitioned != nil {
			f.Kind = []faults.Kind{faults.OldCopy, faults.WitnessCopy, faults.VolumeCopy}[whose.Below(3)]
		}
		s.Faults = append(s.Faults, f)
	}
}
