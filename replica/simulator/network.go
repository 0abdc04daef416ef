package simulator

import (
	"bytes"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// link is one direction between two nodes (or from the clients of a node's site to another node).
type link struct {
	draw    kernel.Stream
	aside   kernel.Stream
	oneWay  time.Duration
	arrives time.Duration // of the last message, so that links are in order while no fault reorders them
	flying  int           // messages on their way

	// Faults in force.
	partition *fault
	loss      *fault
	duplicate *fault
	reorder   *fault
}

func newLink(seed uint64, from, to int, oneWay time.Duration) link {
	index := uint64(from)<<16 | uint64(to)
	return link{draw: kernel.NewStream(seed, kernel.ForLink, index), aside: kernel.NewStream(seed, kernel.ForPositions, index), oneWay: oneWay}
}

// sealed is a message as it was when it was sent.
type sealed struct {
	origin *peerv1.Message
	wire   []byte
}

// letter is a message on its way.
type letter struct {
	from, to int
	life     uint32 // of the process that sent it
	held     int    // the view in which it was sent
	message  *peerv1.Message
	sealed   *sealed // checks that the sender did not change the message on its way; nil if unchecked
}

// delay is how long a message takes, faults aside.
func (w *world) delay(l *link) time.Duration { return w.delayBy(l, l.draw) }

func (w *world) delayBy(l *link, draw kernel.Stream) time.Duration {
	if w.env.Jitter == 0 {
		return l.oneWay
	}
	return l.oneWay + draw.Between(0, l.oneWay*time.Duration(w.env.Jitter)/1000)
}

// send gives messages to the network.
func (w *world) send(from *node, shard int, envelopes []protocol.Envelope) {
	for i := range envelopes {
		e := &envelopes[i]
		to := int(e.To) - 1
		if _, known := from.config.View.Witness(e.To); to == from.index || from.config.View.Index(e.To) < 0 && !known {
			w.Fail("member %d sends a %s to member %d", from.index+1, e.Message.GetKind(), e.To)
			return
		}
		e.Message.Shard = uint32(shard)
		if w.env.Sealed {
			w.agree(e.Message)
		}
		w.transmit(from.index, to, e.Message)
	}
}

func (w *world) transmit(from, to int, m *peerv1.Message) {
	l := &w.links[from*len(w.nodes)+to]
	draw := l.draw
	if aside(m) {
		draw = l.aside
	}
	if l.partition != nil {
		l.partition.touch(w)
		w.trace.Dropped(from, to, m, "partition")
		return
	}
	if l.loss != nil && draw.Chance(l.loss.Rate) {
		l.loss.touch(w)
		w.trace.Dropped(from, to, m, "lost")
		return
	}
	sender := w.nodes[from]
	e := letter{from: from, to: to, life: sender.life, message: m, held: sender.held}
	if w.env.Sealed {
		if e.message, e.sealed = w.seal(m); e.sealed == nil {
			return
		}
	}
	if l.duplicate != nil && draw.Chance(l.duplicate.Rate) {
		l.duplicate.touch(w)
		copied := e
		if w.env.Sealed {
			if copied.message, copied.sealed = w.seal(m); copied.sealed == nil {
				return
			}
		}
		l.flying++
		w.After(w.delayBy(l, draw)+draw.Between(0, l.duplicate.Size), func() { w.arrive(&copied) })
	}
	after := w.delayBy(l, draw)
	if l.reorder != nil && draw.Chance(l.reorder.Rate) {
		l.reorder.touch(w)
		after += draw.Between(0, l.reorder.Size)
	} else if !aside(m) {
		after = max(after, l.arrives-w.Now)
		l.arrives = w.Now + after
	}
	l.flying++
	w.After(after, func() { w.arrive(&e) })
}

// seal passes a message through its wire format, so that no node can reach into another's memory.
func (w *world) seal(m *peerv1.Message) (*peerv1.Message, *sealed) {
	wire, err := m.MarshalVT()
	if err != nil {
		w.Fail("encode a %s: %w", m.Kind, err)
		return nil, nil
	}
	decoded := &peerv1.Message{}
	if err := decoded.UnmarshalVT(wire); err != nil {
		w.Fail("decode a %s: %w", m.Kind, err)
		return nil, nil
	}
	return decoded, &sealed{origin: m, wire: wire}
}

// unchanged reports whether a message is what it was when it was sent.
func (w *world) unchanged(s *sealed) bool {
	size := s.origin.SizeVT()
	if size != len(s.wire) {
		return false
	}
	w.scratch = slices.Grow(w.scratch[:0], size)[:size]
	_, err := s.origin.MarshalToSizedBufferVT(w.scratch)
	return err == nil && bytes.Equal(w.scratch, s.wire)
}

func (w *world) arrive(e *letter) {
	from, to := e.from, e.to
	l := &w.links[from*len(w.nodes)+to]
	l.flying--
	draw := l.draw
	if aside(e.message) {
		draw = l.aside
	}
	if e.sealed != nil {
		if !w.unchanged(e.sealed) {
			w.Fail("member %d changed a %s that it had sent to member %d", from+1, e.message.Kind, to+1)
			return
		}
	}
	if sender := w.nodes[from]; e.life != sender.life && draw.Chance(sender.cut) {
		w.trace.Dropped(from, to, e.message, "not sent before the crash")
		return
	}
	if p := l.partition; p != nil && draw.Chance(p.Rate) {
		p.touch(w)
		w.trace.Dropped(from, to, e.message, "partition")
		return
	}
	nd := w.nodes[to]
	if nd.down {
		w.trace.Dropped(from, to, e.message, "down")
		return
	}
	if e.held != nd.held && nd.witness == nil && w.nodes[from].witness == nil {
		w.Took("change.other-epoch")
		if w.env.Partitioned != nil {
			w.teach(e.held, nd, w.nodes[from]) // what comes from another view has to be refused by who gets it
		} else if !w.env.Mistakes.AnyEpoch {
			w.teach(e.held, nd, w.nodes[from])
			w.trace.Dropped(from, to, e.message, "another view")
			return
		}
	}
	nd.input(input{from: view.MemberID(from + 1), message: e.message})
}

// teach lets whichever of two nodes is behind learn the newer view, as the hellos of their streams do: the sender of a
// message that came from an older view, or the one who got it from a newer one and calls back.
func (w *world) teach(sent int, to, from *node) {
	views := w.manager.views
	if !to.acts || from.held == none {
		return
	}
	position, pupil, teacher := to.held, from, to
	if views[sent].Epoch > views[to.held].Epoch {
		position, pupil, teacher = sent, to, from
	}
	l := &w.links[teacher.index*len(w.nodes)+pupil.index]
	if l.partition != nil || l.loss != nil && l.draw.Chance(l.loss.Rate) {
		return
	}
	w.After(w.delay(l), func() {
		if pupil.learn(position) {
			w.Took("change.learned")
		}
	})
}
