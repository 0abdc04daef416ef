// Package precedence says what has to come before what in a history, and finds what has to come before itself: by what
// clients did one after the other, by what messages told, by fences, by real time, and by what a checker adds.
package precedence

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Message is what a process told another one outside of the store: an answer to a user who asks the next server, a
// context that is handed on, a session that moves. What its sender knew when it was sent, its receiver knows from then
// on.
type Message struct {
	From     string        // the client that sent it
	Sent     time.Duration // on the history's clock; operations that had returned before are told of
	To       string        // the client that received it
	Received time.Duration // after Sent; operations that are invoked after it know what was told
}

// Fence is a real-time fence that ended without an error: whatever came before it in causal order comes before every
// operation of any client that was invoked after its end (Regular Sequential Consistency, section 4.1). It fences all
// keys of the history, so check the history of a fenced service by itself.
type Fence struct {
	Client   string
	Invoked  time.Duration
	Returned time.Duration
}

// Operation is what clients and clocks say of an operation: an access to a register, or a transaction.
type Operation struct {
	Client   string        // who invoked it
	Learned  []Learned     // who got its answer; none if the outcome is unknown
	Invoked  time.Duration // when it was invoked first
	Returned time.Duration // when the first answer came, if Known
	Known    bool
	Writes   bool
	Keys     []string // what it writes; of one that does not write, what it reads
}

// Learned is when a client got an answer.
type Learned struct {
	Client string
	At     time.Duration
}

// Order is what real time says.
type Order uint8

const (
	// Regular has a write that had returned come before each write, and before each read of one of its keys, that was
	// invoked later (Regular Sequential Consistency, section 3.4).
	Regular Order = iota
	// Strict has each operation that had returned come before each one that was invoked later.
	Strict
)

// Graph has an edge from what comes first to what comes later. Its nodes are the operations, by their places, and after
// them points: moments that many operations lie before and after, so that edges between all of these need not be drawn.
type Graph struct {
	operations int
	points     []point
	edges      [][]Edge // by node
}

// point is a moment.
type point struct {
	kind    pointKind
	client  string  // ofClient
	message Message // ofMessage
	fence   Fence   // ofFence
	told    string  // ofChecker
}

// pointKind is what a point stands for.
type pointKind uint8

const (
	ofClient     pointKind = iota // a client learned something
	ofMessage                     // a message was under way
	ofFence                       // a fence
	ofFences                      // some fences had ended
	ofOperations                  // some operations had ended, before an operation
	ofWrites                      // some writes had ended, before a write
	ofKey                         // some writes of a key had ended, before a read of it
	ofChecker                     // what a checker has found
)

// Edge leads to what comes later.
type Edge struct {
	To  int32
	Why Reason
}

// Reason is why there is an edge. ByPoint is the graph's own, and a point on the way says more; what a checker adds has
// others.
type Reason uint8

// ByPoint is the reason of edges from and to points.
const ByPoint Reason = 0

// NoNode stands where there is no node.
const NoNode = int32(-1)

// New draws what holds whatever was read and written.
func New(operations []Operation, messages []Message, fences []Fence, order Order) *Graph {
	g := &Graph{operations: len(operations), edges: make([][]Edge, len(operations))}
	g.addClients(operations, messages, fences)
	if order == Strict {
		g.addRealTime(operations)
	} else {
		g.addRealTimeOfWrites(operations)
	}
	return g
}

// Add draws an edge, unless one of its ends is NoNode.
func (g *Graph) Add(from, to int32, why Reason) {
	if from != NoNode && to != NoNode {
		g.edges[from] = append(g.edges[from], Edge{to, why})
	}
}

// Point adds a point for a checker. It says, for people, why what comes before the point comes before what comes after
// it; its subject is what comes before.
func (g *Graph) Point(told string) (node int32) { return g.point(point{kind: ofChecker, told: told}) }

// Edges are those from a node. They are the graph's.
func (g *Graph) Edges(node int32) []Edge { return g.edges[node] }

// Nodes is how many nodes there are.
func (g *Graph) Nodes() int { return len(g.edges) }

func (g *Graph) point(p point) int32 {
	g.points = append(g.points, p)
	g.edges = append(g.edges, nil)
	return int32(len(g.edges) - 1)
}

// event is something that a client did or learned.
type event struct {
	at   time.Duration
	kind eventKind
	node int32
}

// eventKind orders events of one time, when nothing is known to come before anything.
type eventKind uint8

