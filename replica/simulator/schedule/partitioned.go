package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// Partitioned is what a world has whose shards are partitions with masters, beside the rest.
type Partitioned struct {
	Protocol    *definition.Partitioned `json:"-"` // whoever reads a schedule from a file sets it
	Sync        protocol.Sync
	Placement   membership.Placement
	Zones       []int         // of the sites, where dedicated witnesses are kept apart by them; nil: each site is one
	Slots       int           // of a witness's life
	Spares      int           // nodes that may become members or witnesses
	Suspect     time.Duration // for how long who is not heard is taken for one that is
	Calls       faults.Fault  // how often the manager calls, and how badly
	FalseAlarms int           // in how many of 1000 rounds somebody is said not to be heard who is
	Believing   bool          // that a witness on an older copy is believed is left to clients to notice
}

// drawPartitioned makes a schedule one of CURP. It draws from a stream of its own.
func (s *Schedule) drawPartitioned(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 0)
	retry := s.Environment.Retry
	p := &Partitioned{Protocol: options.Partitioned, Slots: 8 << draw.Below(4), FalseAlarms: []int{0, 20, 60}[draw.Below(3)]}
	p.Sync.After = 2 + draw.Below(20)
	p.Sync.Delay = draw.Between(time.Millisecond, retry)
	p.Sync.Lease = draw.Between(retry, 4*retry)
	s.Environment.Shards = max(s.Environment.Shards, 1+draw.Below(3))
	s.drawSites(seed, n, options)
	p.Placement = membership.Placement{Partitions: s.Environment.Shards, Faults: 1 + draw.Below((n-1)/2), Dedicated: draw.Chance(300) || options.Dedicated}
	p.Suspect = []time.Duration{0, draw.Between(0, retry), draw.Between(0, 4*retry)}[draw.Below(3)]
	p.Calls = faults.Fault{Kind: faults.Change, For: draw.Between(retry/16, retry/3), Rate: []int{0, 100, 400}[draw.Below(3)], Size: draw.Between(0, retry/2)}
	if keep := kernel.NewStream(seed, kernel.ForPartitions, 8); keep.Chance(700) { // else nobody is ever too far behind for the log
		p.Sync.Kept = 4 << keep.Below(6)
	}
	s.Environment.Partitioned = p
	s.drawMembers(seed, n, options)
	s.drawForPartitions(draw, n, options)
	s.drawMoves(seed, n, options)
	s.drawDedicated(seed, n, options)
	s.drawLostQuorum(seed, n, options)
	s.drawSplits(seed, n, options)
}

// drawForPartitions has the faults of a schedule fit a world with witnesses, and adds those that only such a world has.
func (s *Schedule) drawForPartitions(draw kernel.Stream, n int, options Options) {
	p, retry := s.Environment.Partitioned, s.Environment.Retry
	fitPartitions(draw, n, s.Faults)
	if slices.Contains(options.Faults, faults.Lose) {
		for range draw.Below(4) {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Lose, Node: draw.Below(n), At: draw.Between(s.Settle/20, s.Settle*9/10), For: draw.Between(0, retry)})
			p.Spares++
		}
	}
	// One master after the other, also of those that recover.
	if slices.Contains(options.Faults, faults.Crash) && draw.Chance(400) {
		at := draw.Between(s.Settle/10, s.Settle*7/10)
		for range 2 + draw.Below(3) {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: draw.Below(n), At: at, For: draw.Between(retry, 8*retry), Rate: 500})
			at += draw.Between(0, 4*retry)
		}
	}
}

// fitPartitions has plain faults fit a world with witnesses.
func fitPartitions(draw kernel.Stream, n int, all []faults.Fault) {
	for i := range all {
		f := &all[i]
		switch f.Kind {
		case faults.Skew:
			f.Size, f.Drift = 0, draw.Below(2*protocol.DriftBound+1)-protocol.DriftBound
		case faults.Partition: // a witness is on the side of the member at its site, more often than not
			for w := range n {
				if f.Side&(1<<w) != 0 != draw.Chance(200) {
					f.Side |= 1 << (n + w)
				}
			}
		}
	}
}

// drawMembers adds to a schedule of CURP members that come and go, disks of members that are lost, and views that are
// forgotten. It draws from a stream of its own.
func (s *Schedule) drawMembers(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 2)
	p := s.Environment.Partitioned
	changes := draw.Chance(180)
	if slices.Contains(options.Faults, faults.Change) && changes {
		s.stretch(2)
		size := n
		for range 1 + draw.Below(2) {
			f := faults.Fault{Kind: faults.Change, At: draw.Between(s.Settle/20, s.Settle*6/10), Node: draw.Below(n), Alive: draw.Chance(600)}
			f.Join, f.Leave = drawSizes(draw, size, false)
			size += f.Join - f.Leave
			// All who leave may be lost at once; who was given up for an abandoned change is replaced by another one.
			p.Spares += 8 + 6*f.Join
			s.Faults = append(s.Faults, f)
		}
		p.Placement.Faults += draw.Below(2) // as many as there are members for
	}
	if slices.Contains(options.Faults, faults.Wipe) && draw.Chance(150) {
		for range 1 + draw.Below(2) {
			f := faults.Fault{Kind: faults.Wipe, Node: draw.Below(n), At: draw.Between(s.Settle/10, s.Settle*8/10), For: draw.Between(s.Environment.Retry/4, 3*s.Environment.Retry)}
			f.Rate = []int{0, 500, 1000}[draw.Below(3)]
			p.Spares += 6 // the change may be abandoned, and tried again
			s.Faults = append(s.Faults, f)
		}
	}
	if slices.Contains(options.Faults, faults.Forget) && draw.Chance(150) {
		p.Spares += 2 // those of a view that was forgotten are not seen again
		at := draw.Between(s.Settle/10, s.Settle*8/10)
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Forget, At: at, For: draw.Between(2*s.Environment.Retry, 20*s.Environment.Retry)})
	}
	if draw.Chance(100) {
		p.Placement.Faults, p.Placement.Alone = 0, 1+draw.Below(2)
	}
	for i := range s.Faults {
		if s.Faults[i].Kind == faults.Partition {
			s.Faults[i].Side |= uint64(draw.Below(1<<min(p.Spares, 62-2*n))) << (2 * n)
		}
	}
}

