package runtime

import (
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/protocol"
)

// splitDisk gives partitions that were split off what is theirs on this disk. Nobody is served meanwhile.
func (r *Replica) splitDisk() error {
	o := &r.options
	if o.partitioned == nil || len(o.View.Divided()) == 0 {
		return nil
	}
	r.store.Grow(o.shardCount())
	given, err := o.partitioned.Divide(o.View, protocol.Disks{
		Journal: func(partition int) *protocol.Journal { return protocol.NewJournal(r.store.Shard(partition)) },
		Persist: r.persist,
		Hash:    xxhash.Sum64,
	})
	if given > 0 {
		o.Logger.Info("Registers were given to a new partition", zap.Int("registers", given),
			zap.Int("partitions", o.shardCount()), zap.Duration("duration", time.Since(r.start)))
	}
	return err
}

// persist makes durable what was put into a shard's journal, before it returns.
func (r *Replica) persist(shard int, j *protocol.Journal) error {
	batch := j.Take()
	if batch.Sequence == 0 {
		return nil
	}
	err := r.store.Persist(shard, batch)
	if err == nil {
		j.Persisted(batch.Sequence)
	}
	return err
}