const (
	does   eventKind = iota // the node comes after what the client knows
	learns                  // the client knows of the node from now on
)

// addClients draws causal order, but for what was read: it follows each client through time. It also draws fences,
// since what comes before a fence is what is known at its client.
func (g *Graph) addClients(operations []Operation, messages []Message, fences []Fence) {
	events := map[string][]event{}
	add := func(client string, e event) { events[client] = append(events[client], e) }
	for i, o := range operations {
		add(o.Client, event{o.Invoked, does, int32(i)})
		for _, l := range o.Learned {
			add(l.Client, event{l.At, learns, int32(i)})
		}
	}
	for _, m := range messages {
		node := g.point(point{kind: ofMessage, message: m})
		add(m.From, event{m.Sent, does, node})
		add(m.To, event{m.Received, learns, node})
	}
	var ends, begins []event
	for _, f := range fences {
		node := g.point(point{kind: ofFence, fence: f})
		add(f.Client, event{f.Invoked, does, node})
		ends = append(ends, event{at: f.Returned, node: node})
	}
	for _, client := range slices.Sorted(maps.Keys(events)) {
		slices.SortStableFunc(events[client], func(a, b event) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind))
		})
		knows := NoNode
		for _, e := range events[client] {
			if e.kind == does {
				g.Add(knows, e.node, ByPoint)
				continue
			}
			p := g.point(point{kind: ofClient, client: client})
			g.Add(e.node, p, ByPoint)
			g.Add(knows, p, ByPoint)
			knows = p
		}
	}
	for i, o := range operations {
		begins = append(begins, event{at: o.Invoked, node: int32(i)})
	}
	g.before(ends, begins, ofFences)
}

// addRealTime draws the edges of Strict.
func (g *Graph) addRealTime(operations []Operation) {
	var ends, begins []event
	for i, o := range operations {
		begins = append(begins, event{at: o.Invoked, node: int32(i)})
		if o.Known {
			ends = append(ends, event{at: o.Returned, node: int32(i)})
		}
	}
	g.before(ends, begins, ofOperations)
}

// addRealTimeOfWrites draws the edges of Regular.
func (g *Graph) addRealTimeOfWrites(operations []Operation) {
	var ends, begins []event
	keyEnds, keyBegins := map[string][]event{}, map[string][]event{}
	for i, o := range operations {
		begin, end := event{at: o.Invoked, node: int32(i)}, event{at: o.Returned, node: int32(i)}
		if o.Writes {
			begins = append(begins, begin)
		}
		if o.Writes && o.Known {
			ends = append(ends, end)
		}
		for _, key := range o.Keys {
			switch {
			case !o.Writes:
				keyBegins[key] = append(keyBegins[key], begin)
			case o.Known:
				keyEnds[key] = append(keyEnds[key], end)
			}
		}
	}
	g.before(ends, begins, ofWrites)
	for _, key := range slices.Sorted(maps.Keys(keyBegins)) {
		g.before(keyEnds[key], keyBegins[key], ofKey)
	}
}

// before draws an edge from all that ended before a time to all that began after it.
func (g *Graph) before(ends, begins []event, kind pointKind) {
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(ends, byTime)
	slices.SortStableFunc(begins, byTime)
	last := NoNode
	for _, b := range begins {
		for len(ends) > 0 && ends[0].at < b.at {
			p := g.point(point{kind: kind})
			g.Add(ends[0].node, p, ByPoint)
			g.Add(last, p, ByPoint)
			last, ends = p, ends[1:]
		}
		g.Add(last, b.node, ByPoint)
	}
}

// Sort puts the operations into an order that all edges agree with, and reports whether there is one. Without one, it
// gives those that do not come after a cycle.
func (g *Graph) Sort() (order []int32, acyclic bool) {
	before, ready := g.Indegrees()
	seen := 0
	for len(ready) > 0 {
		n := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		seen++
		if int(n) < g.operations {
			order = append(order, n)
		}
		for _, e := range g.edges[n] {
			if before[e.To]--; before[e.To] == 0 {
				ready = append(ready, e.To)
			}
		}
	}
	return order, seen == len(g.edges)
}

// Indegrees counts the edges into each node, and lists the nodes without any.
func (g *Graph) Indegrees() (before, first []int32) {
	before = make([]int32, len(g.edges))
	for _, edges := range g.edges {
		for _, e := range edges {
			before[e.To]++
		}
	}
	for n, count := range before {
		if count == 0 {
			first = append(first, int32(n))
		}
	}
	return before, first
}
