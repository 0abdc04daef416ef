package cluster

import (
	"errors"
	"math"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/machine"
)

func (nd *Node) flushAll() {
	if nd.Witness != nil {
		nd.Witness.flush()
	}
	if nd.Acts {
		for i := range nd.Running() {
			nd.flush(i)
		}
	}
}

// flush does what a shard's protocol asks for.
func (nd *Node) flush(index int) {
	w, s := nd.World, nd.Shards[index]
	if nd.Down {
		return // it has lost its disk
	}
	e := s.Protocol.Ready()
	if why := (*protocol.Forgotten)(nil); errors.As(e.Fault, &why) {
		nd.forgot(s, why)
		return
	}
	if e.Fault != nil {
		w.Fail("member %d can't go on: %w", nd.Index+1, e.Fault)
		return
	}
	for _, r := range e.Refused {
		w.Fail("member %d does not believe what %d sent, and nobody lies: %w", nd.Index+1, r.From, r.Why)
	}
	nd.holdSaying(index, &e)
	nd.holdNotes(s, &e.Persist)
	nd.holdKnown(index, &e)
	nd.holdSyncs(s, &e)
	nd.holdUpdates(s, &e)
	w.send(nd, index, e.Send)
	nd.holdServed(index, e.Complete)
	nd.complete(e.Complete)
	switch {
	case e.Persist.Sequence != 0:
		w.Batches++
		nd.Log.Entries = append(nd.Log.Entries, machine.Entry{Shard: index, Batch: e.Persist, Send: e.SendAfterPersist, Complete: e.CompleteAfterPersist})
		nd.sync()
	case len(nd.Log.Entries) == 0:
		w.send(nd, index, e.SendAfterPersist)
		nd.complete(e.CompleteAfterPersist)
	case len(e.SendAfterPersist)+len(e.CompleteAfterPersist) > 0:
		nd.Log.Entries = append(nd.Log.Entries, machine.Entry{Shard: index, Send: e.SendAfterPersist, Complete: e.CompleteAfterPersist})
	}
	nd.noteVoting()
	nd.holdChange(s)
	if w.Environment.Partitioned != nil {
		nd.inspect(s)
	}
}

// sync starts an fsync of all entries unless one is in flight.
func (nd *Node) sync() {
	if nd.Log.Syncing > 0 || len(nd.Log.Entries) == 0 {
		return
	}
	nd.Log.Syncing = len(nd.Log.Entries)
	d := nd.World.Environment.Disks[nd.Site]
	nd.After(nd.Draw.Between(d.Low, d.High), nd.timers.synced)
}

// synced makes durable what the fsync in flight covered.
func (nd *Node) synced() {
	if nd.Paused { // the disk is done, but the process does not hear of it yet
		nd.After(time.Millisecond, nd.timers.synced)
		return
	}
	if nd.stopped() {
		return
	}
	if nd.Witness != nil {
		nd.Witness.synced()
		return
	}
	done := nd.persist(nd.Log.Syncing)
	nd.sync()
	nd.release(done)
	if len(nd.Log.Entries) == 0 { // then its memory is free for the next ones
		clear(done)
		nd.Log.Entries = done[:0]
	}
}

// stopped reports whether the fsync that ends is one at which the process crashes, and has it do so.
func (nd *Node) stopped() bool {
	w := nd.World
	if w.Settled {
		return false
	}
	w.Syncs++
	stop, here := w.Stops[w.Syncs]
	if !here {
		return false
	}
	intact := 0
	if stop.Durable {
		intact = math.MaxInt
	}
	for _, other := range w.Nodes {
		if other != nd && stop.All && other.Born && !other.Down {
			other.Crash(0, 0)
			other.After(stop.For, other.Restart)
		}
	}
	nd.Crash(intact, 0)
	nd.After(stop.For, nd.Restart)
	return true
}

// persist makes the first entries of the log durable.
func (nd *Node) persist(count int) []machine.Entry {
	done := nd.Log.Entries[:count]
	nd.Log.Entries = nd.Log.Entries[count:]
	nd.Log.Syncing = 0
	for i := range done {
		if e := &done[i]; e.Batch.Sequence != 0 {
			s := nd.Shards[e.Shard]
			nd.holdBatch(e.Shard, e.Batch)
			nd.holdCount(e.Shard, &e.Batch)
			nd.judgeStored(e.Shard, e.Batch)
			s.Disk.Apply(e.Batch)
			s.journal.Persisted(e.Batch.Sequence)
		}
	}
	nd.World.Diagram.Note(nd.Index, "durable: %d batches", len(done))
	return done
}

// release lets go what waited for entries.
func (nd *Node) release(done []machine.Entry) {
	w := nd.World
	for i := range done {
		w.send(nd, done[i].Shard, done[i].Send)
		nd.complete(done[i].Complete)
	}
	nd.noteVoting()
	for _, s := range nd.Running() {
		nd.holdChange(s)
	}
}
