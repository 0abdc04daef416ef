package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/replica/view"
)

// addWitnesses makes the witnesses of a world, one at each site, and the nodes that may come later, and gives the first
// view its partitions.
func (w *Cluster) addWitnesses(v view.View) view.View {
	p := w.Environment.Partitioned
	n := len(w.Environment.Network.Sites)
	var founded []view.Witness
	for i := range n {
		nd := newNode(w, len(w.Nodes), i)
		nd.Shards = nil
		nd.Witness = newWitness(nd, 0)
		if !p.Placement.Dedicated {
			nd.Witness.Beside = view.MemberID(i + 1)
		}
		w.Nodes = append(w.Nodes, nd)
		nd.Born = true
		founded = append(founded, nd.Witness.Entry())
	}
	for i := range p.Spares {
		w.Nodes = append(w.Nodes, newNode(w, len(w.Nodes), i%n))
	}
	if p.Placement.Faults == 0 && p.Placement.Alone > 0 {
		w.Took("curp.alone-by-choice")
	}
	placement := p.Placement
	placement.Domains = p.Domains(view.View{Members: v.Members, Witnesses: founded}, w.Environment.Network.Sites)
	v, err := membership.Place(v, founded, placement)
	if err != nil {
		w.Fail("%w", err)
	}
	return v
}

// promised is until when what the protocols of this process promised may hold, by partition of the view that they are
// of.
func (nd *Node) promised(continued bool) (all []protocol.Instant) {
	for _, s := range nd.Shards {
		p, ok := s.Protocol.(protocol.Partitioned)
		if !ok || !continued {
			break
		}
		all = append(all, p.Promised())
	}
	return all
}

// startPart starts a member's part in a partition; promised is of the view before.
func (nd *Node) startPart(
	partition int, config protocol.Config, journal *protocol.Journal, promised []protocol.Instant,
) (protocol.Protocol, error) {
	config.Shard, config.Sync = partition, nd.World.Environment.Partitioned.Sync
	if partition < len(promised) {
		config.Promised = promised[partition]
	}
	return nd.World.Environment.Partitioned.Protocol.Start(config, journal)
}

