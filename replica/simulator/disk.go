package simulator

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
)

// disk is what a shard of a node has made durable. It implements protocol.Reader.
type disk struct {
	records map[string][]byte
	sorted  []string // the keys in order, valid while in step with records
	stale   bool
}

func newDisk() *disk { return &disk{records: map[string][]byte{}} }

// Get implements protocol.Reader.
func (d *disk) Get(key []byte) ([]byte, bool) {
	value, ok := d.records[string(key)]
	return value, ok
}

// Scan implements protocol.Reader.
func (d *disk) Scan(after []byte, visit func(key, value []byte) bool) {
	if d.stale {
		d.sorted = d.sorted[:0]
		for key := range d.records { // sorted below
			d.sorted = append(d.sorted, key)
		}
		slices.Sort(d.sorted)
		d.stale = false
	}
	// A copy: the visit may lead to a step that changes the disk's order.
	keys := d.sorted
	from, found := slices.BinarySearch(keys, string(after))
	if found {
		from++
	}
	for _, key := range keys[from:] {
		if !visit([]byte(key), d.records[key]) {
			return
		}
	}
}

func (d *disk) apply(b protocol.Batch) {
	for _, m := range b.Mutations {
		_, known := d.records[string(m.Key)]
		if m.Value == nil {
			delete(d.records, string(m.Key))
			d.stale = d.stale || known
			continue
		}
		d.records[string(m.Key)] = m.Value
		d.stale = d.stale || !known
	}
}

// entry is a batch in a node's log, and what leaves once the log is durable up to it.
type entry struct {
	shard    int
	batch    protocol.Batch
	send     []protocol.Envelope
	complete []protocol.Completion
}

// log is a node's write-ahead log, shared by its shards: entries wait while an fsync is in flight, and what
// gathered meanwhile becomes durable with the next one, as in group commit.
type log struct {
	entries []entry
	syncing int // how many entries, from the first, the fsync in flight covers; 0: none is in flight
}

// crash tears the log: of the entries that an fsync was writing, the first intact ones are on disk, the next is
// torn, found by its checksum at restart and dropped whole, and the others were never written.
func (l *log) crash(intact int) []entry {
	kept := l.entries[:min(intact, l.syncing)]
	*l = log{}
	return kept
}
