// Package network is the simulated network: links between nodes, which keep the order of what they carry while no fault
// is in force, and the faults that have messages be lost, late, twice or out of order.
package network

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Network is all links of a run. Nodes are named by their positions.
type Network struct {
	*kernel.Kernel
	Diagram *diagram.Diagram
	Faults  []*faults.Injected         // of the run; of two of one kind, the later is in force
	Strikes map[uint64]schedule.Strike // of messages, by their numbers
	Sent    uint64                     // messages, but for those about disks, until faults were over
	Carried uint64                     // all messages
	Weighed bool                       // the bytes of those are counted
	Bytes   uint64                     // of all messages, if so
	Timed   bool                       // the messages that Sent counts are noted
	Noted   []Noted

	env   *schedule.Environment
	ends  Ends
	sites []int // of the nodes, by their positions in the environment
	links []link

	scratch []byte  // of unchanged
	encoded encoded // the last message that was
}

// link is one direction between two nodes (or from the clients of a node's site to another node).
type link struct {
	draw     kernel.Stream
	position kernel.Stream // for messages that say how far disks are
	oneWay   time.Duration
	arrives  time.Duration // of the last message, so that links are in order while no fault reorders them
	inFlight int           // messages on their way

	// Faults in force.
	partition *faults.Injected
	loss      *faults.Injected
	duplicate *faults.Injected
	reorder   *faults.Injected
}

// New makes the network between the nodes at some sites of an environment.
func New(k *kernel.Kernel, env *schedule.Environment, d *diagram.Diagram, ends Ends, sites []int) *Network {
	n := &Network{Kernel: k, Diagram: d, env: env, ends: ends, sites: sites}
	for a, from := range sites {
		for b, to := range sites {
			index := uint64(a)<<16 | uint64(b)
			n.links = append(n.links, link{
				draw: k.Draws(kernel.ForLink, index), position: k.Draws(kernel.ForPositions, index), oneWay: env.Network.RTT[from][to] / 2,
			})
		}
	}
	return n
}

func (n *Network) link(from, to int) *link { return &n.links[from*len(n.sites)+to] }

// Place puts a node at a site.
func (n *Network) Place(node, site int) {
	n.sites[node] = site
	for other, there := range n.sites {
		n.link(node, other).oneWay = n.env.Network.RTT[site][there] / 2
		n.link(other, node).oneWay = n.env.Network.RTT[there][site] / 2
	}
}

// delay is how long a message takes, but for faults.
func (n *Network) delay(l *link, draw kernel.Stream) time.Duration {
	if n.env.Jitter == 0 {
		return l.oneWay
	}
	return l.oneWay + draw.Between(0, l.oneWay*time.Duration(n.env.Jitter)/1000)
}

// Noted is what is noted of a message.
type Noted struct {
	At   time.Duration // when it was sent
	Kind string
}

// kindOf tells messages apart by what they are for, those of witnesses and of Raft's library by their own kinds: its
// type is the first field of a message of the library.
func kindOf(m *peerv1.Message) string {
	switch {
	case m.Witness != nil:
		return m.Witness.Kind.String()
	case m.Kind == peerv1.Kind_RAFT:
		return m.Kind.String() + string(m.Raft[:min(2, len(m.Raft))])
	}
	return m.Kind.String()
}

// Ends is the nodes between which messages go.
type Ends interface {
	// Left reports whether a message had left the machine of a process that has stopped since.
	Left(*Message, kernel.Stream) bool
	// Arrive is called at the end of a message's way, unless the message is lost.
	Arrive(*Message)
}

// Message is a message on its way.
type Message struct {
	From, To int
	Life     uint32         // of the process that sent it
	View     int            // the one in which it was sent, by its position
	Cause    coverage.Event // what its sender had done last
	Content  *peerv1.Message
}

// Carry takes a message over a link, as the faults in force have it.
func (n *Network) Carry(m Message) {
	n.Carried++
	if n.Weighed {
		n.Bytes += uint64(m.Content.SizeVT())
	}
	l, content := n.link(m.From, m.To), m.Content
	draw := l.drawFor(content)
	strike := n.strike(content)
	if l.partition != nil {
		l.partition.Touch(n.Busy)
		n.Diagram.Dropped(m.From, m.To, content, "partition")
		return
	}
	if l.loss != nil && draw.Chance(l.loss.Rate) {
		l.loss.Touch(n.Busy)
		n.Diagram.Dropped(m.From, m.To, content, "lost")
		return
	}
	if strike.Lost {
		n.Diagram.Dropped(m.From, m.To, content, "lost")
		return
	}
	first := n.seal(m)
	if l.duplicate != nil && draw.Chance(l.duplicate.Rate) {
		l.duplicate.Touch(n.Busy)
		second := n.seal(m)
		l.inFlight++
		n.Schedule(n.delay(l, draw)+draw.Between(0, l.duplicate.Size), second)
	}
	if strike.Twice {
		l.inFlight++
		n.Schedule(n.delay(l, draw)+strike.Late, n.seal(m))
		strike.Late = 0
	}
	after := n.delay(l, draw) + strike.Late
	if l.reorder != nil && draw.Chance(l.reorder.Rate) {
		l.reorder.Touch(n.Busy)
		after += draw.Between(0, l.reorder.Size)
	} else if strike.Overtaken && !strike.Twice {
		// others need not wait for it
	} else if !AboutDisks(content) {
		after = max(after, l.arrives-n.Now)
		l.arrives = n.Now + after
	}
	l.inFlight++
	n.Schedule(after, first)
}

