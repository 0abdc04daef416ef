package compose

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Bounds of contexts and of what is in them.
const (
	MaxContextBytes = 64 << 10 // a context
	MaxPastBytes    = 4 << 10  // what one service wants to be known; it is fenced rather than carry more
	MaxNameBytes    = 128      // a service's name
	MaxServices     = 64       // services of a process
)

// contextVersion is the first byte of a context. Its meaning never changes; a later layout has another one.
const contextVersion = 1

// maxCountBytes bounds the count of entries as it is written.
const maxCountBytes = binary.MaxVarintLen16

// entry is one service in a context.
type entry struct {
	name string
	past []byte
}

// size bounds what an entry takes in a context.
func (e entry) size() int { return 2*binary.MaxVarintLen32 + len(e.name) + len(e.past) }

// encode writes a context: the version, the number of services, and for each, in the order of their names, its name and
// its past. Numbers and lengths are unsigned varints.
func encode(entries []entry) []byte {
	b := binary.AppendUvarint([]byte{contextVersion}, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(len(e.name)))
		b = append(b, e.name...)
		b = binary.AppendUvarint(b, uint64(len(e.past)))
		b = append(b, e.past...)
	}
	return b
}

// decode reads what encode writes, and nothing else. The bytes are not to be trusted.
func decode(b []byte) ([]entry, error) {
	if len(b) > MaxContextBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are allowed", ErrContext, len(b), MaxContextBytes)
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty; even one that says nothing has two bytes", ErrContext)
	}
	if b[0] != contextVersion {
		return nil, fmt.Errorf("%w of version %d: its version is %d; use the same release in all processes", ErrContext,
			contextVersion, b[0])
	}
	rest := b[1:]
	count, ok := cutNumber(&rest, MaxServices)
	if !ok {
		return nil, fmt.Errorf("%w: the number of services is cut off or over %d", ErrContext, MaxServices)
	}
	var entries []entry
	for i := range count {
		var e entry
		name, ok := cutBytes(&rest, MaxNameBytes)
		if !ok || len(name) == 0 {
			return nil, fmt.Errorf("%w: the name of service %d is empty, cut off, or over %d bytes",
				ErrContext, i, MaxNameBytes)
		}
		if e.name = string(name); i > 0 && e.name <= entries[i-1].name {
			return nil, fmt.Errorf("%w: service %d is not in the order of names", ErrContext, i)
		}
		if e.past, ok = cutBytes(&rest, MaxPastBytes); !ok {
			return nil, fmt.Errorf("%w: the past of service %q is cut off, or over %d bytes", ErrContext,
				e.name, MaxPastBytes)
		}
		entries = append(entries, e)
	}
	// What can be written in two ways, such as a number, is accepted in one.
	if !bytes.Equal(encode(entries), b) {
		return nil, fmt.Errorf("%w: it has bytes that no export writes", ErrContext)
	}
	return entries, nil
}

func cutNumber(rest *[]byte, most uint64) (int, bool) {
	number, size := binary.Uvarint(*rest)
	if size <= 0 || number > most {
		return 0, false
	}
	*rest = (*rest)[size:]
	return int(number), true
}

func cutBytes(rest *[]byte, most uint64) ([]byte, bool) {
	size, ok := cutNumber(rest, most)
	if !ok || size > len(*rest) {
		return nil, false
	}
	cut := bytes.Clone((*rest)[:size])
	*rest = (*rest)[size:]
	return cut, true
}
