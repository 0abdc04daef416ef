package runtime

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	curpstore "github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// BenchmarkSplit gives half of the registers of a partition, with values of 100 bytes, to a new one on a disk: the time
// for which a member serves nobody, for each register that the partition had.
func BenchmarkSplit(b *testing.B) {
	store, err := storage.Open(
		storage.Options{
			Directory: b.TempDir(), Identity: storage.Identity{Cluster: "c", Member: 1, Protocol: "curp", Shards: 1},
		})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	r := &Replica{store: store}
	j := protocol.NewJournal(store.Shard(0))
	own, err := (&peerv1.PartitionRecord{Term: 3}).MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	j.Put([]byte("P"), own)
	for i := range b.N {
		j.Put([]byte(fmt.Sprintf("rkey-%012d", i)), bytes.Repeat([]byte("x"), 100))
		if i%10_000 == 0 || i == b.N-1 {
			if err := r.persist(0, j); err != nil {
				b.Fatal(err)
			}
		}
	}
	v := view.View{Cluster: "c", Epoch: 4, Members: []view.Member{{ID: 1}}, Founded: 1}
	v.Partitions = []view.Partition{{Term: 4, Master: 1}, {Term: 4, Master: 1, Split: 4}}
	store.Grow(2)
	b.ResetTimer()
	given, err := curpstore.Divide(v, protocol.Disks{
		Journal: func(partition int) *protocol.Journal { return protocol.NewJournal(store.Shard(partition)) },
		Persist: r.persist, Hash: xxhash.Sum64,
	})
	b.StopTimer()
	if err != nil || b.N > 100 && (given < b.N/3 || given > b.N*2/3) {
		b.Fatalf("%d of %d registers were given: %v", given, b.N, err)
	}
}
