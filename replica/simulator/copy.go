package simulator

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/witness/core"
)

// What member.Member keeps of disks: its own record, how many batches its disk has had, and what it heard of others'.
// CURP keeps the latter two, under keys of its own.
const (
	memberKey     = "m"
	countKey      = "mc"
	positionsKey  = "mk"
	curpCount     = "C"
	curpPositions = "K"
)

// putBackWitness is that fault: first the copy is made, and after some time the disk is what it was then. It counts as
// a lost one, and comes only when one may be lost, and behind something that all members have noted.
func (f *fault) putBackWitness(w *world) {
	if f.volume == nil {
		for _, nd := range w.nodes {
			if nd.witness != nil && nd.site == f.Node && nd.born && w.expendable(nd) {
				f.volume = nd.copyVolume()
				f.beginAfter(w, f.Size)
				return
			}
		}
		return
	}
	v := f.volume
	switch nd := v.node; {
	case nd.gone || nd.disks != v.disks || nd.witness.stale:
	case nd.down || !w.expendable(nd) || !nd.witness.seconded() || !w.notedOfWitness(v):
		f.postpone(w)
	default:
		f.hit = w.working(nd)
		v.putBackWitness(f.For)
	}
}

func (v *volume) putBackWitness(back time.Duration) {
	nd := v.node
	w := nd.world
	w.Took("old-copy.witness")
	if !nd.down {
		nd.crash(0, 0)
	}
	nd.witness.log, nd.witness.stale, nd.witness.lacks = v.log, true, v.lacks
	w.trace.Note(nd.index, "its disk is put back from an older copy")
	nd.after(back, nd.restart)
}

// notedOfWitness reports whether all members have noted more promises of a witness than a copy of its disk has, in each
// partition where it has fewer.
func (w *world) notedOfWitness(v *volume) bool {
	x := v.node.witness
	then, err := x.restored(v.log, 0)
	if err != nil {
		w.Fail("the copy of %s's disk: %w", v.node.name(), err)
		return false
	}
	now, err := x.restored(x.log, 0)
	if err != nil {
		w.Fail("%s's disk: %w", v.node.name(), err)
		return false
	}
	v.lacks = nil
	for i := range w.manager.views[w.manager.record].Partitions {
		had := then.Promises(uint32(i))
		if had == now.Promises(uint32(i)) {
			continue
		}
		v.lacks = append(v.lacks, uint32(i))
		for _, nd := range w.nodes {
			if nd.witness == nil && nd.born && !nd.gone && !nd.lost && nd.acts && nd.notedOf(v.node, i).GetBatches() <= had {
				return false
			}
		}
	}
	return len(v.lacks) > 0
}

// forgot is what a world does with a witness that has found out that its disk is an older copy: the disk is replaced.
func (x *witness) forgot(why *core.Forgotten) {
	w := x.node.world
	if !x.stale {
		w.Fail("%s takes its disk for an older copy, and it is whole: %w", x.node.name(), why)
		return
	}
	w.Took("old-copy.witness-found")
	w.trace.Note(x.node.index, "finds out that its disk is an older copy")
	x.node.crash(0, 0)
	x.lose()
	x.node.after(w.env.Retry/4, x.node.restart)
}

