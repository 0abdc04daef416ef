package view

import "cmp"

// Shard is where a key lives, by its hash, among count shards in a cluster that was founded with so many: linear
// hashing (Litwin, VLDB 1980). A shard that is added takes half of the keys of its Parent, and no other key goes
// elsewhere. The disks depend on it, so it never changes.
func Shard(hash uint64, founded, count int) int {
	level := levelOf(founded, count)
	if i := hash % uint64(2*level); i < uint64(count) {
		return int(i)
	}
	return int(hash % uint64(level))
}

// Parent is the shard that the one of this number, which is not below founded, is split off.
func Parent(founded, number int) int { return number - levelOf(founded, number) }

// levelOf is the last number of shards, up to count, that all founded ones were split alike to make.
func levelOf(founded, count int) int {
	level := max(1, founded)
	for 2*level <= count {
		level *= 2
	}
	return level
}

// FoundedPartitions is how many partitions the cluster was founded with, or shards without masters. Zero: it is not
// known.
func (v View) FoundedPartitions() int { return cmp.Or(v.Founded, len(v.Partitions)) }

// Shard is the partition where a key of that hash lives.
func (v View) Shard(hash uint64) int { return Shard(hash, v.FoundedPartitions(), len(v.Partitions)) }

// NextSplit is the partition that is split next, in turn, and the number of the one that it is split into.
func (v View) NextSplit() (parent, child int) {
	child = len(v.Partitions)
	return Parent(v.FoundedPartitions(), child), child
}

// Divided are the partitions that were split off, with those that they were split off, in the order in which that came
// about.
func (v View) Divided() (all []Division) {
	for i := v.FoundedPartitions(); i < len(v.Partitions); i++ {
		all = append(all, Division{Parent: Parent(v.FoundedPartitions(), i), Child: i, Term: v.Partitions[i].Split})
	}
	return all
}

// Division is the split of a partition: half of the keys of Parent are the Child's from Term on.
type Division struct {
	Parent, Child int
	Term          uint64
}
