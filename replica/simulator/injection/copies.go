package injection

import (
	"maps"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/position"
)

// putBackWitness is that fault: first the copy is made, and after some time the disk is what it was then. It counts as
// a lost one, and comes only when one may be lost, and behind something that all members have noted.
func (w *Injector) putBackWitness(f *faults.Injected) {
	if w.volumes[f] == nil {
		for _, nd := range w.Nodes {
			if nd.Witness != nil && nd.Site == f.Node && nd.Born && w.Manager.Expendable(nd) {
				w.volumes[f] = copyVolume(nd)
				w.beginAfter(f, f.Size)
				return
			}
		}
		return
	}
	v := w.volumes[f]
	switch nd := v.node; {
	case nd.Gone || nd.Disks != v.disks || nd.Witness.Stale:
	case nd.Down || !w.Manager.Expendable(nd) || !nd.Witness.Seconded() || !w.notedOfWitness(v):
		w.postpone(f)
	default:
		f.Hit = w.working(nd)
		v.putBackWitness(f.For)
	}
}

func (v *volume) putBackWitness(back time.Duration) {
	nd := v.node
	w := nd.World
	w.Took("old-copy.witness")
	nd.Crash(0, 0)
	nd.Witness.Log, nd.Witness.Stale, nd.Witness.Lacks = v.log, true, v.lacks
	w.Diagram.Note(nd.Index, "its disk is put back from an older copy")
	nd.After(back, nd.Restart)
}

// notedOfWitness reports whether all members have noted more promises of a witness than a copy of its disk has, in each
// partition where it has fewer.
func (w *Injector) notedOfWitness(v *volume) bool {
	x := v.node.Witness
	then, err := x.Restored(v.log, 0)
	if err != nil {
		w.Fail("the copy of %s's disk: %w", v.node.Name(), err)
		return false
	}
	now, err := x.Restored(x.Log, 0)
	if err != nil {
		w.Fail("%s's disk: %w", v.node.Name(), err)
		return false
	}
	v.lacks = nil
	for i := range w.Made[w.Record].Partitions {
		had := then.Promises(uint32(i))
		if had == now.Promises(uint32(i)) {
			continue
		}
		v.lacks = append(v.lacks, uint32(i))
		for _, nd := range w.Nodes {
			if nd.Witness == nil && nd.Born && !nd.Gone && !nd.Lost && nd.Acts && nd.NotedOf(v.node, i).GetBatches() <= had {
				return false
			}
		}
	}
	return len(v.lacks) > 0
}

// volume is a copy of a node's disk, as a snapshot of its volume is.
type volume struct {
	node   *cluster.Node
	disks  int
	boots  uint32
	held   int
	shards []map[string][]byte
	log    [][]byte // of a witness
	lacks  []uint32 // partitions of which that has fewer promises than were made
	beside *volume  // of the witness beside the member, if the fault is of both
}

// shard is what a shard's disk had; the node may have got more shards since.
func (v *volume) shard(i int) map[string][]byte {
	if i < len(v.shards) {
		return v.shards[i]
	}
	return map[string][]byte{}
}

// copyVolume copies a node's disk as it is.
func copyVolume(nd *cluster.Node) *volume {
	v := &volume{node: nd, disks: nd.Disks, boots: nd.Boots, held: nd.Held}
	for _, s := range nd.Shards {
		v.shards = append(v.shards, maps.Clone(s.Disk.Records)) // records do not change
	}
	if nd.Witness != nil {
		v.log = slices.Clone(nd.Witness.Log)
	}
	return v
}

// beside is the witness that runs beside a member; nil: there is none.
func (w *Injector) beside(nd *cluster.Node) *cluster.Node {
	i := slices.IndexFunc(w.Nodes, func(other *cluster.Node) bool {
		return other.Witness != nil && other.Witness.Beside == nd.Config.Self && other.Born && !other.Gone
	})
	if i < 0 {
		return nil
	}
	return w.Nodes[i]
}

