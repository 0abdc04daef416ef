package cluster

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/view"
)

// Archive is all views that were ever made: nodes and calls name them by position.
type Archive struct {
	Made   []Made
	Record int // the one that is recorded; it survives a crash of the manager
	Former int // the last one that had taken hold when the record was written
}

// Made is a view that was made.
type Made struct {
	view.View
	Digest string
	Held   bool // it was committed: a quorum of it held it at some time
	Losses int  // of the record, before it was made
}

// holdHeld holds it that a master begins a term, with its log or with questions to witnesses of former ones, when a
// quorum of members holds the view that makes it the master, or has held it. A disk that is lost may have.
func (nd *Node) holdHeld(shard int, m *peerv1.Message) {
	w, v := nd.World, &nd.Config.View
	begins := m.Kind == peerv1.Kind_SYNC || m.Witness.GetKind() == witnessv1.Kind_RECOVERY_DATA
	if !begins || m.Epoch != v.Epoch || nd.Held == None ||
		nd.holder(shard).Served(v.Partitions[shard].Term) == nil {
		return
	}
	holds := func(id view.MemberID) bool {
		other := w.Nodes[id-1]
		return other.Held >= nd.Held || other.Lost || other.Gone || other.Older || other.Disks > 1
	}
	if !v.Quorum(holds) {
		w.Breaches(fmt.Errorf("member %d begins term %d of partition %d, and no quorum holds the view of epoch %d",
			nd.Index+1, v.Partitions[shard].Term, shard, v.Epoch))
	}
}

// noteHeld sees whether a view is committed, now that one more node holds it.
func (w *Cluster) noteHeld(position int) {
	if position == None || w.Made[position].Held {
		return
	}
	v := &w.Made[position]
	v.Held = v.Quorum(func(id view.MemberID) bool { // a disk that went back may have held another one
		nd := w.Nodes[id-1]
		return nd.Held == position && !nd.Lost
	})
	for i := range w.Made {
		if other := &w.Made[i]; v.Held && i != position && other.Held && other.Epoch == v.Epoch {
			w.Fail("two views of epoch %d are committed", v.Epoch)
		}
	}
}
