package cluster

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/network"
	"github.com/georegister/georegister/replica/view"
)

// send gives messages to the network.
func (w *Cluster) send(from *Node, shard int, envelopes []protocol.Envelope) {
	for i := range envelopes {
		e := &envelopes[i]
		to := int(e.To) - 1
		if _, known := from.Config.View.Witness(e.To); to == from.Index || from.Config.View.Index(e.To) < 0 && !known {
			w.Fail("member %d sends a %s to member %d", from.Index+1, e.Message.GetKind(), e.To)
			return
		}
		e.Message.Shard = uint32(shard)
		if w.Environment.Sealed {
			if err := w.commits.Note(e.Message); err != nil {
				w.Fail("%w", err)
			}
			w.noteLeaving(from, shard, e)
		}
		w.judgeSent(from, shard, e)
		w.transmit(from, to, e.Message)
	}
}

// transmit sends a message from one node to another.
func (w *Cluster) transmit(from *Node, to int, m *peerv1.Message) {
	w.Network.Carry(network.Message{From: from.Index, To: to, Life: from.life, View: from.Held, Cause: w.Coverage.Last(from.Index), Content: m})
}

// Left implements network.Ends: of a process that crashes, some messages may not have left the machine.
func (w *Cluster) Left(m *network.Message, draw kernel.Stream) bool {
	from := w.Nodes[m.From]
	return from.life == m.Life || !draw.Chance(from.cut)
}

// Arrive implements network.Ends.
func (w *Cluster) Arrive(m *network.Message) {
	from, nd := w.Nodes[m.From], w.Nodes[m.To]
	if nd.Down {
		w.Diagram.Dropped(m.From, m.To, m.Content, "down")
		return
	}
	if m.View != nd.Held && nd.Witness == nil && from.Witness == nil {
		w.Took("change.other-epoch")
		if w.Environment.Partitioned != nil {
			w.teach(m.View, nd, from) // what comes from another view has to be refused by the member that gets it
		} else if !w.Environment.Mixed {
			w.teach(m.View, nd, from)
			w.Diagram.Dropped(m.From, m.To, m.Content, "another view")
			return
		}
	}
	nd.Input(Input{from: view.MemberID(m.From + 1), Message: m.Content, cause: m.Cause})
}

// teach lets whichever of two nodes is behind learn the newer view, as the hellos of their streams do: the sender of a
// message that came from an older view, or the one who got it from a newer one and calls back.
func (w *Cluster) teach(sent int, to, from *Node) {
	if !to.Acts || from.Held == None {
		return
	}
	position, pupil, teacher := to.Held, from, to
	if w.Made[sent].Epoch > w.Made[to.Held].Epoch {
		position, pupil, teacher = sent, to, from
	}
	if wait, ok := w.Network.Call(teacher.Index, pupil.Index); ok {
		w.After(wait, func() {
			if pupil.Learn(position) {
				w.Took("change.learned")
			}
		})
	}
}
