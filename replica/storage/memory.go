package storage

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/georegister/georegister/replica/protocol"
)

// memory is an engine that forgets. A shard is touched by its own goroutine only.
type memory struct {
	shards []*memoryShard
	size   atomic.Int64
}

// memoryShard finds a record by the hash of its key, which takes half the memory that a map of keys would.
type memoryShard struct {
	hash   func(key []byte) uint64
	byHash map[uint64]*stored
	others map[string]*stored // those whose hash another record has, by key
	order  *btree.BTreeG[*stored]
}

// stored is a record, in one piece: the length of its key, the key, and the value. Another value is another piece,
// since who reads a value may keep it.
type stored struct{ data []byte }

func newStored(key, value []byte) *stored {
	s := &stored{}
	s.set(key, value)
	return s
}

func (s *stored) set(key, value []byte) {
	var length [binary.MaxVarintLen64]byte
	head := binary.PutUvarint(length[:], uint64(len(key)))
	data := make([]byte, 0, head+len(key)+len(value))
	s.data = append(append(append(data, length[:head]...), key...), value...)
}

func (s *stored) key() []byte {
	length, head := binary.Uvarint(s.data)
	return s.data[head : head+int(length)]
}

// value is never nil, and has no room to append to.
func (s *stored) value() []byte {
	length, head := binary.Uvarint(s.data)
	return s.data[head+int(length) : len(s.data) : len(s.data)]
}

func newMemory(shards int) *memory {
	m := &memory{}
	m.grow(shards)
	return m
}

func (m *memory) grow(shards int) {
	for len(m.shards) < shards {
		seed := maphash.MakeSeed()
		m.shards = append(m.shards, &memoryShard{
			hash:   func(key []byte) uint64 { return maphash.Bytes(seed, key) },
			byHash: map[uint64]*stored{}, others: map[string]*stored{},
			order: btree.NewG(32, func(a, b *stored) bool { return bytes.Compare(a.key(), b.key()) < 0 }),
		})
	}
}

func (m *memory) shard(i int) protocol.Reader { return m.shards[i] }

func (m *memory) commit(shard int, batch protocol.Batch, _ func(uint64)) bool {
	s := m.shards[shard]
	grown := 0
	for _, u := range batch.Mutations {
		old := s.find(u.Key)
		if old != nil {
			grown -= len(u.Key) + len(old.value())
		}
		switch {
		case u.Value != nil && old != nil:
			old.set(u.Key, u.Value)
		case u.Value != nil:
			s.insert(newStored(u.Key, u.Value))
		case old != nil:
			s.remove(old)
		}
		if u.Value != nil {
			grown += len(u.Key) + len(u.Value)
		}
	}
	m.size.Add(int64(grown))
	return true
}

func (s *memoryShard) find(key []byte) *stored {
	if r := s.byHash[s.hash(key)]; r != nil && bytes.Equal(r.key(), key) {
		return r
	}
	return s.others[string(key)]
}

func (s *memoryShard) insert(r *stored) {
	hash := s.hash(r.key())
	if s.byHash[hash] == nil {
		s.byHash[hash] = r
	} else {
		s.others[string(r.key())] = r
	}
	s.order.ReplaceOrInsert(r)
}

func (s *memoryShard) remove(r *stored) {
	if hash := s.hash(r.key()); s.byHash[hash] == r {
		delete(s.byHash, hash)
	} else {
		delete(s.others, string(r.key()))
	}
	s.order.Delete(r)
}

func (m *memory) bytes() uint64 { return uint64(m.size.Load()) }

func (m *memory) setBoot(uint32) {}

func (m *memory) number() uint64 { return 0 }

func (m *memory) close() error { return nil }

// Get implements protocol.Reader.
func (s *memoryShard) Get(key []byte) ([]byte, bool) {
	if r := s.find(key); r != nil {
		return r.value(), true
	}
	return nil, false
}

// Scan implements protocol.Reader.
func (s *memoryShard) Scan(after []byte, visit func(key, value []byte) bool) {
	s.order.AscendGreaterOrEqual(newStored(after, nil), func(r *stored) bool {
		return after != nil && bytes.Equal(r.key(), after) || visit(bytes.Clone(r.key()), r.value())
	})
}
