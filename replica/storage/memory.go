package storage

import (
	"cmp"
	"sync/atomic"

	"github.com/RaduBerinde/btreemap"

	"github.com/georegister/georegister/replica/protocol"
)

// memory is an engine that forgets. A shard is touched by its own goroutine only.
type memory struct {
	shards []*memoryShard
	size   atomic.Int64
}

type memoryShard struct {
	records map[string]*stored
	order   *btreemap.BTreeMap[string, struct{}] // the keys, for scans; reads don't pay for it
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
			order:   btreemap.New[string, struct{}](32, cmp.Compare[string]),
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
			s.order.ReplaceOrInsert(key, struct{}{})
			grown += len(key) + len(u.Value)
		}
	}
	m.size.Add(int64(grown))
	return true
}

func (m *memory) bytes() uint64 { return uint64(m.size.Load()) }

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
	from := btreemap.Min[string]()
	if after != nil {
		from = btreemap.GT(string(after))
	}
	for key := range s.order.Ascend(from, btreemap.Max[string]()) {
		if !visit([]byte(key), s.records[key].value) {
			return
		}
	}
}
