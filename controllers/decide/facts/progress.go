package facts

import (
	"fmt"
)

// percentStep is what progress is rounded to: a status is not written for every byte.
const percentStep = 5

// Progress is how far the members after a change are, by their own word.
type Progress struct {
	Settled, Fetched int
	Settle, Fetch    int // how many have to
	Bytes, Remaining int64
	Percent          int32 // of the state that is to be fetched, rounded down; -1 if that is not known
}

// Text says it to people.
func (p Progress) Text() string {
	text := fmt.Sprintf("%d of %d have ended what was under way before, %d of %d hold the state", p.Settled, p.Settle,
		p.Fetched, p.Fetch)
	if p.Percent >= 0 {
		text += fmt.Sprintf(", %d%% of it is fetched", p.Percent)
	}
	return text
}

// Progress sums up what the members of a joint view said.
func (s *Seen) Progress() Progress {
	p := Progress{Percent: -1}
	var same int64
	unknown := false // of somebody, how much there is to fetch
	for _, m := range s.View.After().Members {
		transfers := s.View.Transfers(m.ID)
		p.Settle++
		if transfers {
			p.Fetch++
		}
		r := s.Report(m.ID)
		if r == nil || !s.Holds(m.ID) {
			continue
		}
		if r.Change.Settled {
			p.Settled++
		}
		if !transfers {
			continue
		}
		if r.Change.Fetched {
			p.Fetched++
		}
		unknown = unknown || !r.Change.Fetched && r.Change.Bytes+r.Change.SameBytes+r.Change.Remaining == 0
		p.Bytes += r.Change.Bytes
		p.Remaining += r.Change.Remaining
		same += r.Change.SameBytes
	}
	switch all := p.Bytes + same + p.Remaining; {
	case p.Fetch > 0 && p.Fetched == p.Fetch:
		p.Percent = 100
	case all > 0 && !unknown:
		p.Percent = min(int32(float64(p.Bytes+same)/float64(all)*100/percentStep)*percentStep, 100-percentStep)
	}
	return p
}
