package runtime

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol"
)

// What a member says of its part in a partition is never taken for its part in another one, which tells of itself
// later.
func TestPartitionsKeepTheirPlaces(t *testing.T) {
	first, second := &shard{}, &shard{}
	second.state.partition.Store(&protocol.PartitionStatus{Partition: 1, NotedTerm: 7})
	r := &Replica{shards: []*shard{first, second}}
	if all := r.Partitions(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	first.state.partition.Store(&protocol.PartitionStatus{})
	if all := r.Partitions(); len(all) != 2 || all[1].Partition != 1 {
		t.Errorf("%+v", all)
	}
}
