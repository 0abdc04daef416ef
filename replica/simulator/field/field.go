// Package field reads single fields of encoded messages. What checks hold records and messages against is read at each
// step of a run, and most of what these hold is of no interest there.
package field

import "google.golang.org/protobuf/encoding/protowire"

// Visit visits the fields of an encoded message: numbers, and parts that are bytes or messages themselves.
func Visit(raw []byte, visit func(field int, n uint64, part []byte)) error {
	for len(raw) > 0 {
		field, n, part, size := next(raw)
		if size < 0 {
			return protowire.ParseError(size)
		}
		visit(field, n, part)
		raw = raw[size:]
	}
	return nil
}

// Incarnation is which disk of the member at a position of the view a vector of incarnations has: the first, where the
// vector is left out.
func Incarnation(vector []uint32, position int) uint32 {
	if position >= 0 && position < len(vector) {
		return vector[position]
	}
	return 1
}

// next is the first field of an encoded message, and its size; one that is less than 0 is an error.
func next(raw []byte) (field int, n uint64, part []byte, size int) {
	tag, head := protowire.ConsumeVarint(raw)
	if head < 0 {
		return 0, 0, nil, head
	}
	number, kind := protowire.DecodeTag(tag)
	switch rest := raw[head:]; kind {
	case protowire.VarintType:
		n, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		n, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		part, size = protowire.ConsumeBytes(rest)
	default:
		size = protowire.ConsumeFieldValue(number, kind, rest)
	}
	if size < 0 {
		return 0, 0, nil, size
	}
	return int(number), n, part, head + size
}

// find is the first field of that number, a number or a part; neither if it is left out. Fields are in ascending order.
func find(raw []byte, wanted int) (n uint64, part []byte) {
	for len(raw) > 0 {
		field, n, part, size := next(raw)
		switch {
		case size < 0 || field > wanted:
			return 0, nil
		case field == wanted:
			return n, part
		}
		raw = raw[size:]
	}
	return 0, nil
}

// Number is a field that is a number; 0 if it is left out.
func Number(raw []byte, field int) uint64 {
	n, _ := find(raw, field)
	return n
}

// Part is a field that is bytes or a message; nil if it is left out.
func Part(raw []byte, field int) []byte {
	_, part := find(raw, field)
	return part
}
