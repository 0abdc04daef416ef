package cluster

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/view"
)

// holder is the node's disk, as a shard of it has its records. It is the same one each time: it is asked for with each
// message.
func (nd *Node) holder(shard int) *check.Holder {
	s := nd.Shards[shard]
	s.holder = check.Holder{Member: nd.Config.Self, Disk: nd.Disk(), Shard: shard, Records: s.Disk.Records,
		View: &nd.Config.View}
	return &s.holder
}

// Applied are the least and the most entries that the states of a shard are after, of the members that are there.
func (w *Cluster) Applied(shard int) (least, most uint64) {
	for i, nd := range w.resting() {
		applied := nd.holder(shard).Applied()
		if most = max(most, applied); i == 0 || applied < least {
			least = applied
		}
	}
	return least, most
}

// judgeSent judges what a member says of its log.
func (w *Cluster) judgeSent(from *Node, shard int, e *protocol.Envelope) {
	switch h := from.holder(shard); {
	case from.Lost:
	case w.Environment.Partitioned == nil:
		held := func(index uint64) bool { return w.heldLog(shard, index) }
		w.Breaches(w.logs.Sends(h, e.To, e.Message, w.Events, held))
	case shard < len(from.Config.View.Partitions):
		from.holdTelling(shard, e.To, e.Message)
		from.holdHeld(shard, e.Message)
		w.Breaches(w.Masters.Sends(h, e.To, e.Message, from.Config.View.Partitions[shard],
			func(id view.MemberID) *check.Holder {
				return w.holderIn(&from.Config.View, id, shard)
			}))
	}
}

// holderIn is the disk of a member of a view, unless it is lost since, or has no such shard.
func (w *Cluster) holderIn(v *view.View, id view.MemberID, shard int) *check.Holder {
	nd := w.Nodes[id-1]
	if i := v.Index(id); i < 0 || nd.Lost || nd.Gone || nd.Disk() != v.Members[i].Disk || shard >= len(nd.Shards) {
		return nil
	}
	return nd.holder(shard)
}

// judgeAnswered judges what a client is told of a log: of Raft's answers, whose carstamps name an entry and a
// command in it.
func (w *Cluster) judgeAnswered(nd *Node, op register.Operation, result register.Result) {
	if at := result.Carstamp; result.Status == register.OK && at.RMWs > 0 && op.Key != "" {
		shard := nd.place(op.Key)
		w.Breaches(w.logs.Answers(shard, at.Timestamp, func(index uint64) bool { return w.heldLog(shard, index) }))
	}
	own := nd.Disks == 1 // what a disk has saved before its member votes again is not judged
	if result.Fast && op.Kind != register.Read && w.Environment.Partitioned == nil && op.Key != "" && own {
		shard := nd.place(op.Key)
		var all []*check.Holder
		for _, m := range nd.Config.View.Members {
			all = append(all, w.holderIn(&nd.Config.View, m.ID, shard))
		}
		w.Breaches(w.logs.AnswersAtOnce(shard, nd.Config.Self, &op, all))
	}
}

// judgeStored judges what a member stores: what only grows, of a log, and of sessions and answers, where so few
// are remembered that some are forgotten, or some are long.
func (nd *Node) judgeStored(shard int, b protocol.Batch) {
	w, h := nd.World, nd.holder(shard)
	breaks := func(err error) {
		if err != nil {
			w.Breaches(fmt.Errorf("%s: %w", nd.Name(), err))
		}
	}
	partitioned := w.Environment.Partitioned != nil
	breaks(h.Grows(partitioned, &b))
	switch {
	case !partitioned:
		w.Breaches(w.logs.Stores(h, &b))
	case !nd.Lost:
		breaks(h.Forgets(&b))
		breaks(h.Makes(&w.Environment.Tuning, &w.requests, &b))
	}
	if !w.forgetful() && (partitioned || w.largest <= keptForSure) {
		return
	}
	for _, m := range b.Mutations {
		breaks(w.requests.Sessions(&w.Environment.Tuning, m.Key, h.Records[string(m.Key)], m.Value))
	}
}

// forgetful reports whether members without partitions remember so few sessions, or answers, that some are forgotten.
func (w *Cluster) forgetful() bool {
	t := &w.Environment.Tuning
	return w.Environment.Partitioned == nil && (t.Sessions != 0 || t.SessionsFor != 0 || t.Answers != 0 ||
		t.AllAnswerBytes != 0)
}

// JudgeStates judges that the states of members are the same after the same entry of the log, of protocols that
// have one.
func (w *Cluster) JudgeStates() {
	var holders []*check.Holder
	for _, nd := range w.Nodes {
		if nd.Acts && !nd.Lost && !nd.Down && nd.Held == w.Record && nd.Witness == nil {
			for shard := range nd.Running() {
				holders = append(holders, nd.holder(shard))
			}
		}
	}
	if w.Environment.Partitioned != nil {
		w.Breaches(check.SameParts(holders,
			func(key []byte) int { return w.Made[w.Record].Shard(register.Hash(key)) }))
	} else {
		w.Breaches(w.logs.Same(holders))
	}
}

// heldLog reports whether the disks of a quorum of some view have the log of a shard up to an index. One that was lost,
// or went back, may have had it.
func (w *Cluster) heldLog(shard int, index uint64) bool {
	holds := func(id view.MemberID) bool {
		nd := w.Nodes[id-1]
		return nd.Lost || nd.Disks > 1 || nd.Older || nd.trusted || w.logs.Last(nd.holder(shard)) >= index
	}
	return slices.ContainsFunc(w.Made, func(v Made) bool { return v.Quorum(holds) })
}
