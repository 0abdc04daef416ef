// Package machine is what a simulated process runs on: a disk that has what was synced and no more, its log, and a clock.
package machine

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
)

// Disk is what a shard of a node has made durable. It implements protocol.Reader.
type Disk struct {
	Records map[string][]byte
	sorted  []string // the keys in order, valid while in step with records
	Stale   bool
}

func NewDisk() *Disk { return &Disk{Records: map[string][]byte{}} }

// Get implements protocol.Reader.
func (d *Disk) Get(key []byte) ([]byte, bool) {
	value, ok := d.Records[string(key)]
	return value, ok
}

// Scan implements protocol.Reader.
func (d *Disk) Scan(after []byte, visit func(key, value []byte) bool) {
	if d.Stale {
		d.sorted = d.sorted[:0]
		for key := range d.Records { // sorted below
			d.sorted = append(d.sorted, key)
		}
		slices.Sort(d.sorted)
		d.Stale = false
	}
	// A copy: the visit may lead to a step that changes the disk's order.
	keys := d.sorted
	from, found := slices.BinarySearch(keys, string(after))
	if found {
		from++
	}
	for _, key := range keys[from:] {
		if !visit([]byte(key), d.Records[key]) {
			return
		}
	}
}

func (d *Disk) Apply(b protocol.Batch) {
	for _, m := range b.Mutations {
		_, known := d.Records[string(m.Key)]
		if m.Value == nil {
			delete(d.Records, string(m.Key))
			d.Stale = d.Stale || known
			continue
		}
		d.Records[string(m.Key)] = m.Value
		d.Stale = d.Stale || !known
	}
}

// Entry is a batch in a node's log, and what leaves once the log is durable up to it.
type Entry struct {
	Shard    int
	Batch    protocol.Batch
	Send     []protocol.Envelope
	Complete []protocol.Completion
}

// Log is a node's write-ahead log, shared by its shards: entries wait while an fsync is in flight, and what
// gathered meanwhile becomes durable with the next one, as in group commit.
type Log struct {
	Entries []Entry
	Syncing int // how many entries, from the first, the fsync in flight covers; 0: none is in flight
}

// Crash tears the log: of the entries that an fsync was writing, the first intact ones are on disk, the next is
// torn, found by its checksum at restart and dropped whole, and the others were never written.
func (l *Log) Crash(intact int) []Entry {
	kept := l.Entries[:min(intact, l.Syncing)]
	*l = Log{}
	return kept
}
