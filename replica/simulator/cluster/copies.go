package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/replica/view"
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

func Batches(records map[string][]byte) uint64 {
	raw := records[countKey]
	if raw == nil {
		raw = records[curpCount]
	}
	n, _ := binary.Uvarint(raw)
	return n
}

// NotedOf is what the node has noted durably of how far another one's disk is; nil: nothing.
func (nd *Node) NotedOf(other *Node, shard int) *peerv1.Position {
	if shard >= len(nd.Shards) {
		return nil
	}
	own, key := peerv1.MemberRecord{Incarnation: 1}, curpPositions
	if nd.World.Environment.Partitioned == nil {
		key = positionsKey
		if own.UnmarshalVT(other.Shards[shard].Disk.Records[memberKey]) != nil {
			return nil
		}
	}
	for _, p := range positionsIn(nd.Shards[shard].Disk.Records[key]) {
		if p.Member == uint32(other.Config.Self) && p.Incarnation == own.Incarnation {
			return p
		}
	}
	return nil
}

// forgot is what a world does with a member that has found out that its disk is an older copy: the disk is wiped. One
// that began empty, and was not put back, is no copy: it may be lost, and its process knows that.
func (nd *Node) forgot(s *shard, why *protocol.Forgotten) {
	w := nd.World
	if !nd.Lost || s.empty && !nd.PutBack {
		w.Fail("member %d takes its disk for an older copy, and it is whole: %w", nd.Index+1, why)
		return
	}
	if nd.Older {
		w.Took("old-copy.found")
	}
	w.Diagram.Note(nd.Index, "finds out that its disk is an older copy")
	nd.stop(0, 0)
	nd.Wipe()
	nd.After(w.Environment.Retry/4, nd.Restart)
}

// noteActed notes the boot of a process that believes its disk: one that only asks whether it may has promised nothing.
func (nd *Node) noteActed() {
	for _, s := range nd.Running() {
		if s.Protocol != nil {
			nd.holdTrust(s)
		}
	}
	if nd.Acted != nd.Boots && slices.ContainsFunc(nd.Running(), func(s *shard) bool { return s.vouched(true) }) {
		nd.Acted = nd.Boots
	}
}

// noteVouching notes who answers a process that asks what is known of its disk. The question has the process's number.
func (nd *Node) noteVouching(s *shard, in *Input) {
	if in.Message.Epoch != nd.Config.View.Epoch {
		return
	}
	if s.Protocol.Doubted() && in.Message.Kind == peerv1.Kind_POSITION_REPLY && in.Message.Op == nd.Config.Nonce {
		s.vouching = append(s.vouching, in.from)
	}
}

// fewRetries is for how many times Retry a process asks at least before it does with a quorum.
const fewRetries = 3

// holdTrust holds it that a process comes to believe its disk once enough have answered it: so many that they meet every
// quorum which has counted that disk, or, after some time, a quorum with it.
func (nd *Node) holdTrust(s *shard) {
	w := nd.World
	doubted := s.Protocol.Doubted()
	if s.doubted == doubted {
		return
	}
	if s.doubted = doubted; doubted {
		return
	}
	meets, all, quorum := nd.vouchedFor(s)
	early := nd.Clock.Read(w.Now) < s.started.Add(fewRetries*w.Environment.LeastRetry())
	if !meets && !all && (early || !quorum) {
		w.Breaches(fmt.Errorf("%s believes its disk, and only members %v have told it what is known of that",
			nd.Name(), s.vouching))
	}
}

// vouchedFor reports whether those who have told a process what is known of its disk meet every quorum that has counted
// it, are all that there are, and with it are a quorum of those who vote.
func (nd *Node) vouchedFor(s *shard) (meets, all, quorum bool) {
	answered := func(id view.MemberID) bool { return slices.Contains(s.vouching, id) }
	meets = true
	for _, side := range nd.Config.View.Sides() {
		others := len(slices.DeleteFunc(slices.Clone(side.Members), func(m view.Member) bool { return !answered(m.ID) }))
		meets = meets && others > side.Size()-side.Majority()
	}
	all = !slices.ContainsFunc(nd.Config.Nearest, func(id view.MemberID) bool { return !answered(id) })
	with := func(id view.MemberID) bool { return id == nd.Config.Self || answered(id) }
	before := nd.Config.View.Before()
	return meets, all, before.Quorum(with)
}

// vouched reports that nobody has to be asked whether a shard's disk is whole: an earlier protocol of this process has
// asked.
func (s *shard) vouched(continued bool) bool {
	return continued && s.Protocol != nil && !s.Protocol.Doubted()
}

// vouched reports that of all shards of a node that has been in a view, also of those that it gets with the next one.
func (nd *Node) vouched(continued bool) bool {
	running := nd.Running()
	return len(running) > 0 && !slices.ContainsFunc(running, func(s *shard) bool { return s.Protocol != nil && !s.vouched(continued) }) &&
		slices.ContainsFunc(running, func(s *shard) bool { return s.Protocol != nil && s.vouched(continued) })
}

// Wipe replaces the disk of a stopped node by an empty one.
func (nd *Node) Wipe() {
	for _, s := range nd.Shards {
		*s = shard{Disk: machine.NewDisk()}
	}
	nd.Boots = 0
	nd.Disks++
	nd.Lost, nd.Rotten, nd.Older, nd.Acted, nd.Used = true, false, false, 0, 0
	nd.World.Diagram.Happened("%d loses its disk", nd.Index+1)
	nd.forget()
}

// fragmentPieces begins the keys of the records that have fragments of large values (package layered).
const fragmentPieces = 'y'

// Misread has the node's disk give other fragments of large values than it has, until it is undone; once.
func (nd *Node) Misread() (undo func()) {
	if nd.misreads {
		return func() {}
	}
	nd.misreads = true
	nd.World.Diagram.Note(nd.Index, "its disk gives other fragments than it has")
	var all []func()
	for _, s := range nd.Shards {
		disk := s.Disk
		for key, is := range disk.Records { // order is irrelevant: each record is changed by itself
			var pieces peerv1.FragmentPieces
			if key[0] != fragmentPieces || pieces.UnmarshalVT(is) != nil {
				continue
			}
			for _, p := range pieces.Pieces {
				for i := range p.Data {
					p.Data[i]++
				}
			}
			given, err := pieces.MarshalVT()
			if err != nil {
				continue
			}
			disk.Records[key] = given
			all = append(all, func() {
				if bytes.Equal(disk.Records[key], given) {
					disk.Records[key] = is
				}
			})
		}
	}
	return func() {
		for _, u := range all {
			u()
		}
	}
}
