package schedule

import (
	"math/bits"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawSessions has the clients be sessions: most reads may be regular, and between operations they fence, tell others
// something, move and die. Schedules differ in how often. All is drawn from a stream of its own.
func (s *Schedule) drawSessions(options Options) {
	s.Environment.Regular = true
	if options.Shards == 0 {
		s.Environment.Shards = 1 + kernel.NewStream(s.Seed, kernel.ForSessions, 2).Below(3)
	}
	draw := kernel.NewStream(s.Seed, kernel.ForSessions, 0)
	strict := []int{0, 100, 400}[draw.Below(3)]
	rates := map[AsideKind]int{}
	kinds := []AsideKind{AsideMove, AsideDie, AsideFence, AsideTell, AsideFenceAndTell}
	for _, kind := range kinds {
		most := []int{0, 100, 400}[draw.Below(3)]
		if kind == AsideDie {
			most /= 4
		}
		rates[kind] = most
	}
	if draw.Chance(600) {
		s.gather(draw)
	}
	s.interrupt(draw, options.Faults)
	for i := range s.Clients {
		c := &s.Clients[i]
		for j := range c.Operations {
			p := &c.Operations[j]
			p.Operation.Regular = p.Operation.Kind == register.Read && !draw.Chance(strict)
			for _, kind := range kinds {
				if !draw.Chance(rates[kind]) {
					continue
				}
				a := Aside{At: p.At, Kind: kind}
				switch kind {
				case AsideMove:
					a.Whom = draw.Below(len(s.Environment.Network.Sites))
				case AsideTell, AsideFenceAndTell:
					a.Whom = (i + 1 + draw.Below(len(s.Clients)-1)) % len(s.Clients)
					a.Delay = draw.Between(0,
						[]time.Duration{time.Millisecond, s.Environment.Network.Largest()}[draw.Below(2)])
				}
				c.Asides = append(c.Asides, a)
			}
		}
	}
}

// gather moves a majority of the sites near each other, and the others too: so what one of these has written and
// another one has read, that majority need not have heard of.
func (s *Schedule) gather(draw kernel.Stream) {
	rtt := s.Environment.Network.RTT
	side := 0
	for n := len(rtt); bits.OnesCount(uint(side)) != n/2+1; {
		side = draw.Below(1 << n)
	}
	for a := range rtt {
		for b := range a {
			if side>>a&1 == side>>b&1 {
				near := draw.Between(2*time.Millisecond, 10*time.Millisecond)
				rtt[a][b], rtt[b][a] = near, near
			}
		}
	}
	s.Environment.Shuffled = false
}

// interrupt stops writers, or cuts them off, in the middle of writes, so that few members hold these: what regular
// reads tell of then, others miss.
func (s *Schedule) interrupt(draw kernel.Stream, allowed []faults.Kind) {
	kinds := slices.DeleteFunc([]faults.Kind{faults.Crash, faults.Partition, faults.Loss, faults.Loss},
		func(k faults.Kind) bool { return !slices.Contains(allowed, k) })
	rate := []int{0, 100, 300}[draw.Below(3)]
	if len(kinds) == 0 {
		return
	}
	n := len(s.Environment.Network.Sites)
	for _, c := range s.Clients {
		for _, p := range c.Operations {
			if p.Operation.Kind != register.Write || !draw.Chance(rate) {
				continue
			}
			near := slices.Sorted(slices.Values(s.Environment.Network.RTT[c.Home]))
			trip := near[n/2] // so long the first phase of a write takes
			f := faults.Fault{
				Kind: kinds[draw.Below(len(kinds))], Node: c.Home, Rate: []int{500, 1000}[draw.Below(2)],
				At:  p.At + trip + draw.Between(0, trip*3/4),
				For: draw.Between(time.Millisecond, []time.Duration{trip, 2 * s.Environment.Retry}[draw.Below(2)]),
			}
			switch f.Kind {
			case faults.Partition:
				f.Everywhere, f.Side, f.OneWay = true, 1<<c.Home|1<<draw.Below(n), draw.Chance(300)
			case faults.Loss: // of what the second phase sends
				f.At, f.For = p.At+trip*3/4, trip*3/4
			}
			s.Faults = append(s.Faults, f)
		}
	}
}

// Aside is something that a client of a regular protocol does between its operations.
type Aside struct {
	At    time.Duration // it does not happen before, nor before operations that were planned for earlier
	Kind  AsideKind
	Whom  int           // AsideTell, AsideFenceAndTell, AsideHand: the client that is told; AsideMove: the site
	Delay time.Duration // AsideTell, AsideFenceAndTell, AsideHand: how long the message is under way
}

// AsideKind is what is done.
type AsideKind uint8

// The kinds of asides.
const (
	AsideMove         AsideKind = iota + 1 // the session goes on at another site, with another coordinator
	AsideDie                               // another client comes in its place, which knows nothing
	AsideFence                             // a fence
	AsideTell                              // a message to another client, with the past
	AsideFenceAndTell                      // a fence, and then a message without the past
	AsideHand                              // the past handed over, to a client that does not look at it
)
