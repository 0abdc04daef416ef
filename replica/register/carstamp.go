// Package register is the vocabulary of the store: keys, values, carstamps, operations, results and the
// read-modify-write functions. It depends on nothing else of the project.
package register

import (
	"cmp"
	"errors"
	"fmt"
)

// Writer names who issued a carstamp: a member, the incarnation of its disk and the start of its process.
// A writer that lost what it had in memory is a new writer, so no (timestamp, writer) is ever issued twice.
// Layout, most significant first: 16 bits member, 16 bits incarnation, 32 bits boot.
type Writer uint64

// NewWriter packs the three parts. Member and incarnation are bounded by view.MaxMemberID and 65535.
func NewWriter(member uint32, incarnation uint32, boot uint32) Writer {
	return Writer(uint64(member&0xffff)<<48 | uint64(incarnation&0xffff)<<32 | uint64(boot))
}

// Member is the number of the member that wrote.
func (w Writer) Member() uint32 { return uint32(w >> 48) }

// Incarnation is the incarnation of the member's disk.
func (w Writer) Incarnation() uint32 { return uint32(w>>32) & 0xffff }

// Boot counts the starts of the member's process on that disk.
func (w Writer) Boot() uint32 { return uint32(w) }

// String renders member.incarnation.boot.
func (w Writer) String() string {
	return fmt.Sprintf("%d.%d.%d", w.Member(), w.Incarnation(), w.Boot())
}

// Carstamp is a consensus-after-register timestamp (Gryff, section 3.2): writes are ordered by
// (Timestamp, Writer), an unstable order; an rmw takes its base update's carstamp with RMWs one higher,
// so that no write can come between them. The zero carstamp is the initial, absent value.
type Carstamp struct {
	Timestamp uint64
	Writer    Writer
	RMWs      uint64
}

// Compare orders carstamps lexicographically by (Timestamp, Writer, RMWs).
func (c Carstamp) Compare(d Carstamp) int {
	return cmp.Or(cmp.Compare(c.Timestamp, d.Timestamp), cmp.Compare(c.Writer, d.Writer), cmp.Compare(c.RMWs, d.RMWs))
}

// MaxNumber bounds everything that members count up and tell each other: timestamps, ballots, rounds, terms, instances,
// entries of a log. What is counted comes to it in no lifetime (a million a second take two thousand years), and no sum
// of it overflows. Whoever tells of a larger number is broken or lies, and is not believed.
const MaxNumber = 1 << 56

// ErrNumber is what an error wraps if a number is above its bound.
var ErrNumber = errors.New("a number is above its bound")

// Check reports a carstamp that no write can have. The error wraps ErrNumber.
func (c Carstamp) Check() error {
	if c.Timestamp > MaxNumber || c.RMWs > MaxNumber {
		return fmt.Errorf("carstamp %v: %w", c, ErrNumber)
	}
	return nil
}

// Exhausted tells a client why a write of its key can't get a timestamp.
const Exhausted = "a member or a disk has told of a write with the largest timestamp there can be, which nobody can " +
	"have counted up to: no write of " +
	"this key can follow it"

// Less reports whether c comes before d.
func (c Carstamp) Less(d Carstamp) bool { return c.Compare(d) < 0 }

// Next is the carstamp of an rmw whose base update has carstamp c (Gryff, algorithm 4, line 18).
func (c Carstamp) Next() Carstamp {
	return Carstamp{Timestamp: c.Timestamp, Writer: c.Writer, RMWs: c.RMWs + 1}
}

// IsZero reports whether c is the carstamp of the initial value.
func (c Carstamp) IsZero() bool { return c == Carstamp{} }

// String renders timestamp/writer/rmws.
func (c Carstamp) String() string {
	return fmt.Sprintf("%d/%s/%d", c.Timestamp, c.Writer, c.RMWs)
}
