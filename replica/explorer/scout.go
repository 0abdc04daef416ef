package explorer

import "math/rand/v2"

// What is left out is assumed to make no difference, and some of it turns out to make one, perhaps late: then
// everything is explored again. Most of that random walks tell at once, which come to all kinds of local states after a
// few steps each.

const (
	// walksInVain is after how many walks that come to no new local state walking ends.
	walksInVain = 200
	// mostWalks bounds the walks through a scope.
	mostWalks = 200_000
	// longestWalk bounds the steps of one: members may go on for ever.
	longestWalk = 400
)

// scout takes random walks, the same ones each time, and keeps what they tell of messages that are not spent and of
// batches that linger. Nothing else is known afterwards.
func (s *search) scout() {
	draw := rand.New(rand.NewPCG(1, 1))
	examined := leastExamined
	for walk, vain := 0, 0; walk < mostWalks && vain < walksInVain && s.ctx.Err() == nil; walk++ {
		before := len(s.states)
		s.walk(draw)
		if vain++; len(s.states) > before {
			vain = 0
		}
		if vain == walksInVain || len(s.states) > examined {
			if len(s.unspent())+len(s.unhastened()) > 0 {
				vain = 0
			}
			examined = 2 * len(s.states)
		}
	}
	s.forget()
}

// walk takes one choice after the other, until there is none.
func (s *search) walk(draw *rand.Rand) {
	s.to.copyFrom(s.initial)
	for range longestWalk {
		s.from.copyFrom(&s.to)
		s.all, _ = s.world.options(&s.from, s.all[:0])
		if len(s.all) == 0 {
			return
		}
		s.hastened, s.dropped = s.hastened[:0], s.dropped[:0]
		if d := s.world.do(&s.to, s.all[draw.IntN(len(s.all))].choice); d.fault != nil {
			return // to find what goes wrong is the exploration's
		}
	}
}