// drawMoves adds moves of masters to a schedule, from a stream of its own: several in turn, often of one partition,
// also to where it belongs without them.
func (s *Schedule) drawMoves(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 3)
	if !slices.Contains(options.Faults, faults.Move) || !draw.Chance(250) {
		return
	}
	partition, retry := draw.Below(s.Environment.Shards), s.Environment.Retry
	for range 1 + draw.Below(5) {
		home := draw.Below(n+1) - 1
		f := faults.Fault{Kind: faults.Move, Node: max(home, 0), ByDefault: home < 0, Partition: partition, At: draw.Between(s.Settle/20, s.Settle*6/10)}
		if draw.Chance(300) {
			partition = draw.Below(s.Environment.Shards)
		}
		s.Faults = append(s.Faults, f)
		if draw.Chance(300) && slices.Contains(options.Faults, faults.Crash) { // somebody stops while it goes on
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: draw.Below(n), At: f.At + draw.Between(0, 4*retry), For: draw.Between(retry/4, 4*retry), Rate: 500})
		}
	}
}

// drawSites makes some worlds ones of many partitions, and some of them of few sites: then masters live together.
func (s *Schedule) drawSites(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 4)
	if !slices.Contains(options.Faults, faults.Move) || !draw.Chance(80) {
		return
	}
	s.Environment.Shards = n + 1 + draw.Below(n)
	if draw.Chance(500) {
		sites := slices.Clone(s.Environment.Network.Sites)
		for i := range sites {
			sites[i] = sites[i%2]
		}
		s.Environment.Network.Sites = sites
	}
}

// drawLostQuorum adds the loss of a quorum to a few schedules, from a stream of its own, and later newcomers, so that there
// are backups again.
func (s *Schedule) drawLostQuorum(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 5)
	if slices.Contains(options.Faults, faults.LostQuorum) && draw.Chance(50) {
		s.AddLostQuorum(draw, n)
	}
}

func (s *Schedule) AddLostQuorum(draw kernel.Stream, n int) {
	at := draw.Between(s.Settle/10, s.Settle*6/10)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.LostQuorum, At: at})
	s.Environment.Partitioned.Spares += 6 + n // who is lost after it is replaced, and witnesses
	if draw.Chance(600) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Change, At: at + draw.Between(0, 10*s.Environment.Retry), Node: draw.Below(n), Join: 2})
		s.Environment.Partitioned.Spares += 4
	}
}

// drawSplits adds splits to a schedule, from a stream of its own: several in turn, and often together with what may go
// wrong at the time.
func (s *Schedule) drawSplits(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 7)
	if slices.Contains(options.Faults, faults.Split) && draw.Chance(250) {
		s.AddSplits(draw, n, options)
	}
}

func (s *Schedule) AddSplits(draw kernel.Stream, n int, options Options) {
	s.stretch(2)
	retry := s.Environment.Retry
	with := func(kind faults.Kind, perMille int) bool {
		return draw.Chance(perMille) && slices.Contains(options.Faults, kind)
	}
	for range 1 + draw.Below(3) {
		at := draw.Between(s.Settle/20, s.Settle*7/10)
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Split, At: at})
		if with(faults.Crash, 400) {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: draw.Below(n), At: at + draw.Between(0, 6*retry), For: draw.Between(retry/4, 4*retry), Rate: 500})
		}
		if with(faults.Forget, 300) {
			s.Environment.Partitioned.Spares += 2
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Forget, At: at + draw.Between(0, 2*retry), For: draw.Between(2*retry, 20*retry)})
		}
		if with(faults.Move, 400) {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Move, Node: draw.Below(n), Partition: s.Environment.Shards, At: at + draw.Between(0, 10*retry)})
		}
	}
}

// drawDedicated adds to a schedule of a world with dedicated witnesses what only they have: witnesses that are away for
// so long that others take their places, and are there again then, with what they saved; and zones with more than one
// site. It draws from a stream of its own.
func (s *Schedule) drawDedicated(seed uint64, n int, options Options) {
	p := s.Environment.Partitioned
	if !p.Placement.Dedicated {
		return
	}
	draw, retry := kernel.NewStream(seed, kernel.ForPartitions, 6), s.Environment.Retry
	if draw.Chance(250) {
		for range n {
			p.Zones = append(p.Zones, draw.Below(n))
		}
	}
	if !slices.Contains(options.Faults, faults.Lose) {
		return
	}
	for range draw.Below(4) {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Lose, Alive: true, Node: draw.Below(n), At: draw.Between(s.Settle/20, s.Settle*8/10), For: draw.Between(2*retry, 24*retry),
		})
		p.Spares++
	}
}

// Domains are what is lost as one where sites share zones, by the members and witnesses of a view; nil where sites are
// lost alone.
func (p *Partitioned) Domains(v view.View, sites []string) map[view.MemberID]string {
	if p.Zones == nil {
		return nil
	}
	all := map[view.MemberID]string{}
	zone := func(site string) string { return fmt.Sprint("zone ", p.Zones[slices.Index(sites, site)]) }
	for _, m := range v.Members {
		all[m.ID] = zone(m.Site)
	}
	for _, w := range v.Witnesses {
		all[w.ID] = zone(w.Site)
	}
	return all
}
