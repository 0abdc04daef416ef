package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// parted is what a world has whose shards are partitions with masters, beside the rest.
type parted struct {
	protocol  *definition.Partitioned
	sync      protocol.Sync
	placement membership.Placement
	zones     []int         // of the sites, where dedicated witnesses are kept apart by them; nil: each site is one
	slots     int           // of a witness's life
	spares    int           // nodes that may become members or witnesses
	suspect   time.Duration // for how long who is not heard is taken for one that is
	calls     Fault         // how often the manager calls, and how badly
	slander   int           // in how many of 1000 rounds somebody is said not to be heard who is
	wrong     governorMistakes
	believing bool // a mistake of the protocol is looked for that has a witness on an older copy believed
}

// Lose is a fault of worlds with witnesses.
const Lose FaultKind = "lose" // a witness loses its disk; another one takes its place under a new ID

// CURPFaultKinds lists the kinds of faults of worlds with masters and witnesses. Who is master, backup or witness
// changes by what they lead to; clocks only drift, within the bound of leases.
func CURPFaultKinds() []FaultKind { return append(FaultKinds(), Lose, Forget, Move, Ruin, Split) }

// CURPExperimentFaultKinds lists those of them that experiments have: members stay.
func CURPExperimentFaultKinds() []FaultKind { return anywhere(CURPFaultKinds()) }

// anywhere are the kinds that fit any world as they are drawn: the others need members that come and go.
func anywhere(kinds []FaultKind) []FaultKind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k FaultKind) bool {
		return k == Change || k == Wipe || k == OldCopy || k == Rot || k == Forget || k == Ruin || k == Split
	})
}

// drawParted makes a schedule one of CURP. It draws from a stream of its own.
func (s *Schedule) drawParted(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 0)
	retry := s.env.retry
	p := &parted{protocol: options.Partitioned, slots: 8 << draw.Below(4), slander: []int{0, 20, 60}[draw.Below(3)], wrong: options.governor}
	p.sync.After = 2 + draw.Below(20)
	p.sync.Delay = draw.Between(time.Millisecond, retry)
	p.sync.Lease = draw.Between(retry, 4*retry)
	s.env.shards = max(s.env.shards, 1+draw.Below(3))
	s.drawSites(seed, n, options)
	p.placement = membership.Placement{Partitions: s.env.shards, Faults: 1 + draw.Below((n-1)/2), Dedicated: draw.Chance(300) || options.dedicated}
	p.suspect = []time.Duration{0, draw.Between(0, retry), draw.Between(0, 4*retry)}[draw.Below(3)]
	p.calls = Fault{Kind: Change, For: draw.Between(retry/16, retry/3), Rate: []int{0, 100, 400}[draw.Below(3)], Size: draw.Between(0, retry/2)}
	if keep := kernel.NewStream(seed, kernel.ForPartitions, 8); keep.Chance(700) { // else nobody is ever too far behind for the log
		p.sync.Kept = 4 << keep.Below(6)
	}
	s.env.parted = p
	s.drawMembers(seed, n, options)
	s.drawForParts(draw, n, options)
	s.drawMoves(seed, n, options)
	s.drawDedicated(seed, n, options)
	s.drawRuin(seed, n, options)
	s.drawSplits(seed, n, options)
}