// volume is a copy of a node's disk, as a snapshot of its volume is.
type volume struct {
	node   *node
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

func (nd *node) copyVolume() *volume {
	v := &volume{node: nd, disks: nd.disks, boots: nd.boots, held: nd.held}
	for _, s := range nd.shards {
		v.shards = append(v.shards, maps.Clone(s.disk.Records)) // records do not change
	}
	if nd.witness != nil {
		v.log = slices.Clone(nd.witness.log)
	}
	return v
}

// beside is the witness that runs beside a member; nil: there is none.
func (w *world) beside(nd *node) *node {
	i := slices.IndexFunc(w.nodes, func(other *node) bool {
		return other.witness != nil && other.witness.beside == nd.config.Self && other.born && !other.gone
	})
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// backable reports whether what is beside the member can go back with it.
func (v *volume) backable(w *world) bool {
	return v.beside == nil || v.beside.node.disks == v.beside.disks && !v.beside.node.witness.stale && w.notedOfWitness(v.beside)
}

// putBack is the fault OldCopy: first the copy is made, and after some time the disk is what it was then.
//
// What nobody else has noted durably can't be found out by asking: that window is docs/operations.md's. So the disk
// goes back behind something only that all others have noted; then every quorum that may let it vote has one that says
// so.
func (f *fault) putBack(w *world, nd *node) {
	v := f.volume
	if v == nil && nd.witness != nil { // that has no part in this
		f.postpone(w)
		return
	}
	if v == nil {
		if nd.born && nd.acts && !nd.lost && !nd.gone {
			f.volume = nd.copyVolume()
			if f.Kind == faults.VolumeCopy {
				other := w.beside(nd)
				if other == nil {
					return
				}
				f.volume.beside = other.copyVolume()
			}
			f.beginAfter(w, f.Size)
		}
		return
	}
	nd = v.node
	switch {
	case nd.gone || nd.disks != v.disks || nd.lost:
		return
	case v.held != none && w.manager.views[v.held].Size() == 1:
		return // it has nobody to ask, also when others have taken its place since: docs/operations.md says so
	case nd.down || !w.tolerates(nd) || w.env.Partitioned != nil && !w.expendable(nd) || !v.backable(w):
		f.postpone(w)
		return
	}
	lacks, noted := w.noted(v)
	starts := v.boots != nd.boots
	if !noted || !lacks && !starts && v.beside == nil { // who only takes notes lacks nothing that counts
		f.postpone(w)
		return
	}
	f.hit = w.working(nd)
	nd.crash(0, f.Rate)
	for i, s := range nd.shards {
		s.disk.Records, s.disk.Stale = v.shard(i), true
	}
	nd.used, nd.boots = nd.acted, v.boots
	nd.lost, nd.older = lacks || starts, lacks
	switch {
	case lacks:
		w.Took("old-copy")
	case starts:
		w.Took("old-copy.starts")
	}
	w.trace.Note(nd.index, "its disk is put back from an older copy")
	if nd.held != v.held {
		w.Took("old-copy.view")
		nd.enter(v.held)
	}
	if v.beside != nil {
		w.Took("old-copy.volume")
		v.beside.putBackWitness(f.For)
	}
	nd.after(f.For, nd.restart)
}

// noted reports whether the disk lacks batches if it goes back to a copy, and whether all others have noted what it
// lacks, in each shard where it lacks something. One that has all batches may lack starts: what a process told others,
// another one of the same start could tell differently.
func (w *world) noted(v *volume) (lacks, noted bool) {
	for i, s := range v.node.running() {
		then, now := batches(v.shard(i)), batches(s.disk.Records)
		if then == now && v.boots == v.node.boots {
			continue
		}
		lacks = lacks || then != now
		for _, other := range w.nodes {
			if other == v.node || !other.born || other.gone || other.lost || !other.acts || other.witness != nil {
				continue
			}
			p := other.notedOf(v.node, i)
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

func batches(records map[string][]byte) uint64 {
	raw := records[countKey]
	if raw == nil {
		raw = records[curpCount]
	}
	n, _ := binary.Uvarint(raw)
	return n
}

// notedOf is what the node has noted durably of how far another one's disk is; nil: nothing.
func (nd *node) notedOf(other *node, shard int) *peerv1.Position {
	if shard >= len(nd.shards) {
		return nil
	}
	own, key := peerv1.MemberRecord{Incarnation: 1}, curpPositions
	if nd.world.env.Partitioned == nil {
		key = positionsKey
		if own.UnmarshalVT(other.shards[shard].disk.Records[memberKey]) != nil {
			return nil
		}
	}
	var record peerv1.PositionRecord
	if record.UnmarshalVT(nd.shards[shard].disk.Records[key]) != nil {
		return nil
	}
	for _, p := range record.Positions {
		if p.Member == uint32(other.config.Self) && p.Incarnation == own.Incarnation {
			return p
		}
	}
	return nil
}

// forgot is what a world does with a member that has found out that its disk is an older copy: the disk is wiped.
func (nd *node) forgot(why *protocol.Forgotten) {
	w := nd.world
	if !nd.lost {
		w.Fail("member %d takes its disk for an older copy, and it is whole: %w", nd.index+1, why)
		return
	}
	if nd.older {
		w.Took("old-copy.found")
	}
	w.trace.Note(nd.index, "finds out that its disk is an older copy")
	nd.stop(0, 0)
	nd.wipe()
	nd.after(w.env.Retry/4, nd.restart)
}

// trusted is the failure of a member that has voted on an older copy of its disk, where nobody saw any harm of that:
// all others had noted what the disk lacked.
func (w *world) trusted() (check.Class, string) {
	for _, nd := range w.nodes {
		if nd.trusted {
			return check.Believed, fmt.Sprintf("member %d voted on a disk that was put back from an older copy", nd.index+1)
		}
	}
	return "", ""
}

// noteActed notes the boot of a process that believes its disk: one that only asks whether it may has promised nothing.
func (nd *node) noteActed() {
	if nd.acted != nd.boots && slices.ContainsFunc(nd.running(), func(s *shard) bool { return s.vouched(true) }) {
		nd.acted = nd.boots
	}
}

// vouched reports that nobody has to be asked whether a shard's disk is whole: an earlier protocol of this process has
// asked.
func (s *shard) vouched(continued bool) bool {
	return continued && s.protocol != nil && !s.protocol.Doubted()
}

// vouched reports that of all shards of a node that has been in a view, also of those that it gets with the next one.
func (nd *node) vouched(continued bool) bool {
	running := nd.running()
	return len(running) > 0 && !slices.ContainsFunc(running, func(s *shard) bool { return s.protocol != nil && !s.vouched(continued) }) &&
		slices.ContainsFunc(running, func(s *shard) bool { return s.protocol != nil && s.vouched(continued) })
}

// aside reports whether a message tells only how far disks are. Such messages draw from streams of their own, so that
// the others fare as without them.
func aside(m *peerv1.Message) bool {
	return m.Kind == peerv1.Kind_POSITION || m.Kind == peerv1.Kind_POSITION_QUERY || m.Kind == peerv1.Kind_POSITION_REPLY
}

// wipe replaces the disk of a stopped node by an empty one.
func (nd *node) wipe() {
	for _, s := range nd.shards {
		*s = shard{disk: machine.NewDisk()}
	}
	nd.boots = 0
	nd.disks++
	nd.lost, nd.rotten, nd.older, nd.acted, nd.used = true, false, false, 0, 0
	nd.world.trace.Happened("%d loses its disk", nd.index+1)
	nd.forget()
}
