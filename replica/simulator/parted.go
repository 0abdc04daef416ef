package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/replica/view"
)

// parted is what the world of an experiment has.
func (c *Partitions) parted(env *schedule.Environment, faulty bool) *schedule.Partitioned {
	p := &schedule.Partitioned{Protocol: c.Protocol, Sync: c.Sync, Slots: 4096, Suspect: env.Retry, Calls: faults.Fault{Kind: faults.Change, For: env.Retry / 2}}
	p.Placement = membership.Placement{Partitions: env.Shards, Faults: c.Backups, Homes: c.Homes}
	if c.Backups == 0 {
		p.Placement.Faults = (len(env.Network.Sites) - 1) / 2
	}
	if faulty {
		p.Slander, p.Calls.Rate, p.Calls.Size = 5, 100, env.Retry/4
	}
	return p
}

// addWitnesses makes the witnesses of a world, one at each site, and the nodes that may come later, and gives the first
// view its partitions.
func (w *world) addWitnesses(v view.View) view.View {
	p := w.env.Partitioned
	n := len(w.env.Network.Sites)
	var founded []view.Witness
	for i := range n {
		nd := newNode(w, len(w.nodes), i)
		nd.shards = nil
		nd.witness = &witness{node: nd}
		if !p.Placement.Dedicated {
			nd.witness.beside = view.MemberID(i + 1)
		}
		w.nodes = append(w.nodes, nd)
		nd.born = true
		founded = append(founded, nd.witness.entry())
	}
	for i := range p.Spares {
		w.nodes = append(w.nodes, newNode(w, len(w.nodes), i%n))
	}
	if p.Placement.Faults == 0 && p.Placement.Alone > 0 {
		w.Took("curp.alone-by-choice")
	}
	placement := p.Placement
	placement.Domains = p.Domains(view.View{Members: v.Members, Witnesses: founded}, w.env.Network.Sites)
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
	config.Shard, config.Sync = partition, nd.world.env.Partitioned.Sync
	if partition < len(promised) {
		config.Promised = promised[partition]
	}
	return nd.world.env.Partitioned.Protocol.Start(config, journal)
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
		if at := nd.heard[other.index]; at > 0 && w.Now-at <= w.env.Partitioned.Suspect {
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
	if st := p.PartitionStatus(); st.Unsynced > w.env.Partitioned.Sync.After+unsyncedSlack*len(w.clients) {
		w.Fail("%s has %d operations of partition %d that are not synced, and begins to sync after %d",
			nd.name(), st.Unsynced, st.Partition, w.env.Partitioned.Sync.After)
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
	case w.env.Partitioned == nil:
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