// drawForParts has the faults of a schedule fit a world with witnesses, and adds those that only such a world has.
func (s *Schedule) drawForParts(draw kernel.Stream, n int, options Options) {
	p, retry := s.env.parted, s.env.retry
	for i := range s.Faults {
		f := &s.Faults[i]
		switch f.Kind {
		case Skew:
			f.Size, f.Drift = 0, draw.Below(2*protocol.DriftBound+1)-protocol.DriftBound
		case Partition: // a witness is on the side of the member at its site, more often than not
			for w := range n {
				if f.Side&(1<<w) != 0 != draw.Chance(200) {
					f.Side |= 1 << (n + w)
				}
			}
		}
	}
	if slices.Contains(options.Faults, Lose) {
		for range draw.Below(4) {
			s.Faults = append(s.Faults, Fault{Kind: Lose, Node: draw.Below(n), At: draw.Between(s.Settle/20, s.Settle*9/10), For: draw.Between(0, retry)})
			p.spares++
		}
	}
	// One master after the other, also of those that recover.
	if slices.Contains(options.Faults, Crash) && draw.Chance(400) {
		at := draw.Between(s.Settle/10, s.Settle*7/10)
		for range 2 + draw.Below(3) {
			s.Faults = append(s.Faults, Fault{Kind: Crash, Node: draw.Below(n), At: at, For: draw.Between(retry, 8*retry), Rate: 500})
			at += draw.Between(0, 4*retry)
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// parted is what the world of an experiment has.
func (c *Partitions) parted(env *environment, faults bool) *parted {
	p := &parted{protocol: c.Protocol, sync: c.Sync, slots: 4096, suspect: env.retry, calls: Fault{Kind: Change, For: env.retry / 2}}
	p.placement = membership.Placement{Partitions: env.shards, Faults: c.Backups, Homes: c.Homes}
	if c.Backups == 0 {
		p.placement.Faults = (len(env.network.Sites) - 1) / 2
	}
	if faults {
		p.slander, p.calls.Rate, p.calls.Size = 5, 100, env.retry/4
	}
	return p
}

// addWitnesses makes the witnesses of a world, one at each site, and the nodes that may come later, and gives the first
// view its partitions.
func (w *world) addWitnesses(v view.View) view.View {
	p := w.env.parted
	n := len(w.env.network.Sites)
	var founded []view.Witness
	for i := range n {
		nd := newNode(w, len(w.nodes), i)
		nd.shards = nil
		nd.witness = &witness{node: nd}
		if !p.placement.Dedicated {
			nd.witness.beside = view.MemberID(i + 1)
		}
		w.nodes = append(w.nodes, nd)
		nd.born = true
		founded = append(founded, nd.witness.entry())
	}
	for i := range p.spares {
		w.nodes = append(w.nodes, newNode(w, len(w.nodes), i%n))
	}
	if p.placement.Faults == 0 && p.placement.Alone > 0 {
		w.Took("curp.alone-by-choice")
	}
	placement := p.placement
	placement.Domains = p.domains(view.View{Members: v.Members, Witnesses: founded}, w.env.network.Sites)
	v, err := membership.Place(v, founded, placement)
	if err != nil {
		w.Fail("%w", err)
	}
	return v
}

// promised is until when what the protocols of this process promised may hold, by partition of the view that they are
// of.
func (nd *node) promised(continued bool) (all []protocol.Instant) {
	for _, s := range nd.shards {
		p, ok := s.protocol.(protocol.Partitioned)
		if !ok || !continued {
			break
		}
		all = append(all, p.Promised())
	}
	return all
}

// startPart starts a member's part in a partition; promised is of the view before.
func (nd *node) startPart(
	partition int, journal *protocol.Journal, promised []protocol.Instant,
) (protocol.Protocol, error) {
	config := nd.config
	config.Shard, config.Sync = partition, nd.world.env.parted.sync
	if partition < len(promised) {
		config.Promised = promised[partition]
	}
	return nd.world.env.parted.protocol.Start(config, journal)
}

// parts is what the node says of its part in each partition.
func (nd *node) parts() (all []membership.Part) {
	for _, s := range nd.running() {
		p, ok := s.protocol.(protocol.Partitioned)
		if !ok {
			return nil
		}
		st := p.PartitionStatus()
		all = append(all, membership.Part{
			Term: st.Term, Lost: st.Lost, Recovered: st.Recovered == st.Term && st.Serving, Restarted: st.Restarted,
			CaughtUp: st.CaughtUp, Copying: st.Copying, WholeTerm: st.WholeTerm, NotedTerm: st.NotedTerm, Length: st.Last,
		})
	}
	return all
}

// hears lists the members and witnesses that the node had something from lately: who was up, and reached it. Faults of
// the network have some of that be wrong.
func (nd *node) hears() (heard []view.MemberID) {
	w := nd.world
	if nd.heard == nil {
		nd.heard = make([]time.Duration, len(w.nodes))
	}
	for _, other := range w.nodes {
		l := &w.links[other.index*len(w.nodes)+nd.index]
		back := &w.links[nd.index*len(w.nodes)+other.index]
		switch {
		case other == nd || !other.born:
			continue
		case other.down || other.paused || l.partition != nil || back.partition != nil:
		case !w.Settled && (w.manager.draw.Chance(30) || other.index == w.manager.slandered):
			continue
		default:
			nd.heard[other.index] = w.Now
		}
		if at := nd.heard[other.index]; at > 0 && w.Now-at <= w.env.parted.suspect {
			heard = append(heard, other.config.Self)
		}
	}
	return heard
}

// inspect holds a member against the bounds of its state.
func (nd *node) inspect(s *shard) {
	p, ok := s.protocol.(protocol.Partitioned)
	if !ok {
		return
	}
	w := nd.world
	if st := p.PartitionStatus(); st.Unsynced > w.env.parted.sync.After+unsyncedSlack*len(w.clients) {
		w.Fail("%s has %d operations of partition %d that are not synced, and begins to sync after %d",
			nd.name(), st.Unsynced, st.Partition, w.env.parted.sync.After)
	}
}

// unsyncedSlack is how many operations of a client may come to a master that can't sync: tries of several coordinators,
// and operations that it gave up.
const unsyncedSlack = 8

// missingParts says which partition is not as it should be though the faults are over, or nothing.
func (m *manager) missingParts() string {
	record := &m.views[m.record]
	if m.ruined && !m.rescued {
		return "a lost quorum is not given up" + m.waiting()
	}
	if m.lost || m.change != nil || record.Joint() {
		return "a change of members is still in progress" + m.waiting()
	}
	for _, member := range record.Members {
		switch nd := m.world.nodes[member.ID-1]; {
		case nd.gone || nd.disk() != member.Disk:
			return nd.name() + " is lost, and is not replaced"
		case nd.held != m.record:
			return nd.name() + " does not hold the last view"
		}
	}
	if n := len(record.Partitions); n != m.partitions() {
		return fmt.Sprintf("there are %d partitions, and should be %d", n, m.partitions()) + m.waiting()
	}
	if why := m.crowded(record.View); why != "" {
		return why
	}
	placement := m.placement(record.View)
	faults := placement.Faults
	witnesses := faults
	if faults == 0 {
		witnesses = min(placement.Alone, record.Size()-1)
	}
	for i, p := range record.Partitions {
		nd := m.world.nodes[p.Master-1]
		part, ok := nd.shards[i].protocol.(protocol.Partitioned)
		if !ok {
			return fmt.Sprintf("the master %d of partition %d does not run", p.Master, i)
		}
		if st := part.PartitionStatus(); !st.Serving || len(p.Formers) > 0 {
			return fmt.Sprintf("partition %d is not served by its master %d: %+v; it recovers from %v", i, p.Master, st, p.Formers)
		}
		if len(p.Backups) != faults || len(p.Witnesses) < witnesses {
			return fmt.Sprintf("partition %d has backups %v and witnesses %v, and should have %d and %d", i, p.Backups, p.Witnesses, faults, witnesses)
		}
		if home := m.astray(record.View, i); home != "" {
			return fmt.Sprintf("the master %d of partition %d is not at %s, its home", p.Master, i, home)
		}
		for _, id := range p.Witnesses {
			if !m.world.nodes[id-1].witness.serves(i, p.Term) {
				return fmt.Sprintf("witness %d does not serve partition %d in term %d", id, i, p.Term)
			}
		}
	}
	for _, nd := range m.world.nodes {
		if nd.witness == nil || !nd.born || nd.down || !nd.witness.intact(record) {
			continue
		}
		for _, life := range nd.witness.core.Lives() {
			if int(life.Partition) >= len(record.Partitions) || record.Partitions[life.Partition].Term != life.Term {
				return fmt.Sprintf("%s still has a life of term %d of partition %d, which has another term, or is none", nd.name(), life.Term, life.Partition)
			}
		}
	}
	return ""
}

// report is what the node answers to a manager of partitions.
func (nd *node) report() partedReport {
	w := nd.world
	switch {
	case w.env.parted == nil:
		return partedReport{}
	case nd.witness != nil:
		r := nd.witness.report()
		return partedReport{witness: &r, at: w.Now}
	}
	r := partedReport{at: w.Now, member: &membership.MemberReport{
		Member: nd.config.Self, Disk: nd.disk(), Hears: nd.hears(), Partitions: nd.parts(),
	}}
	if nd.held != none {
		r.member.Digest, r.member.Epoch = w.manager.views[nd.held].digest, w.manager.views[nd.held].Epoch
	}
	return r
}
