package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/protocol"
)

// What was loaded is what a search for each record finds, in whatever order the keys come.
func TestLoadedRecordsAreThoseOnDisk(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	defer closeStore(t, s)
	draw := rand.New(rand.NewPCG(1, 1))
	want := map[string]string{}
	for sequence := uint64(1); sequence <= 20; sequence++ {
		var mutations []protocol.Mutation
		for range 20 {
			key := fmt.Sprintf("%03d", draw.IntN(400))
			m := set(key, fmt.Sprint(sequence, " of ", key))
			switch draw.IntN(5) {
			case 0:
				m.Value = nil
			case 1:
				m.Value = []byte{}
			}
			if want[key] = string(m.Value); m.Value == nil {
				delete(want, key)
			}
			mutations = append(mutations, m)
		}
		put(t, s, 0, sequence, mutations...)
		put(t, s, 1, sequence, set(fmt.Sprintf("%03d", draw.IntN(400)), "of another shard"))
	}
	shard := s.Shard(0).(*diskShard)
	for round := range 200 {
		shard.cache = cacheOf(1 << 20)
		var keys [][]byte
		for range draw.IntN(50) {
			keys = append(keys, fmt.Appendf(nil, "%03d", draw.IntN(420)))
		}
		if round%4 != 0 {
			slices.SortFunc(keys, bytes.Compare)
		}
		if round%3 == 0 && len(keys) > 0 {
			shard.Get(keys[len(keys)/2]) // known before
		}
		shard.Load(keys)
		for _, key := range keys {
			if _, known := shard.cache.get(key); !known {
				t.Fatalf("round %d: %s was not loaded", round, key)
			}
			value, ok := shard.Get(key)
			if text, there := want[string(key)]; ok != there || string(value) != text || ok == (value == nil) {
				t.Fatalf("round %d: of %q, %s is %q (%v), want %q (%v)", round, keys, key, value, ok, text, there)
			}
		}
	}
}
