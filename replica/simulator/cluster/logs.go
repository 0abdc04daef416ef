package cluster

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/view"
)

// holder is the node's disk, as a shard of it has its records.
func (nd *Node) holder(shard int) *check.Holder {
	return &check.Holder{Member: nd.Config.Self, Disk: nd.Disk(), Shard: shard, Records: nd.Shards[shard].Disk.Records}
}

// judgeSent judges what a member says of its log.
func (w *Cluster) judgeSent(from *Node, shard int, e *protocol.Envelope) {
	if !from.Lost {
		w.Breaches(w.logs.Sends(from.holder(shard), e.To, e.Message, func(index uint64) bool { return w.heldLog(shard, index) }))
	}
}

// judgeAnswered judges what a client is told of a log: of Raft's answers, whose carstamps name an entry and a command in it.
func (w *Cluster) judgeAnswered(nd *Node, op register.Operation, result register.Result) {
	if at := result.Carstamp; result.Status == register.OK && at.RMWs > 0 && op.Key != "" {
		shard := nd.place(op.Key)
		w.Breaches(w.logs.Answers(shard, at.Timestamp, func(index uint64) bool { return w.heldLog(shard, index) }))
	}
}

// heldLog reports whether the disks of a quorum of some view have the log of a shard up to an index. Where a disk was
// lost, one more may have had it.
func (w *Cluster) heldLog(shard int, index uint64) bool {
	if slices.ContainsFunc(w.Nodes, func(nd *Node) bool { return nd.Lost || nd.Disks > 1 }) {
		return true
	}
	holds := func(id view.MemberID) bool { return w.logs.Last(w.Nodes[id-1].holder(shard)) >= index }
	return slices.ContainsFunc(w.Made, func(v Made) bool { return v.Quorum(holds) })
}
