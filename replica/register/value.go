package register

import (
	"bytes"
	"errors"
	"fmt"
)

// Value is what a register holds. A nil Value is absent; an empty, non-nil one is an empty string.
// Values are immutable once they are handed over.
type Value []byte

// ValueOf is a value as messages and records have it: encoded, an empty one and an absent one differ by present alone.
// The bytes are shared.
func ValueOf(present bool, b []byte) Value {
	switch {
	case !present:
		return nil
	case b == nil:
		return Value{}
	}
	return b
}

// Present reports whether there is a value.
func (v Value) Present() bool { return v != nil }

// Equal reports whether both are absent, or both present with the same bytes.
func (v Value) Equal(w Value) bool { return (v == nil) == (w == nil) && bytes.Equal(v, w) }

// Versioned is a value and the carstamp it was written with. They travel and are stored together:
// a value is never looked up again by its carstamp alone.
type Versioned struct {
	Carstamp Carstamp
	Value    Value
}

// Limits bound what a client may store.
type Limits struct {
	KeyBytes   int // longest key, in bytes
	ValueBytes int // largest value, in bytes
}

// LeastClientMemory is the least bound on what all clients of a member may make it hold at a time, in bytes: it has
// room for several commands with the largest values.
func (l Limits) LeastClientMemory() int64 { return max(64<<20, 16*int64(l.ValueBytes)) }

// DefaultLimits are 4 KiB for a key and 1 MiB for a value.
func DefaultLimits() Limits { return Limits{KeyBytes: 4 << 10, ValueBytes: 1 << 20} }

// ErrTooLarge is what CheckKey and CheckValue wrap.
var ErrTooLarge = errors.New("too large")

// CheckKey refuses a key that is empty or longer than the limit.
func (l Limits) CheckKey(key string) error {
	if key == "" {
		return errors.New("the key is empty; give at least one byte")
	}
	if len(key) > l.KeyBytes {
		return fmt.Errorf("key of %d bytes is %w: the limit is %d bytes", len(key), ErrTooLarge, l.KeyBytes)
	}
	return nil
}

// CheckArguments refuses arguments that are together larger than the limit of a value.
func (l Limits) CheckArguments(arguments [][]byte) error {
	size := 0
	for _, argument := range arguments {
		size += len(argument)
	}
	if err := l.CheckValue(size); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// CheckValue refuses a value larger than the limit.
func (l Limits) CheckValue(bytes int) error {
	if bytes > l.ValueBytes {
		return fmt.Errorf("value of %d bytes is %w: the limit is %d bytes", bytes, ErrTooLarge, l.ValueBytes)
	}
	return nil
}
