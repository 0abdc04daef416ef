package storage

import (
	"sync/atomic"

	"github.com/google/btree"

	"github.com/georegister/georegister/replica/protocol"
)

// memory is an engine that forgets. A shard is touched by its own goroutine only.
type memory struct {
	shards []*memoryShard
	size   atomic.Int64
}

type memoryShard struct {
	records map[string]*stored
	order   *btree.BTreeG[string] // the keys, for scans; reads don't pay for it
}

// stored is a record. Changing it costs no key, as an assignment to a map would.
type stored struct{ value []byte }

func newMemory(shards int) *memory {
	m := &memory{}
	m.grow(shards)
	return m
}

func (m *memory) grow(shards int) {
	for len(m.shards) < shards {
		m.shards = append(m.shards, &memoryShard{
			records: map[string]*stored{},
			order:   btree.NewOrderedG[string](32),
		})
	}
}

func (m *memory) shard(i int) protocol.Reader { return m.shards[i] }

func (m *memory) commit(shard int, batch protocol.Batch, _ func(uint64)) bool {
	s := m.shards[shard]
	grown := 0
	for _, u := range batch.Mutations {
		old := s.records[string(u.Key)]
		switch {
		case u.Value == nil && old != nil:
			delete(s.records, string(u.Key))
			s.order.Delete(string(u.Key))
			grown -= len(u.Key) + len(old.value)
		case u.Value == nil:
		case old != nil:
			grown += len(u.Value) - len(old.value)
			old.value = u.Value
		default:
			key := string(u.Key)
			s.records[key] = &stored{u.Value}
			s.order.ReplaceOrInsert(key)
			grown += len(key) + len(u.Value)
		}
	}
	m.size.Add(int64(grown))
	return true
}

func (m *memory) bytes() uint64 { return uint64(m.size.Load()) }

func (m *memory) setBoot(uint32) {}

func (m *memory) number() uint64 { return 0 }

func (m *memory) close() error { return nil }

// Get implements protocol.Reader.
func (s *memoryShard) Get(key []byte) ([]byte, bool) {
	if r := s.records[string(key)]; r != nil {
		return r.value, true
	}
	return nil, false
}

// Scan implements protocol.Reader.
func (s *memoryShard) Scan(after []byte, visit func(key, value []byte) bool) {
	s.order.AscendGreaterOrEqual(string(after), func(key string) bool {
		return after != nil && key == string(after) || visit([]byte(key), s.records[key].value)
	})
}
