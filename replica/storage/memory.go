package storage

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/georegister/georegister/replica/protocol"
)

// memory is an engine that forgets. A shard is touched by its own goroutine only.
type memory struct {
	shards []*memoryShard
	size   atomic.Int64
}

func newMemory(shards int) *memory {
	m := &memory{}
	m.grow(shards)
	return m
}

func (m *memory) grow(shards int) {
	for len(m.shards) < shards {
		seed := maphash.MakeSeed()
		hash := func(name []byte) uint32 { return uint32(maphash.Bytes(seed, name)) }
		m.shards = append(m.shards, newMemoryShard(hash))
	}
}

func (m *memory) shard(i int) protocol.Reader { return m.shards[i] }

func (m *memory) commit(shard int, batch protocol.Batch, _ func(uint64)) bool {
	grown := 0
	for _, u := range batch.Mutations {
		grown += m.shards[shard].set(u.Key, u.Value)
	}
	m.size.Add(int64(grown))
	return true
}

func (m *memory) bytes() uint64 { return uint64(m.size.Load()) }

func (m *memory) setBoot(uint32) {}

func (m *memory) number() uint64 { return 0 }

func (m *memory) close() error { return nil }