// strike is what befalls the next message.
func (n *Network) strike(m *peerv1.Message) (s schedule.Strike) {
	if AboutDisks(m) || n.Settled {
		return s
	}
	n.Sent++
	if n.Timed {
		n.Noted = append(n.Noted, Noted{n.Now, kindOf(m)})
	}
	return n.Strikes[n.Sent]
}

// Redraw has all links draw from the streams of another seed from now on.
func (n *Network) Redraw(seed uint64) {
	for i := range n.links {
		n.links[i].draw = kernel.NewStream(seed, kernel.ForLink, uint64(i))
	}
}

// Happen implements kernel.Event: the message arrives.
func (s *sealed) Happen() {
	n, m := s.network, &s.Message
	l := n.link(m.From, m.To)
	l.inFlight--
	draw := l.drawFor(m.Content)
	if !s.unchanged() {
		n.Fail("member %d changed a %s that it had sent to member %d", m.From+1, m.Content.Kind, m.To+1)
		return
	}
	if !n.ends.Left(m, draw) {
		n.Diagram.Dropped(m.From, m.To, m.Content, "not sent before the crash")
		return
	}
	if p := l.partition; p != nil && draw.Chance(p.Rate) {
		p.Touch(n.Busy)
		n.Diagram.Dropped(m.From, m.To, m.Content, "partition")
		return
	}
	n.ends.Arrive(m)
}

// drawFor is where the chance of a message comes from.
func (l *link) drawFor(m *peerv1.Message) kernel.Stream {
	if AboutDisks(m) {
		return l.position
	}
	return l.draw
}

// AboutDisks reports whether a message says only how far disks are. Such messages draw from streams of their own, so
// that the others fare as without them.
func AboutDisks(m *peerv1.Message) bool {
	return m.Kind == peerv1.Kind_POSITION || m.Kind == peerv1.Kind_POSITION_QUERY || m.Kind == peerv1.Kind_POSITION_REPLY
}

// Call is how long a call of something other than a protocol takes from one node to another, unless it is lost.
func (n *Network) Call(from, to int) (time.Duration, bool) {
	l := n.link(from, to)
	if l.partition != nil || l.loss != nil && l.draw.Chance(l.loss.Rate) {
		return 0, false
	}
	return n.delay(l, l.draw), true
}

// Hop is how long it takes from one site's client to a node or back, unless it does not arrive.
func (n *Network) Hop(from, to int) (time.Duration, bool) {
	if from == to {
		return n.env.ClientRTT / 2, true
	}
	l := n.link(from, to)
	if l.partition != nil {
		l.partition.Touch(n.Busy)
		return 0, false
	}
	if l.loss != nil && l.draw.Chance(l.loss.Rate) {
		l.loss.Touch(n.Busy)
		return 0, false
	}
	return n.env.ClientRTT/2 + n.delay(l, l.draw), true
}

// Cut reports whether a partition is in force between two nodes, in one direction at least.
func (n *Network) Cut(a, b int) bool {
	return n.link(a, b).partition != nil || n.link(b, a).partition != nil
}

// InFlight reports whether messages are on their way to or from a node.
func (n *Network) InFlight(node int) bool {
	for other := range n.sites {
		if n.link(node, other).inFlight > 0 || n.link(other, node).inFlight > 0 {
			return true
		}
	}
	return false
}

// Begin puts a fault in force for its time.
func (n *Network) Begin(f *faults.Injected) {
	f.Active = true
	n.refresh()
	n.Diagram.Remark("begins: %v", f.Fault)
	n.After(f.For, func() { n.End(f) })
}

// End is when it is over, at the latest.
func (n *Network) End(f *faults.Injected) {
	if f.Active {
		f.Active = false
		n.refresh()
		n.Diagram.Remark("ends: %v", f.Fault)
	}
}

// refresh puts the active faults in force on every link; of two faults of one kind, the later.
func (n *Network) refresh() {
	for from := range n.sites {
		for to := range n.sites {
			l := n.link(from, to)
			l.partition, l.loss, l.duplicate, l.reorder = nil, nil, nil, nil
			for _, f := range n.Faults {
				if !f.Active || !f.Everywhere && f.Node != n.sites[from] && f.Node != n.sites[to] {
					continue
				}
				switch f.Kind {
				case faults.Partition:
					if f.Blocks(from, to) {
						l.partition = f
					}
				case faults.Loss:
					l.loss = f
				case faults.Duplicate:
					l.duplicate = f
				case faults.Reorder:
					l.reorder = f
				}
			}
		}
	}
}
