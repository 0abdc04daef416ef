package storage

import (
	"bytes"
	"slices"

	"github.com/google/btree"
)

// memoryShard is the records of a shard in memory. The first byte of a record's key, which has one, is its kind, as
// protocols have it, and the rest its name. Records of one name, which are about one register as a rule, share a place:
// a protocol that has two for each register pays once for finding it. The hash has no more bits than the number of a
// place, since a map pads its entries: of a million names about a hundred share one with another name.
type memoryShard struct {
	places
	hash   func(name []byte) uint32
	byHash map[uint32]uint32          // the place of a name, by its hash
	others map[string]uint32          // of those whose hash another one has, by name
	orders [256]*btree.BTreeG[uint32] // the places that have a kind, by name; nil: none had it
}

func newMemoryShard(hash func(name []byte) uint32) *memoryShard {
	return &memoryShard{hash: hash, byHash: map[uint32]uint32{}, others: map[string]uint32{}}
}

// find returns the place of a name, or 0.
func (s *memoryShard) find(name []byte) (place uint32) {
	if place = s.byHash[s.hash(name)]; place != 0 && bytes.Equal(s.name(place), name) {
		return place
	}
	return s.others[string(name)]
}

// set has a key's record be a value, which it copies, or none if that is nil, and returns by how many bytes the records
// grew.
func (s *memoryShard) set(key, value []byte) (grown int) {
	kind, name := key[0], key[1:]
	place := s.find(name)
	var room [4]part
	parts := room[:0]
	if place != 0 {
		parts = s.parts(place, parts)
	}
	i := slices.IndexFunc(parts, func(p part) bool { return p.kind == kind })
	if i >= 0 {
		grown -= len(key) + len(parts[i].value)
	}
	if value != nil {
		grown += len(key) + len(value)
	}
	switch {
	case value == nil && i < 0:
	case value == nil:
		s.remove(place, name, parts, i)
	case i < 0:
		s.insert(place, name, append(parts, part{kind: kind, value: value}))
	case parts[i].apart != 0 && len(value) > apartBytes:
		*s.at(parts[i].apart) = bytes.Clone(value)
	default:
		parts[i].value = value
		s.put(place, name, parts)
	}
	return grown
}

// insert adds the last one of the records of a name, whose place is 0 if that is the only one.
func (s *memoryShard) insert(place uint32, name []byte, parts []part) {
	if place == 0 {
		place = s.take(nil)
		if hash := s.hash(name); s.byHash[hash] == 0 {
			s.byHash[hash] = place
		} else {
			s.others[string(name)] = place
		}
	}
	s.put(place, name, parts)
	kind := parts[len(parts)-1].kind
	if s.orders[kind] == nil {
		s.orders[kind] = btree.NewG(32, func(a, b uint32) bool { return bytes.Compare(s.name(a), s.name(b)) < 0 })
	}
	s.orders[kind].ReplaceOrInsert(place)
}

// remove takes out one of the records of a name.
func (s *memoryShard) remove(place uint32, name []byte, parts []part, i int) {
	s.orders[parts[i].kind].Delete(place)
	if parts[i].apart != 0 {
		s.leave(parts[i].apart)
	}
	if len(parts) > 1 {
		s.put(place, name, slices.Delete(parts, i, i+1))
		return
	}
	if hash := s.hash(name); s.byHash[hash] == place {
		delete(s.byHash, hash)
	} else {
		delete(s.others, string(name))
	}
	s.leave(place)
}

// Get implements protocol.Reader.
func (s *memoryShard) Get(key []byte) ([]byte, bool) {
	if place := s.find(key[1:]); place != 0 {
		return s.get(place, key[0])
	}
	return nil, false
}

// Scan implements protocol.Reader.
func (s *memoryShard) Scan(after []byte, visit func(key, value []byte) bool) {
	var first byte
	var behind []byte
	if len(after) > 0 {
		first, behind = after[0], after[1:]
	}
	from := s.take(nil) // the order compares places
	defer s.leave(from)
	s.put(from, behind, nil)
	more := true
	var key []byte
	for kind := int(first); kind < len(s.orders) && more; kind++ {
		order := s.orders[kind]
		if order == nil {
			continue
		}
		each := func(place uint32) bool {
			key = append(append(key[:0], byte(kind)), s.name(place)...)
			if bytes.Equal(key, after) {
				return true
			}
			value, _ := s.get(place, byte(kind))
			more = visit(key, value)
			return more
		}
		if kind == int(first) {
			order.AscendGreaterOrEqual(from, each)
		} else {
			order.Ascend(each)
		}
	}
}
