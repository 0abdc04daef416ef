package cluster

import "github.com/georegister/georegister/replica/view"

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
