package simulator

import (
	"errors"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// Split is a change of worlds with masters: there is to be one partition more, to which another one gives half of its
// keys.
const Split FaultKind = "split"

// splitPaths are what happens to partitions that are split.
func splitPaths() []string {
	return []string{"curp.split", "curp.split.meanwhile", "curp.split.forgotten", "curp.split.registers", "curp.split-moved"}
}

// drawSplits adds splits to a schedule, from a stream of its own: several in turn, and often together with what may go
// wrong at the time.
func (s *Schedule) drawSplits(seed uint64, n int, options Options) {
	draw := kernel.NewStream(seed, kernel.ForPartitions, 7)
	if slices.Contains(options.Faults, Split) && draw.Chance(250) {
		s.addSplits(draw, n, options)
	}
}

func (s *Schedule) addSplits(draw kernel.Stream, n int, options Options) {
	s.stretch(2)
	retry := s.env.retry
	with := func(kind FaultKind, perMille int) bool {
		return draw.Chance(perMille) && slices.Contains(options.Faults, kind)
	}
	for range 1 + draw.Below(3) {
		at := draw.Between(s.Settle/20, s.Settle*7/10)
		s.Faults = append(s.Faults, Fault{Kind: Split, At: at})
		if with(Crash, 400) {
			s.Faults = append(s.Faults, Fault{Kind: Crash, Node: draw.Below(n), At: at + draw.Between(0, 6*retry), For: draw.Between(retry/4, 4*retry), Rate: 500})
		}
		if with(Forget, 300) {
			s.env.parted.spares += 2
			s.Faults = append(s.Faults, Fault{Kind: Forget, At: at + draw.Between(0, 2*retry), For: draw.Between(2*retry, 20*retry)})
		}
		if with(Move, 400) {
			s.Faults = append(s.Faults, Fault{Kind: Move, Node: draw.Below(n), Partition: s.env.shards, At: at + draw.Between(0, 10*retry)})
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// splits are those of an experiment, as faults.
func (c *Partitions) splits() (faults []Fault) {
	for _, at := range c.Splits {
		faults = append(faults, Fault{Kind: Split, At: at})
	}
	return faults
}

// split is the fault Split.
func (m *manager) split(f *fault) {
	f.hit = m.world.Busy > 0
	m.splits++
	m.world.trace.remark("there are to be %d partitions", m.partitions())
}

// partitions is how many there are to be.
func (m *manager) partitions() int { return m.world.env.parted.placement.Partitions + m.splits }

// noteSplit counts a split that is recorded.
func (m *manager) noteSplit() {
	m.world.Took("curp.split")
	if !m.world.Settled {
		m.world.Took("curp.split.meanwhile")
	}
}

// splitAtOnce is a mistake: a view in which a partition is split although witnesses have what its backups lack, or no
// view.
func (m *manager) splitAtOnce(s *membership.Snapshot) (next view.View) {
	parent, child := s.View.NextSplit()
	p := s.View.Partitions[parent]
	if s.Placement.Partitions <= child || s.View.Joint() || len(p.Formers) > 0 || len(p.Witnesses) == 0 || !m.views[m.record].held {
		return next
	}
	next = s.View
	next.Epoch++
	next.Issued, next.Founded, next.Partitions = s.View.LastIssued(), s.View.FoundedPartitions(), slices.Clone(s.View.Partitions)
	p.Term, p.Formers, p.Empty = next.Epoch, []view.Former{p.Former()}, false
	next.Partitions[parent] = p
	p.Split = next.Epoch
	next.Partitions = append(next.Partitions, p)
	return next
}

var errStopped = errors.New("the machine stops")

// place is the shard of a key at the node.
func (nd *node) place(key string) int {
	if nd.world.env.parted != nil {
		return nd.config.View.Shard(register.Hash([]byte(key)))
	}
	return shardOf(key, len(nd.shards))
}

// running are the shards that the node's view has: one that few held may have had more.
func (nd *node) running() []*shard {
	if nd.world.env.parted != nil && nd.witness == nil {
		return nd.shards[:min(len(nd.shards), len(nd.config.View.Partitions))]
	}
	return nd.shards
}

// divide readies the node's disks for what was split. The machine may stop while it is at that.
func (nd *node) divide() {
	w := nd.world
	for len(nd.shards) < len(nd.config.View.Partitions) {
		nd.shards = append(nd.shards, &shard{disk: newDisk()})
	}
	for _, s := range nd.shards {
		s.protocol = nil
	}
	left := -1 // how many more batches reach the disk; as many as there are
	if !w.Settled && len(nd.config.View.Divided()) > 0 && nd.draw.Chance(100) {
		left = nd.draw.Below(6)
	}
	for range 2 { // interrupted, it is done anew by the next process
		given, err := w.env.parted.protocol.Divide(nd.config.View, protocol.Disks{
			Journal: func(i int) *protocol.Journal { return protocol.NewJournal(nd.shards[i].disk) },
			Persist: func(i int, j *protocol.Journal) error {
				b := j.Take()
				if left == 0 {
					return errStopped
				}
				left--
				nd.shards[i].disk.apply(b)
				j.Persisted(b.Sequence)
				return nil
			},
			Hash: register.Hash,
		})
		if given > 0 {
			w.Took("curp.split.registers")
			w.trace.note(nd, "gives %d registers to new partitions", given)
		}
		if err == nil {
			return
		}
		if left != 0 {
			w.Fail("member %d can't split its partitions: %w", nd.index+1, err)
			return
		}
		left = -1
	}
}
