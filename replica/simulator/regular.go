package simulator

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// sessionPaths are what happens in schedules with sessions.
func sessionPaths() []string {
	return []string{
		"session.depends", "session.move", "session.die", "session.tell", "session.fence", "session.fence-of-something",
		"session.barrier",
	}
}

// drawSessions has the clients be sessions: most reads may be regular, and between operations they fence, tell others
// something, move and die. Schedules differ in how often. All is drawn from a stream of its own.
func (s *Schedule) drawSessions(options Options) {
	s.env.regular, s.env.careless = true, options.careless
	if options.Shards == 0 {
		s.env.shards = 1 + kernel.NewStream(s.Seed, kernel.ForSessions, 2).Below(3)
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
					a.Whom = draw.Below(len(s.env.network.Sites))
				case AsideTell, AsideFenceAndTell:
					a.Whom = (i + 1 + draw.Below(len(s.Clients)-1)) % len(s.Clients)
					a.Delay = draw.Between(0, []time.Duration{time.Millisecond, s.env.network.Largest()}[draw.Below(2)])
				}
				c.Asides = append(c.Asides, a)
			}
		}
	}
}

// contend has operations meet more often than those of other schedules: a regular read differs from another one only
// while a write is on its way. It returns how long a client takes for an operation.
func (s *script) contend(draw kernel.Stream, pace time.Duration) time.Duration {
	s.keys = 1 + draw.Below(3)
	if draw.Chance(600) {
		s.rmws = FewRMWs
	}
	s.reads = 400 + draw.Below(500)
	return pace * time.Duration(20+draw.Below(131)) / 100
}

// gather moves a majority of the sites near each other, and the others too: so what one of these has written and
// another one has read, that majority need not have heard of.
func (s *Schedule) gather(draw kernel.Stream) {
	rtt := s.env.network.RTT
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
	s.env.shuffled = false
}

// interrupt stops writers, or cuts them off, in the middle of writes, so that few members hold these: what regular
// reads tell of then, others miss.
func (s *Schedule) interrupt(draw kernel.Stream, allowed []FaultKind) {
	kinds := slices.DeleteFunc([]FaultKind{Crash, Partition, Loss, Loss}, func(k FaultKind) bool { return !slices.Contains(allowed, k) })
	rate := []int{0, 100, 300}[draw.Below(3)]
	if len(kinds) == 0 {
		return
	}
	n := len(s.env.network.Sites)
	for _, c := range s.Clients {
		for _, p := range c.Operations {
			if p.Operation.Kind != register.Write || !draw.Chance(rate) {
				continue
			}
			near := slices.Sorted(slices.Values(s.env.network.RTT[c.Home]))
			trip := near[n/2] // so long the first phase of a write takes
			f := Fault{
				Kind: kinds[draw.Below(len(kinds))], Node: c.Home, Rate: []int{500, 1000}[draw.Below(2)],
				At:  p.At + trip + draw.Between(0, trip*3/4),
				For: draw.Between(time.Millisecond, []time.Duration{trip, 2 * s.env.retry}[draw.Below(2)]),
			}
			switch f.Kind {
			case Partition:
				f.Everywhere, f.Side, f.OneWay = true, 1<<c.Home|1<<draw.Below(n), draw.Chance(300)
			case Loss: // of what the second phase sends
				f.At, f.For = p.At+trip*3/4, trip*3/4
			}
			s.Faults = append(s.Faults, f)
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// judgeRegular checks a history of sessions whose last reads are linearizable and follow everything else.
func judgeRegular(ctx context.Context, operations []history.Operation, options history.RSCOptions, patience time.Duration) (Class, string) {
	seen := withoutUnseen(operations)
	verdict, err := history.CheckRSC(ctx, seen, options)
	switch {
	case err != nil:
		return Broken, err.Error()
	case verdict.Outcome == history.Violation:
		return Violation, verdict.Explanation
	case !verdict.OK():
		// Operations of unknown outcome can be too many for the search. What is linearizable is regular sequential, too.
		if class, _ := judged(history.Check(ctx, seen, history.Options{Timeout: patience}), Violation); class != "" {
			return Undecided, fmt.Sprintf("the check ended with %q: %s", verdict.Outcome, verdict.Explanation)
		}
	}
	// What is not regular is linearizable among itself.
	strict := slices.DeleteFunc(seen, func(o history.Operation) bool { return o.Request.Regular })
	if class, why := judged(history.Check(ctx, strict, history.Options{Timeout: patience}), Violation); class != "" {
		return class, "without regular reads: " + why
	}
	if wrong := recount(operations); wrong != "" {
		return Miscount, wrong
	}
	return "", ""
}
