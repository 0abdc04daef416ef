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

// Keys of one hash are different records, whichever of them is written or deleted first.
func TestMemoryTellsKeysOfOneHashApart(t *testing.T) {
	m := newMemory(1)
	shard := m.shards[0]
	shard.hash = func(key []byte) uint32 { return uint32(key[len(key)-1]) % 4 }
	want := map[string]string{}
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		key, value := fmt.Sprint(draw.IntN(30)), []byte(fmt.Sprint(i)[1:])
		if draw.IntN(3) == 0 {
			value = nil
			delete(want, key)
		} else {
			want[key] = string(value)
		}
		m.commit(0, protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(key), Value: value}}}, nil)
		if value, ok := shard.Get([]byte(key)); string(value) != want[key] || ok && value == nil {
			t.Fatalf("step %d: %s is %q, want %q", i, key, value, want[key])
		}
		if i%100 > 0 {
			continue
		}
		keys, size := slices.Sorted(maps.Keys(want)), 0
		shard.Scan(nil, func(key, value []byte) bool {
			if len(keys) == 0 || string(key) != keys[0] || string(value) != want[keys[0]] {
				t.Fatalf("step %d: %q is %q where %q are to come", i, key, value, keys)
			}
			size += len(key) + len(value)
			keys = keys[1:]
			return true
		})
		if len(keys) > 0 || m.bytes() != uint64(size) {
			t.Fatalf("step %d: %q do not come, or %d bytes are counted, which are %d", i, keys, m.bytes(), size)
		}
	}
	if len(shard.others) == 0 {
		t.Error("no keys had one hash")
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