// parts is what the node says of its part in each partition.
func (nd *Node) parts() (all []membership.Part) {
	for _, s := range nd.Running() {
		p, ok := s.Protocol.(protocol.Partitioned)
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

// Copies reports whether the node fetches a copy of a partition's state.
func (nd *Node) Copies() bool {
	return !nd.Gone && !nd.Down && slices.ContainsFunc(nd.parts(), func(p membership.Part) bool { return p.Copying })
}

// hears lists the members and witnesses that the node had something from lately: who was up, and reached it. Faults of
// the network have some of that be wrong.
func (nd *Node) hears() (heard []view.MemberID) {
	w := nd.World
	if nd.heard == nil {
		nd.heard = make([]time.Duration, len(w.Nodes))
	}
	for _, other := range w.Nodes {
		switch {
		case other == nd || !other.Born:
			continue
		case other.Down || other.Paused || w.Network.Cut(nd.Index, other.Index):
		case !w.Settled && (w.Mishap(w.Draw, 30) || other.Index == w.Unheard):
			continue
		default:
			nd.heard[other.Index] = w.Now
		}
		if at := nd.heard[other.Index]; at > 0 && w.Now-at <= w.Environment.Partitioned.Suspect {
			heard = append(heard, other.Config.Self)
		}
	}
	return heard
}

// inspect holds a member against the bounds of its state.
func (nd *Node) inspect(s *shard) {
	p, ok := s.Protocol.(protocol.Partitioned)
	if !ok {
		return
	}
	w := nd.World
	st := p.PartitionStatus()
	if st.Serving && st.Recovered == st.Term {
		w.Breaches(w.Masters.Serves(nd.Config.Self, st.Partition, st.Term, nd.Clock.Read(w.Now) < st.Leased))
	}
	nd.holdLease(s, &st)
	nd.holdSynced(s, &st)
	w.unsynced = max(w.unsynced, st.Unsynced)
	if st.Unsynced > w.Environment.Partitioned.Sync.After+unsyncedSlack*len(w.Clients.All) {
		w.Fail("%s has %d operations of partition %d that are not synced, and begins to sync after %d",
			nd.Name(), st.Unsynced, st.Partition, w.Environment.Partitioned.Sync.After)
	}
}

// behind is since when a master without backups has had entries on its disk that it has not synced.
type behind struct {
	commit uint64
	since  protocol.Instant // by the node's clock
}

// holdSynced holds it that a master without backups, which needs nobody for that, syncs what it has on its disk, by the
// time that it was told last: after a pause the world may look at it before that.
func (nd *Node) holdSynced(s *shard, st *protocol.PartitionStatus) {
	w, now := nd.World, s.ticked
	alone := st.Role == protocol.Master && len(nd.Config.View.Partitions[st.Partition].Backups) == 0
	if !alone || !st.Serving || st.Unsynced == 0 || st.Commit != s.behind.commit || !s.journal.Clean() {
		s.behind = behind{st.Commit, now}
		return
	}
	if p := w.Environment.Partitioned; now >= s.behind.since.Add(p.Sync.WithDefaults().Delay+2*w.Environment.Retry) {
		w.Breaches(fmt.Errorf("member %d, a master without backups, has synced up to entry %d of partition %d for long, "+
			"and its disk has %d more", nd.Index+1, st.Commit, st.Partition, st.Unsynced))
	}
}

// looks is what a master had when it was found to serve, or had looked which sessions can go.
type looks struct {
	term         uint64
	last, synced uint64 // entries
	due          bool   // it looks at them until the next tick
}

// holdLooks holds it that a master forgets the sessions that can go, each time that it has made so many entries.
func (nd *Node) holdLooks(shard int, s *shard) {
	w, tuning := nd.World, &nd.World.Environment.Tuning
	p, is := s.Protocol.(protocol.Partitioned)
	if !is || tuning.Sessions == 0 || nd.Lost {
		return
	}
	st := p.PartitionStatus()
	switch {
	case st.Role != protocol.Master || !st.Serving:
		s.looks = looks{}
	case s.looks.term != st.Term:
		s.looks = looks{term: st.Term, last: st.Last, synced: st.Commit}
	case !s.looks.due:
		s.looks.due = st.Last >= s.looks.last+check.LooksAfter(tuning)
	case s.journal.Clean():
		if err := nd.holder(shard).Looked(tuning, s.looks.synced); err != nil {
			w.Breaches(fmt.Errorf("%s, partition %d: %w", nd.Name(), shard, err))
		}
		s.looks = looks{term: st.Term, last: st.Last, synced: st.Commit}
	}
}

// holdServed holds it that operations which end at once at a master end in a term that its disk knows to serve.
func (nd *Node) holdServed(shard int, completions []protocol.Completion) {
	w := nd.World
	if w.Environment.Partitioned == nil || nd.Config.View.Partitions[shard].Master != nd.Config.Self {
		return
	}
	for i := range completions {
		if completions[i].Result.Status == register.OK {
			w.Breaches(nd.holder(shard).Served(nd.Config.View.Partitions[shard].Term))
		}
	}
}

// unsyncedSlack is how many operations of a client may come to a master that can't sync: tries of several coordinators,
// and operations that it gave up.
const unsyncedSlack = 8

// Report is what a node answers to the manager.
type Report struct {
	At      time.Duration
	Held    int                       // the view on its disk
	Voter   bool                      // it votes
	Member  membership.MemberReport   // of a member; else its ID is 0
	Witness *membership.WitnessReport // of a witness
}

// Report is what the node says of itself.
func (nd *Node) Report() Report {
	w := nd.World
	r := Report{At: w.Now, Held: nd.Held}
	if nd.Witness != nil {
		r.Witness = nd.Witness.report()
		return r
	}
	r.Voter = nd.Voter()
	r.Member = membership.MemberReport{Member: nd.Config.Self, Disk: nd.Disk(), Settled: true, Fetched: true}
	if nd.Held != None {
		r.Member.Digest, r.Member.Epoch = w.Made[nd.Held].Digest, w.Made[nd.Held].Epoch
	}
	if w.Environment.Partitioned != nil {
		r.Member.Hears, r.Member.Partitions = nd.hears(), nd.parts()
		return r
	}
	for _, shard := range nd.Shards {
		if m, ok := shard.Protocol.(protocol.Joiner); ok {
			c := m.Change()
			r.Member.Settled, r.Member.Fetched = r.Member.Settled && c.Settled, r.Member.Fetched && c.Fetched
		}
	}
	return r
}

var errStopped = errors.New("the machine stops")

// place is the shard of a key at the node.
func (nd *Node) place(key string) int {
	if nd.World.Environment.Partitioned != nil {
		return nd.Config.View.Shard(register.Hash([]byte(key)))
	}
	return ShardOf(key, len(nd.Shards))
}

// Running are the shards that the node's view has: one that few held may have had more.
func (nd *Node) Running() []*shard {
	if nd.World.Environment.Partitioned != nil && nd.Witness == nil {
		return nd.Shards[:min(len(nd.Shards), len(nd.Config.View.Partitions))]
	}
	return nd.Shards
}

// divide readies the node's disks for what was split. The machine may stop while it is at that.
func (nd *Node) divide() {
	w := nd.World
	for len(nd.Shards) < len(nd.Config.View.Partitions) {
		nd.Shards = append(nd.Shards, &shard{Disk: machine.NewDisk()})
	}
	for _, s := range nd.Shards {
		s.Protocol = nil
	}
	left := -1 // how many more batches reach the disk; as many as there are
	if !w.Settled && len(nd.Config.View.Divided()) > 0 && w.Mishap(nd.Draw, 100) {
		left = nd.Draw.Below(6)
	}
	before := map[int]map[string][]byte{} // what disks had of partitions that were split off; never ranged over
	for _, d := range nd.Config.View.Divided() {
		before[d.Child] = maps.Clone(nd.Shards[d.Child].Disk.Records)
		before[d.Parent] = maps.Clone(nd.Shards[d.Parent].Disk.Records)
	}
	for range 2 { // interrupted, it is done anew by the next process
		given, err := w.Environment.Partitioned.Protocol.Divide(nd.Config.View, protocol.Disks{
			Journal: func(i int) *protocol.Journal { return protocol.NewJournal(nd.Shards[i].Disk) },
			Persist: func(i int, j *protocol.Journal) error {
				b := j.Take()
				if left == 0 {
					return errStopped
				}
				left--
				nd.Shards[i].Disk.Apply(b)
				j.Persisted(b.Sequence)
				return nil
			},
			Hash: register.Hash,
		})
		if given > 0 {
			w.Took("curp.split.registers")
			w.Diagram.Note(nd.Index, "gives %d registers to new partitions", given)
		}
		if err == nil {
			nd.judgeSplits(before)
			return
		}
		if left != 0 {
			w.Fail("member %d can't split its partitions: %w", nd.Index+1, err)
			return
		}
		left = -1
	}
}

// judgeSplits judges what partitions begin with that were split off, by what the disk had of them before.
func (nd *Node) judgeSplits(before map[int]map[string][]byte) {
	v := nd.Config.View
	for _, d := range v.Divided() {
		parent, child := nd.holder(d.Parent), nd.holder(d.Child)
		gives := func(key []byte) bool {
			return view.Shard(register.Hash(key), v.FoundedPartitions(), d.Child+1) == d.Child
		}
		nd.World.Breaches(check.Kept(child, before[d.Child], d.Term))
		nd.World.Breaches(check.Split(parent, child, d.Term, gives))
		nd.World.Breaches(check.Dropped(parent, before[d.Parent], uint32(d.Child)+1, gives))
	}
}

// JudgeKept judges what members keep of partitions once all is quiet.
func (w *Cluster) JudgeKept() {
	if w.Environment.Partitioned == nil {
		return
	}
	sync := w.Environment.Partitioned.Sync.WithDefaults()
	b := &check.Bounds{
		Tuning: &w.Environment.Tuning, Entries: min(cmp.Or(w.Environment.Tuning.LogEntries, keptEntries), sync.Kept),
		Unsynced: uint64(w.unsynced) + unsyncedSlack, InFlight: max(w.Environment.InFlight, 1),
	}
	for _, nd := range w.resting() {
		for i, s := range nd.Running() {
			p, is := s.Protocol.(protocol.Partitioned)
			if !is {
				continue
			}
			if err := nd.holder(i).Keeps(b, p.PartitionStatus().Role != protocol.Master); err != nil {
				w.Breaches(fmt.Errorf("%s, partition %d: %w", nd.Name(), i, err))
			}
		}
	}
}

// keptEntries is how many applied entries of a log members keep at most without a need, unless the tuning says it.
const keptEntries = 512
