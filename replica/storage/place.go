package storage

import (
	"bytes"
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// places is memory in which each name has one place, with its records of all kinds. What refers to a place has its
// number, which takes half of what a pointer does, and which no collection of garbage looks at.
type places struct {
	blocks [][][]byte // what is in the places, blockPlaces to a block
	taken  uint32     // numbers so far
	free   []uint32   // those that are not used any more
}

const (
	// blockPlaces is how many places are added at once.
	blockPlaces = 256
	// apartBytes bounds a value that lies with those of other kinds: to write one of them copies them all.
	apartBytes = 256
)

// A place holds a name and parts, one for each kind, in one piece. Another value is another piece, since who reads a
// value may keep it. The name is behind its length. A part is its kind, its length and one more, and the value; or, if
// the value is large and not the only one, its kind, a zero, and the number of another place, which holds that alone.

// part is a record at a place.
type part struct {
	kind  byte
	value []byte
	apart uint32 // the place of the value; 0: it lies at that of the name
}

func (p *places) at(place uint32) *[]byte { return &p.blocks[place/blockPlaces][place%blockPlaces] }

// take returns a place that is free, from 1.
func (p *places) take(data []byte) (place uint32) {
	if last := len(p.free) - 1; last >= 0 {
		place, p.free = p.free[last], p.free[:last]
	} else {
		p.taken++
		place = p.taken
		if int(place/blockPlaces) == len(p.blocks) {
			p.blocks = append(p.blocks, make([][]byte, blockPlaces))
		}
	}
	*p.at(place) = data
	return place
}

func (p *places) leave(place uint32) {
	*p.at(place) = nil
	p.free = append(p.free, place)
}

// name is that of a place.
func (p *places) name(place uint32) []byte {
	name, _ := cutName(*p.at(place))
	return name
}

func cutName(data []byte) (name, parts []byte) {
	length, n := binary.Uvarint(data)
	end := n + int(length)
	return data[n:end:end], data[end:]
}

// cutPart reads the first of the parts; there is one.
func (p *places) cutPart(parts []byte) (first part, rest []byte) {
	first.kind = parts[0]
	length, n := binary.Uvarint(parts[1:])
	parts = parts[1+n:]
	if length == 0 {
		first.apart = binary.LittleEndian.Uint32(parts)
		value := *p.at(first.apart)
		first.value = value[:len(value):len(value)]
		return first, parts[4:]
	}
	length--
	first.value = parts[:length:length]
	return first, parts[length:]
}

// get finds the record of a kind at a place. Its value is never nil, and has no room to append to.
func (p *places) get(place uint32, kind byte) (value []byte, found bool) {
	_, parts := cutName(*p.at(place))
	for len(parts) > 0 {
		var first part
		if first, parts = p.cutPart(parts); first.kind == kind {
			return first.value, true
		}
	}
	return nil, false
}

// parts adds the records of a place to a list.
func (p *places) parts(place uint32, list []part) []part {
	_, parts := cutName(*p.at(place))
	for len(parts) > 0 {
		var first part
		first, parts = p.cutPart(parts)
		list = append(list, first)
	}
	return list
}

// put makes a piece of a name and its records, which it copies, and takes and leaves the places of values apart.
func (p *places) put(place uint32, name []byte, parts []part) {
	size := protowire.SizeVarint(uint64(len(name))) + len(name)
	for i := range parts {
		q := &parts[i]
		isLarge := len(parts) > 1 && len(q.value) > apartBytes
		switch {
		case isLarge && q.apart == 0:
			q.apart = p.take(bytes.Clone(q.value))
		case !isLarge && q.apart != 0:
			p.leave(q.apart)
			q.apart = 0
		}
		if q.apart != 0 {
			size += 1 + 1 + 4
		} else {
			size += 1 + protowire.SizeVarint(uint64(len(q.value))+1) + len(q.value)
		}
	}
	data := binary.AppendUvarint(make([]byte, 0, size), uint64(len(name)))
	data = append(data, name...)
	for _, q := range parts {
		data = append(data, q.kind)
		if q.apart != 0 {
			data = binary.LittleEndian.AppendUint32(append(data, 0), q.apart)
		} else {
			data = append(binary.AppendUvarint(data, uint64(len(q.value))+1), q.value...)
		}
	}
	*p.at(place) = data
}
