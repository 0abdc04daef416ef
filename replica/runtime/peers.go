package runtime

import (
	"cmp"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// rttGrain is how much nearer a peer must be measured to count as nearer.
const rttGrain = 500 * time.Microsecond

// unheard is how long a peer that was never heard may be on its way.
const unheard = time.Second

// reachability is how a peer is reached.
type reachability uint8

const (
	answers  reachability = iota // lately
	expected                     // not heard yet, and nothing speaks against it
	away                         // it does not answer, or did not answer the replica of the view before
)

// reachability tells how a peer is reached, and the smallest round trip lately.
func (r *Replica) reachability(id view.MemberID) (reachability, time.Duration) {
	rtt, reachable := r.transport.Distance(id)
	switch {
	case reachable:
		return answers, rtt
	case rtt == 0 && time.Since(r.start) < unheard && !slices.Contains(r.options.Away, id):
		return expected, rtt
	}
	return away, rtt
}

// away lists the peers that don't answer.
func (r *Replica) away() (all []view.MemberID) {
	for _, id := range r.options.Nearest {
		if how, _ := r.reachability(id); how == away {
			all = append(all, id)
		}
	}
	return all
}

// first is the order in which peers are asked before anything is heard of them.
func (o *Options) first() []view.MemberID {
	order := slices.Clone(o.Nearest)
	slices.SortStableFunc(order, func(a, b view.MemberID) int {
		return cmp.Compare(number(slices.Contains(o.Away, a)), number(slices.Contains(o.Away, b)))
	})
	return order
}

// prefer moves peers that don't answer behind those that do, so that thrifty sending spares them, and nearer ones to
// the front if only measurements tell. Then the farthest that answers says how long to wait for answers, too: what is
// asked again before anybody can have answered is asked in vain.
func (s *shard) prefer() {
	ranks := s.rank()
	if s.thrifty != nil && !slices.IsSortedFunc(s.preferred, ranks.compare) {
		slices.SortFunc(s.preferred, ranks.compare)
		s.thrifty.Prefer(s.preferred)
	}
	if !s.replica.options.paced {
		return
	}
	if retry, suspect := pace(max(ranks.farthest(), s.farthestWitness())); retry != s.retry {
		s.retry = retry
		s.protocol.Pace(retry, suspect)
	}
}

// farthestWitness is the round trip to the farthest witness that answers.
func (s *shard) farthestWitness() (farthest time.Duration) {
	for _, id := range s.witnesses {
		if rtt, reachable := s.replica.transport.Distance(id); reachable {
			farthest = max(farthest, rtt/rttGrain*rttGrain)
		}
	}
	return farthest
}

// ranks is how the peers are reached at one moment, in the order of shard.order.
type ranks struct {
	order        []view.MemberID
	reachability []reachability
	rtts         []time.Duration // in grains; 0 if distances are configured
}

func (s *shard) rank() ranks {
	r := ranks{order: s.order}
	for _, id := range s.order {
		how, rtt := s.replica.reachability(id)
		if !s.replica.options.measured {
			rtt = 0
		}
		r.reachability, r.rtts = append(r.reachability, how), append(r.rtts, rtt/rttGrain)
	}
	return r
}

// farthest is the round trip to the farthest peer that answers.
func (r *ranks) farthest() (rtt time.Duration) {
	for i, how := range r.reachability {
		if how == answers {
			rtt = max(rtt, r.rtts[i]*rttGrain)
		}
	}
	return rtt
}

func (r *ranks) compare(a, b view.MemberID) int {
	i, j := slices.Index(r.order, a), slices.Index(r.order, b)
	return cmp.Or(cmp.Compare(r.reachability[i], r.reachability[j]), cmp.Compare(r.rtts[i], r.rtts[j]), i-j)
}
