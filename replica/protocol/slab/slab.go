// Package slab makes many small things with few allocations: it takes memory in blocks and hands out pieces.
// A piece is handed out once and belongs to its receiver; a block is freed when none of its pieces is in use.
// So slabs are for what lives about equally long, such as messages and the keys of a batch, and not for what
// is stored: one record would keep a block.
//
// The zero value of each type is ready, and belongs to one goroutine.
package slab

import "strings"

const (
	blockItems = 32
	blockBytes = 2 << 10
)

// Of makes values of one type.
type Of[T any] struct {
	rest []T `digest:"-"`
}

// New returns a zero T.
func (s *Of[T]) New() *T {
	if len(s.rest) == 0 {
		s.rest = make([]T, blockItems)
	}
	piece := &s.rest[0]
	s.rest = s.rest[1:]
	return piece
}

// Bytes makes byte slices.
type Bytes struct {
	rest []byte `digest:"-"`
}

// Make returns n zero bytes, with no capacity beyond.
func (s *Bytes) Make(n int) []byte {
	if n > blockBytes/4 {
		return make([]byte, n) // at most a quarter of a block is left over
	}
	if len(s.rest) < n {
		s.rest = make([]byte, blockBytes)
	}
	piece := s.rest[:n:n]
	s.rest = s.rest[n:]
	return piece
}

// Strings makes strings.
type Strings struct {
	block strings.Builder `digest:"-"`
}

// Of returns b as a string.
func (s *Strings) Of(b []byte) string {
	if len(b) > blockBytes/4 {
		return string(b)
	}
	if s.block.Cap()-s.block.Len() < len(b) {
		s.block.Reset()
		s.block.Grow(blockBytes)
	}
	s.block.Write(b)
	all := s.block.String()
	return all[len(all)-len(b):]
}

// List collects values until they are taken.
type List[T any] struct{ items []T }

// Add appends a value.
func (l *List[T]) Add(v T) {
	if len(l.items) == cap(l.items) {
		l.items = append(make([]T, 0, max(blockItems, 2*len(l.items))), l.items...)
	}
	l.items = append(l.items, v)
}

// Len is the number of values that Take would return.
func (l *List[T]) Len() int { return len(l.items) }

// Take returns what was added since the last Take, with no capacity beyond; nil if nothing was.
func (l *List[T]) Take() []T {
	n := len(l.items)
	if n == 0 {
		return nil
	}
	taken := l.items[:n:n]
	l.items = l.items[n:]
	return taken
}

// Keys makes keys of operations, and of a journal: a byte that says of what, and what it is about.
type Keys struct {
	Bytes
	scratch []byte `digest:"-"`
}

// Of is an operation's key.
func (s *Keys) Of(key string) []byte {
	b := s.Make(len(key))
	copy(b, key)
	return b
}

// Record is for Put, whose journal keeps it.
func (s *Keys) Record(kind byte, about []byte) []byte {
	b := s.Make(1 + len(about))
	b[0] = kind
	copy(b[1:], about)
	return b
}

// Lookup is Record for asking the journal, in memory that the next Lookup uses again.
func (s *Keys) Lookup(kind byte, about []byte) []byte {
	s.scratch = append(append(s.scratch[:0], kind), about...)
	return s.scratch
}
