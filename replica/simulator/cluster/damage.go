package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/machine"
)

// garbage is what no record is: a tag that no message of protobuf has.
var garbage = bytes.Repeat([]byte{0xff}, 12)

// damaged is a disk with one record that is damaged.
type damaged struct {
	*machine.Disk
	record  string
	started bool // the process has
	used    bool // the record is
}

// Get implements protocol.Reader.
func (d *damaged) Get(key []byte) ([]byte, bool) {
	if string(key) == d.record {
		d.used = true
		return garbage, true
	}
	return d.Disk.Get(key)
}

// Scan implements protocol.Reader. A process that starts uses the records of a kind that it lists (Journal.Kind); else
// records are listed for their keys, or to be copied by others, who refuse what they can't read.
func (d *damaged) Scan(after []byte, visit func(key, value []byte) bool) {
	d.Disk.Scan(after, func(key, value []byte) bool {
		if string(key) == d.record {
			value = garbage
			d.used = d.used || !d.started && len(after) == 1 && key[0] == after[0] && !ofSession(key)
		}
		return visit(key, value)
	})
}

// holdDamage holds it that a process which is about to start would not go on if a record was damaged that it uses: at
// its start, at its first tick, or for a read. Which record it is comes from a stream of its own, and nothing of it
// lasts.
func (nd *Node) holdDamage(shard int, start Start) {
	w, disk := nd.World, nd.Shards[shard].Disk
	if !w.Environment.Sealed || len(disk.Records) == 0 {
		return
	}
	draw := w.Draws(kernel.ForDamage, uint64(nd.Boots)<<16|uint64(nd.Index)<<8|uint64(shard))
	records := slices.Sorted(maps.Keys(disk.Records))
	d := &damaged{Disk: disk, record: records[draw.Below(len(records))]}
	if d.record[0] == fragmentData {
		return
	}
	config := nd.Config
	config.Count = nil
	if goesOn(d, config, start, nd.Clock.Read(w.Now)) && d.used {
		w.Breaches(fmt.Errorf("member %d goes on if record %q of its disk is damaged, which it uses",
			nd.Index+1, d.record))
	}
}

// fragmentData is the first byte of the keys of what is stored of large values: it is made anew from others' where it
// is found damaged.
const fragmentData = 'y'

// ofSession reports whether a record is of a session of a partition. Those of answers are listed for their names, and
// the log may have a newer one of either.
func ofSession(key []byte) bool { return key[0] == 'd' || key[0] == 's' }

// goesOn reports whether a process that starts on a disk, is told the time, and is asked for a key has no fault.
func goesOn(d *damaged, config protocol.Config, start Start, now protocol.Instant) bool {
	p, err := start(config, protocol.NewJournal(d))
	d.started = true
	if err != nil {
		return false
	}
	p.Tick(now)
	if p.Ready().Fault != nil {
		return false
	}
	key := d.record[1:] // if it is the record of a register
	p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: key}})
	return p.Ready().Fault == nil
}
