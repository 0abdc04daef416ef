package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/protocol"
)

// fetch brings records into memory and waits until they can be collected.
func fetch(t *testing.T, f protocol.Fetcher, keys ...string) {
	t.Helper()
	done := make(chan struct{}, len(keys))
	f.Fetch(keys, func() { done <- struct{}{} })
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("never fetched")
	}
}

func TestWhatIsFetchedIsInMemory(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	defer closeStore(t, s)
	put(t, s, 1, 1, set("there", "value"))
	shard := s.Shard(1).(*diskShard)
	shard.cache = cacheOf(1 << 20)
	if shard.Known([]byte("there")) {
		t.Fatal("it is known before")
	}
	fetch(t, shard, "there", "absent")
	if keys := shard.Collect(); len(keys) != 2 {
		t.Errorf("collected %q", keys)
	}
	for key, want := range map[string]string{"there": "value", "absent": ""} {
		value, ok := shard.Get([]byte(key))
		if !shard.Known([]byte(key)) || string(value) != want || ok != (want != "") {
			t.Errorf("%s is %q, %v", key, value, ok)
		}
	}
	if keys := shard.Collect(); len(keys) > 0 || len(shard.overtaken) > 0 {
		t.Errorf("%q is collected twice, or under way for ever: %v", keys, shard.overtaken)
	}
}

// What was read before a write, and is collected after it, does not come in its place; nor does it if the record was
// asked for again meanwhile.
func TestWhatIsFetchedIsNeverOlder(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	defer closeStore(t, s)
	put(t, s, 1, 1, set("k", "old"))
	shard := s.Shard(1).(*diskShard)
	shard.cache = cacheOf(1 << 20)
	fetch(t, shard, "k")
	put(t, s, 1, 2, set("k", "new"))
	shard.cache = cacheOf(1 << 20) // which has forgotten that one, too
	shard.Fetch([]string{"k"}, func() { t.Error("it is under way, and was read again") })
	shard.Collect()
	if value, _ := shard.Get([]byte("k")); string(value) != "new" {
		t.Errorf("k is %q", value)
	}
}

// Whatever is fetched when, with a cache that forgets nearly everything, a journal has what was put last.
func TestFetchesAmongWrites(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	defer closeStore(t, s)
	shard := s.Shard(0).(*diskShard)
	shard.cache = cacheOf(3 * entryBytes)
	journal, want := protocol.NewJournal(shard), map[string]string{}
	persisted := make(chan uint64, 20_000) // as many as there are steps
	draw := rand.New(rand.NewPCG(1, 2))
	key := func() string { return fmt.Sprint(draw.IntN(12)) }
	for i := range 20_000 {
		switch draw.IntN(6) {
		case 0:
			k := key()
			want[k] = fmt.Sprint(i)
			journal.Put([]byte(k), []byte(want[k]))
		case 1:
			if batch := journal.Take(); batch.Sequence != 0 {
				s.Commit(0, batch, func(n uint64) { persisted <- n })
			}
		case 2:
			select {
			case n := <-persisted:
				journal.Persisted(n)
			default:
			}
		case 3:
			onTheWay := func(k string) bool { return !journal.Durable([]byte(k)) }
			shard.Fetch(slices.DeleteFunc([]string{key(), key()}, onTheWay), func() {})
		case 4:
			shard.Collect()
		case 5:
			k := key()
			if value, ok := journal.Get([]byte(k)); string(value) != want[k] || ok != (want[k] != "") {
				t.Fatalf("step %d: %s is %q, want %q", i, k, value, want[k])
			}
		}
	}
}

// A store that is closed waits for what is being read, and reads nothing more.
func TestFetchesEndWithTheStore(t *testing.T) {
	s := open(t, options(vfs.NewMem(), Sync))
	put(t, s, 1, 1, set("k", "v"))
	shard := s.Shard(1).(*diskShard)
	for range 100 {
		shard.Fetch([]string{fmt.Sprint(len(shard.overtaken))}, func() {})
	}
	closeStore(t, s)
	shard.Fetch([]string{"late"}, func() { t.Error("a closed store was read") })
	for range fetchesAtOnce { // all that read have ended
		shard.disk.fetching <- struct{}{}
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}
