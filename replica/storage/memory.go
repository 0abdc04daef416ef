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

// memoryShard has its records in places, which have numbers. What finds a record, by the hash of its key and by the order
// of the keys, refers to the place by its number, which takes half of what a pointer does, and which no collection of
// garbage looks at. The hash has no more bits than that, since a map pads its entries: of a million keys about a hundred
// share one with another key.
type memoryShard struct {
	hash   func(key []byte) uint32
	byHash map[uint32]uint32 // the place of a record, by the hash of its key
	others map[string]uint32 // of those whose hash another record has, by key
	order  *btree.BTreeG[uint32]
	blocks [][]stored
	places uint32   // how many the blocks have
	free   []uint32 // places of records that were deleted
}

// blockPlaces is how many places are added at once.
const blockPlaces = 256

// stored is a record, in one piece: the length of its key, the key, and the value. Another value is another piece,
// since who reads a value may keep it.
type stored struct{ data []byte }

func (s *stored) set(key, value []byte) {
	var length [binary.MaxVarintLen64]byte
	head := binary.PutUvarint(length[:], uint64(len(key)))
	data := make([]byte, 0, head+len(key)+len(value))
	s.data = append(append(append(data, length[:head]...), key...), value...)
}

// key and value are pieces that nobody changes, and have no room to append to.
func (s *stored) key() []byte {
	length, head := binary.Uvarint(s.data)
	return s.data[head : head+int(length) : head+int(length)]
}

// value is never nil.
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
		s := &memoryShard{
			hash:   func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) },
			byHash: map[uint32]uint32{}, others: map[string]uint32{},
		}
		s.order = btree.NewG(32, func(a, b uint32) bool { return bytes.Compare(s.at(a).key(), s.at(b).key()) < 0 })
		m.shards = append(m.shards, s)
	}
}

func (m *memory) shard(i int) protocol.Reader { return m.shards[i] }

func (m *memory) commit(shard int, batch protocol.Batch, _ func(uint64)) bool {
	s := m.shards[shard]
	grown := 0
	for _, u := range batch.Mutations {
		place, found := s.find(u.Key)
		if found {
			grown -= len(u.Key) + len(s.at(place).value())
		}
		switch {
		case u.Value != nil && found:
			s.at(place).set(u.Key, u.Value)
		case u.Value != nil:
			s.insert(u.Key, u.Value)
		case found:
			s.remove(u.Key, place)
		}
		if u.Value != nil {
			grown += len(u.Key) + len(u.Value)
		}
	}
	m.size.Add(int64(grown))
	return true
}

func (s *memoryShard) at(place uint32) *stored {
	return &s.blocks[place/blockPlaces][place%blockPlaces]
}

// take puts a record into a place that is free.
func (s *memoryShard) take(key, value []byte) (place uint32) {
	if last := len(s.free) - 1; last >= 0 {
		place, s.free = s.free[last], s.free[:last]
	} else {
		if s.places%blockPlaces == 0 {
			s.blocks = append(s.blocks, make([]stored, blockPlaces))
		}
		place = s.places
		s.places++
	}
	s.at(place).set(key, value)
	return place
}

func (s *memoryShard) leave(place uint32) {
	*s.at(place) = stored{}
	s.free = append(s.free, place)
}

func (s *memoryShard) find(key []byte) (place uint32, found bool) {
	if place, found := s.byHash[s.hash(key)]; found && bytes.Equal(s.at(place).key(), key) {
		return place, true
	}
	place, found = s.others[string(key)]
	return place, found
}

func (s *memoryShard) insert(key, value []byte) {
	place, hash := s.take(key, value), s.hash(key)
	if _, taken := s.byHash[hash]; !taken {
		s.byHash[hash] = place
	} else {
		s.others[string(key)] = place
	}
	s.order.ReplaceOrInsert(place)
}

func (s *memoryShard) remove(key []byte, place uint32) {
	s.order.Delete(place)
	hash := s.hash(key)
	if at, found := s.byHash[hash]; found && at == place {
		delete(s.byHash, hash)
	} else {
		delete(s.others, string(key))
	}
	s.leave(place)
}

func (m *memory) bytes() uint64 { return uint64(m.size.Load()) }

func (m *memory) setBoot(uint32) {}

func (m *memory) number() uint64 { return 0 }

func (m *memory) close() error { return nil }

// Get implements protocol.Reader.
func (s *memoryShard) Get(key []byte) ([]byte, bool) {
	if place, found := s.find(key); found {
		return s.at(place).value(), true
	}
	return nil, false
}

// Scan implements protocol.Reader.
func (s *memoryShard) Scan(after []byte, visit func(key, value []byte) bool) {
	from := s.take(after, nil) // the order compares places
	defer s.leave(from)
	s.order.AscendGreaterOrEqual(from, func(place uint32) bool {
		r := s.at(place)
		return after != nil && bytes.Equal(r.key(), after) || visit(r.key(), r.value())
	})
}
