package simulator

import (
	"errors"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/replica/view"
)

// splitPaths are what happens to partitions that are split.
func splitPaths() []string {
	return []string{"curp.split", "curp.split.meanwhile", "curp.split.forgotten", "curp.split.registers", "curp.split-moved"}
}

// split is the fault Split.
func (m *manager) split(f *fault) {
	f.hit = m.world.Busy > 0
	m.splits++
	m.world.trace.Remark("there are to be %d partitions", m.partitions())
}

// partitions is how many there are to be.
func (m *manager) partitions() int { return m.world.env.Partitioned.Placement.Partitions + m.splits }

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
	if nd.world.env.Partitioned != nil {
		return nd.config.View.Shard(register.Hash([]byte(key)))
	}
	return shardOf(key, len(nd.shards))
}

// running are the shards that the node's view has: one that few held may have had more.
func (nd *node) running() []*shard {
	if nd.world.env.Partitioned != nil && nd.witness == nil {
		return nd.shards[:min(len(nd.shards), len(nd.config.View.Partitions))]
	}
	return nd.shards
}

// divide readies the node's disks for what was split. The machine may stop while it is at that.
func (nd *node) divide() {
	w := nd.world
	for len(nd.shards) < len(nd.config.View.Partitions) {
		nd.shards = append(nd.shards, &shard{disk: machine.NewDisk()})
	}
	for _, s := range nd.shards {
		s.protocol = nil
	}
	left := -1 // how many more batches reach the disk; as many as there are
	if !w.Settled && len(nd.config.View.Divided()) > 0 && nd.draw.Chance(100) {
		left = nd.draw.Below(6)
	}
	for range 2 { // interrupted, it is done anew by the next process
		given, err := w.env.Partitioned.Protocol.Divide(nd.config.View, protocol.Disks{
			Journal: func(i int) *protocol.Journal { return protocol.NewJournal(nd.shards[i].disk) },
			Persist: func(i int, j *protocol.Journal) error {
				b := j.Take()
				if left == 0 {
					return errStopped
				}
				left--
				nd.shards[i].disk.Apply(b)
				j.Persisted(b.Sequence)
				return nil
			},
			Hash: register.Hash,
		})
		if given > 0 {
			w.Took("curp.split.registers")
			w.trace.Note(nd.index, "gives %d registers to new partitions", given)
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
