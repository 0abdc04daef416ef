package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// rscGraph is what comes before what. Its nodes are the operations and, after them, points: moments that many
// operations lie before and after, so that the edges between all of these need not be drawn.
type rscGraph struct {
	ops    []*rscOp
	points []rscPoint
	edges  [][]rscEdge // by node
}

// rscPoint is a moment.
type rscPoint struct {
	kind    pointKind
	client  string  // ofProcess
	message Message // ofMessage
	fence   Fence   // ofFence
}

// pointKind is what a point stands for.
type pointKind uint8

const (
	ofProcess pointKind = iota // a client learned something
	ofMessage                  // a message was under way
	ofFence                    // a fence
	ofFences                   // some fences had ended
	ofWrites                   // some writes had ended, before a write
	ofKey                      // some writes of a key had ended, before a read of it
)

// rscEdge leads to what comes later.
type rscEdge struct {
	to  int32
	why edgeKind
}

// edgeKind is why there is an edge. Where a point is on the way, that says it.
type edgeKind uint8

const (
	byPoint    edgeKind = iota
	byReading           // the later one found what the earlier one left
	byReplaced          // the later one replaced what the earlier one found
	byCarstamp          // both changed the key, in the order of the carstamps
)

// newRSCGraph draws what holds whatever the order of the writes is: processes, messages, fences and real time.
func newRSCGraph(ops []*rscOp, options RSCOptions) *rscGraph {
	g := &rscGraph{ops: ops, edges: make([][]rscEdge, len(ops))}
	g.addProcesses(options)
	g.addRealTime()
	return g
}

func (g *rscGraph) point(p rscPoint) int32 {
	g.points = append(g.points, p)
	g.edges = append(g.edges, nil)
	return int32(len(g.edges) - 1)
}

// edge draws an edge, unless it has one end only.
func (g *rscGraph) edge(from, to int32, why edgeKind) {
	if from != noNode && to != noNode {
		g.edges[from] = append(g.edges[from], rscEdge{to, why})
	}
}

// noNode stands where there is no node.
const noNode = int32(-1)

// rscEvent is something that a process did or learned.
type rscEvent struct {
	at   time.Duration
	kind rscEventKind
	node int32
}

// rscEventKind orders events of one time, when nothing is known to come before anything.
type rscEventKind uint8

const (
	does   rscEventKind = iota // the node comes after what the process knows
	learns                     // the process knows of the node from now on
)

// addProcesses draws causal order, but for what was read: it follows each process through time. It also draws fences,
// since what comes before a fence is what is known at its process.
func (g *rscGraph) addProcesses(options RSCOptions) {
	events := map[string][]rscEvent{}
	add := func(client string, e rscEvent) { events[client] = append(events[client], e) }
	for i, o := range g.ops {
		add(o.asker, rscEvent{o.Invoked, does, int32(i)})
		for _, l := range o.learned {
			add(l.client, rscEvent{l.at, learns, int32(i)})
		}
	}
	for _, m := range options.Messages {
		node := g.point(rscPoint{kind: ofMessage, message: m})
		add(m.From, rscEvent{m.Sent, does, node})
		add(m.To, rscEvent{m.Received, learns, node})
	}
	var ends, begins []rscEvent
	for _, f := range options.Fences {
		node := g.point(rscPoint{kind: ofFence, fence: f})
		add(f.Client, rscEvent{f.Invoked, does, node})
		ends = append(ends, rscEvent{at: f.Returned, node: node})
	}
	for _, client := range slices.Sorted(maps.Keys(events)) {
		slices.SortStableFunc(events[client], func(a, b rscEvent) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind))
		})
		knows := noNode
		for _, e := range events[client] {
			if e.kind == does {
				g.edge(knows, e.node, byPoint)
				continue
			}
			p := g.point(rscPoint{kind: ofProcess, client: client})
			g.edge(e.node, p, byPoint)
			g.edge(knows, p, byPoint)
			knows = p
		}
	}
	for i, o := range g.ops {
		begins = append(begins, rscEvent{at: o.Invoked, node: int32(i)})
	}
	g.before(ends, begins, ofFences)
}

// addRealTime draws the edges from writes that had returned.
func (g *rscGraph) addRealTime() {
	var ends, begins []rscEvent
	keyEnds, keyBegins := map[string][]rscEvent{}, map[string][]rscEvent{}
	for i, o := range g.ops {
		begin, end, key := rscEvent{at: o.Invoked, node: int32(i)},
			rscEvent{at: o.Returned, node: int32(i)}, o.Request.Key
		switch {
		case !o.writes():
			keyBegins[key] = append(keyBegins[key], begin)
		case o.known:
			ends, keyEnds[key] = append(ends, end), append(keyEnds[key], end)
			fallthrough
		default:
			begins = append(begins, begin)
		}
	}
	g.before(ends, begins, ofWrites)
	for _, key := range slices.Sorted(maps.Keys(keyBegins)) {
		g.before(keyEnds[key], keyBegins[key], ofKey)
	}
}

// before draws an edge from all that ended before a time to all that began after it.
func (g *rscGraph) before(ends, begins []rscEvent, kind pointKind) {
	byTime := func(a, b rscEvent) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(ends, byTime)
	slices.SortStableFunc(begins, byTime)
	last := noNode
	for _, b := range begins {
		for len(ends) > 0 && ends[0].at < b.at {
			p := g.point(rscPoint{kind: kind})
			g.edge(ends[0].node, p, byPoint)
			g.edge(last, p, byPoint)
			last, ends = p, ends[1:]
		}
		g.edge(last, b.node, byPoint)
	}
}

// addVersions draws what follows from the order of one key's changes: who found a value comes after who left it, and
// before who replaced it.
func (g *rscGraph) addVersions(groups []rscGroup) {
	for i, group := range groups {
		next := noNode
		if i+1 < len(groups) {
			next = groups[i+1].changer
		}
		g.edge(group.changer, next, byCarstamp)
		for _, o := range group.observers {
			g.edge(group.changer, o, byReading)
			g.edge(o, next, byReplaced)
		}
	}
}

// sort puts the operations into an order that all edges agree with, and reports whether there is one. Without one, it
// gives those that do not come after a cycle.
func (g *rscGraph) sort() (order []int32, acyclic bool) {
	before, ready := g.indegrees()
	seen := 0
	for len(ready) > 0 {
		n := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		seen++
		if int(n) < len(g.ops) {
			order = append(order, n)
		}
		for _, e := range g.edges[n] {
			if before[e.to]--; before[e.to] == 0 {
				ready = append(ready, e.to)
			}
		}
	}
	return order, seen == len(g.edges)
}

// indegrees counts the edges into each node, and lists the nodes without any.
func (g *rscGraph) indegrees() (before, first []int32) {
	before = make([]int32, len(g.edges))
	for _, edges := range g.edges {
		for _, e := range edges {
			before[e.to]++
		}
	}
	for n, count := range before {
		if count == 0 {
			first = append(first, int32(n))
		}
	}
	return before, first
}
