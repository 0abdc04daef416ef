package instance

import "encoding/binary"

// An instance lives for a few milliseconds, and was written to the database twice: its record, and its deletion. So the
// records of instances lie in slots, which are numbered and used again. A slot is free once its instance is executed;
// the record that is left in it says nothing any more, since the state of its key, which was written before, has the
// instance. Nobody needs to delete it.

const (
	slotKeyBytes = 1 + 4
	// What is left in free slots is bounded: those with a higher number are deleted, and what has more bytes is replaced
	// by an empty record.
	keptSlots = 1 << 10
	keptBytes = 4 << 10
)

// slots are the places of the records of instances in the journal.
type slots struct {
	free [][]byte // their keys; the one that was used last is taken first, so that few are in use
	made uint32   // how many there are, in use and free
}

// take returns the key of a free slot.
func (s *slots) take() []byte {
	if n := len(s.free); n > 0 {
		key := s.free[n-1]
		s.free = s.free[:n-1]
		return key
	}
	s.made++
	return slotKey(s.made)
}

// found notes a slot on disk, in the order of their keys. Those between it and the one before were deleted.
func (s *slots) found(key []byte) {
	for n := slotNumber(key); s.made+1 < n; {
		s.made++
		s.free = append(s.free, slotKey(s.made))
	}
	s.made++
}

func slotKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{instanceRecord}, number)
}

func slotNumber(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:]) }
