package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/protocol"
)

// The estimate is as exact as a block of keys, whose values may be in files of their own.
func TestRemainingIsEstimated(t *testing.T) {
	const records, size, off = 2048, separatedBytes, 256
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	draws := rand.NewChaCha8([32]byte{1}) // so that nothing is won by compression
	for shard := 1; shard <= 2; shard++ {
		for i := range records * shard {
			value := make([]byte, size)
			_, _ = draws.Read(value) // it never fails
			put(t, s, shard, uint64(i+1), set(fmt.Sprintf("k%04d", i), string(value)))
		}
	}
	closeStore(t, s)
	s = open(t, options(fs, Sync)) // what was in its log only is in tables then
	defer closeStore(t, s)
	for _, c := range []struct {
		shard int
		after string
		want  int // records
	}{
		{0, "", 0}, {1, "", records}, {1, "k1023", records / 2}, {1, "k2047", 0}, {1, "z", 0}, {2, "k2047", records},
	} {
		var after []byte
		if c.after != "" {
			after = []byte(c.after)
		}
		journal := protocol.NewJournal(s.Shard(c.shard))
		got := int(journal.Remaining(after))
		if got < (c.want-off)*size || got > (c.want+off)*size {
			t.Errorf("behind %q in shard %d: %d bytes, want about %d", c.after, c.shard, got, c.want*size)
		}
	}
}

func TestMemoryDoesNotTellWhatRemains(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Memory))
	defer closeStore(t, s)
	put(t, s, 1, 1, set("a", "1"))
	if n := protocol.NewJournal(s.Shard(1)).Remaining(nil); n != 0 {
		t.Errorf("%d bytes remain, though nobody can tell", n)
	}
}
