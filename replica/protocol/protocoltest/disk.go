// Package protocoltest has what tests of protocols share: a disk in memory, and three members without a world.
package protocoltest

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
)

// Disk holds what is durable.
type Disk map[string][]byte

// Get implements protocol.Reader.
func (d Disk) Get(key []byte) ([]byte, bool) {
	value, ok := d[string(key)]
	return value, ok
}

// Scan implements protocol.Reader.
func (d Disk) Scan(after []byte, visit func(key, value []byte) bool) {
	keys := make([]string, 0, len(d))
	for key := range d { // sorted below
		if key > string(after) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !visit([]byte(key), d[key]) {
			return
		}
	}
}

// Write makes a batch durable.
func (d Disk) Write(b protocol.Batch) {
	for _, m := range b.Mutations {
		if m.Value == nil {
			delete(d, string(m.Key))
		} else {
			d[string(m.Key)] = m.Value
		}
	}
}