// backable reports whether what is beside the member can go back with it.
func (w *Injector) backable(v *volume) bool {
	return v.beside == nil || v.beside.node.Disks == v.beside.disks && !v.beside.node.Witness.Stale && w.notedOfWitness(v.beside)
}

// putBack is the fault OldCopy: first the copy is made, and after some time the disk is what it was then.
//
// What nobody else has noted durably can't be found out by asking: that window is docs/operations.md's. So the disk
// goes back behind something only that all others have noted; then every quorum that may let it vote has one that says
// so.
func (w *Injector) putBack(f *faults.Injected, nd *cluster.Node) {
	v := w.volumes[f]
	if v == nil && nd.Witness != nil { // that has no part in this
		w.postpone(f)
		return
	}
	if v == nil {
		if nd.Born && nd.Acts && !nd.Lost && !nd.Gone {
			w.volumes[f] = copyVolume(nd)
			if f.Kind == faults.VolumeCopy {
				other := w.beside(nd)
				if other == nil {
					return
				}
				w.volumes[f].beside = copyVolume(other)
			}
			w.beginAfter(f, f.Size)
		}
		return
	}
	nd = v.node
	switch {
	case nd.Gone || nd.Disks != v.disks || nd.Lost:
		return
	case v.held != cluster.None && w.Made[v.held].Size() == 1:
		return // it has nobody to ask, also when others have taken its place since: docs/operations.md says so
	case nd.Down || !w.Manager.Tolerates(nd) || !w.wakesAmongEnough(v) || w.Environment.Partitioned != nil && !w.Manager.Expendable(nd) || !w.backable(v):
		w.postpone(f)
		return
	}
	lacks, noted := w.noted(v)
	starts := v.boots != nd.Boots
	if !noted || !lacks && !starts && v.beside == nil { // who only takes notes lacks nothing that counts
		w.postpone(f)
		return
	}
	f.Hit = w.working(nd)
	nd.Crash(0, f.Rate)
	for i, s := range nd.Shards {
		s.Disk.Records, s.Disk.Stale = v.shard(i), true
	}
	nd.Used, nd.Boots = nd.Acted, v.boots
	nd.Lost, nd.Older, nd.PutBack = lacks || starts, lacks, true
	switch {
	case lacks:
		w.Took("old-copy")
	case starts:
		w.Took("old-copy.starts")
	}
	w.Diagram.Note(nd.Index, "its disk is put back from an older copy")
	if nd.Held != v.held {
		w.Took("old-copy.view")
		nd.Enter(v.held)
	}
	if v.beside != nil {
		w.Took("old-copy.volume")
		v.beside.putBackWitness(f.For)
	}
	nd.After(f.For, nd.Restart)
}

// wakesAmongEnough reports whether the view that a copy is of tolerates one more that is lost: others may not have heard
// either that it is over, and two of three members on older copies could only ask each other.
func (w *Injector) wakesAmongEnough(v *volume) bool {
	return w.Environment.Partitioned != nil || w.Manager.TolerableIn(v.held, v.node)
}

// noted reports whether the disk lacks batches if it goes back to a copy, and whether all others have noted what it
// lacks, in each shard where it lacks something. One that has all batches may lack starts: what a process told others,
// another one of the same start could tell differently.
func (w *Injector) noted(v *volume) (lacks, noted bool) {
	for i, s := range v.node.Running() {
		then, now := cluster.Batches(v.shard(i)), cluster.Batches(s.Disk.Records)
		if then == now && v.boots == v.node.Boots {
			continue
		}
		lacks = lacks || then != now
		for _, other := range w.Nodes {
			if other == v.node || !other.Born || other.Gone || other.Lost || !other.Acts || other.Witness != nil {
				continue
			}
			p := other.NotedOf(v.node, i)
			knows := position.Boot(p.GetStart()) > uint64(v.boots)
			if then != now {
				knows = max(p.GetBatches(), p.GetBefore()) > then
			}
			if !knows {
				return lacks, false
			}
		}
	}
	return lacks, true
}
