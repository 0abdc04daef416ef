package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
)

// Records of one name, of any size, and names of one hash are different records, whichever of them is written or
// deleted first; and what is deleted leaves its place.
func TestMemoryTellsRecordsApart(t *testing.T) {
	m := newMemory(1)
	shard := m.shards[0]
	shard.hash = func(name []byte) uint32 { return uint32(name[len(name)-1]) % 4 }
	want := map[string]string{}
	draw := rand.New(rand.NewPCG(1, 2))
	shared, apart := 0, 0
	for i := range 20_000 {
		key := fmt.Sprintf("%c%d", "abc"[draw.IntN(3)], draw.IntN(30))
		value := bytes.Repeat([]byte{byte(i)}, draw.IntN(2+i%3*apartBytes))
		if draw.IntN(3) == 0 {
			value = nil
			delete(want, key)
		} else {
			want[key] = string(value)
		}
		m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(key), Value: value}}}, nil)
		if value, ok := shard.Get([]byte(key)); string(value) != want[key] || ok != (value != nil) {
			t.Fatalf("step %d: %s is %q, want %q", i, key, value, want[key])
		}
		shared += len(shard.others)
		if place := shard.find([]byte(key[1:])); place != 0 {
			for _, p := range shard.parts(place, nil) {
				apart += int(min(1, p.apart))
			}
		}
		if i%100 > 0 {
			continue
		}
		size := 0
		for key, value := range want { // order is irrelevant: a sum
			size += len(key) + len(value)
		}
		if m.bytes() != uint64(size) {
			t.Fatalf("step %d: %d bytes are counted, which are %d", i, m.bytes(), size)
		}
		for _, after := range []string{"", "a", "b", "c", "d", key, key + "1", "a3", "c"} {
			checkScan(t, shard, want, after)
		}
	}
	if shared == 0 || apart == 0 {
		t.Errorf("names of one hash were there %d times, values apart %d times", shared, apart)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(key)}}}, nil)
	}
	if len(shard.free) != int(shard.taken) || len(shard.byHash)+len(shard.others) > 0 || m.bytes() != 0 {
		t.Errorf("of %d places, %d are free without records; %d bytes", shard.taken, len(shard.free), m.bytes())
	}
}

// checkScan compares what a shard lists behind a key; "" stands for the beginning.
func checkScan(t *testing.T, shard *memoryShard, want map[string]string, after string) {
	t.Helper()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return key <= after })
	var behind []byte
	if after != "" {
		behind = []byte(after)
	}
	shard.Scan(behind, func(key, value []byte) bool {
		if len(keys) == 0 || string(key) != keys[0] || string(value) != want[keys[0]] {
			t.Fatalf("behind %q: %q is %q where %q are to come", after, key, value, keys)
		}
		keys = keys[1:]
		return true
	})
	if len(keys) > 0 {
		t.Fatalf("behind %q: %q do not come", after, keys)
	}
}

// Who reads a value may keep it, and append to it.
func TestMemoryValuesStay(t *testing.T) {
	m := newMemory(1)
	write := func(value string) {
		m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte("k"), Value: []byte(value)}}}, nil)
	}
	write("first")
	first, _ := m.shards[0].Get([]byte("k"))
	_ = append(first, " more"...)
	write("other")
	if other, _ := m.shards[0].Get([]byte("k")); !bytes.Equal(first, []byte("first")) || string(other) != "other" {
		t.Errorf("%q and %q", first, other)
	}
}

// BenchmarkMemory reads and writes a shard of a million records, in an order that is not theirs.
func BenchmarkMemory(b *testing.B) {
	const records, stride = 1_000_000, 618_033 // they have no divisor in common
	key := func(i int) []byte { return fmt.Appendf(nil, "r%016x", uint64(i)*0x9e3779b97f4a7c15) }
	keys := make([][]byte, records)
	for i := range keys {
		keys[i] = key(i * stride % records)
	}
	fill := func(m *memory) {
		for _, key := range keys {
			m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: key, Value: key}}}, nil)
		}
	}
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			fill(newMemory(1))
		}
	})
	m := newMemory(1)
	fill(m)
	b.Run("get", func(b *testing.B) {
		for i := range b.N {
			if _, ok := m.shards[0].Get(keys[i%records]); !ok {
				b.Fatal("a record is missing")
			}
		}
	})
	b.Run("set", func(b *testing.B) {
		for i := range b.N {
			key := keys[i%records]
			m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: key, Value: key}}}, nil)
		}
	})
	b.Run("scan", func(b *testing.B) {
		left := 0
		for left < b.N {
			m.shards[0].Scan(nil, func(_, _ []byte) bool { left++; return left < b.N })
		}
	})
}
