package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

const (
	maxCycles    = 8         // that are tried to be confirmed by values
	maxCycleWork = 4_000_000 // edges that are followed to find short ones, beyond the first
)

// rscCycle is a cycle of nodes, an operation first.
type rscCycle struct {
	nodes []int32
	kinds []edgeKind // of the edge from each node to the next one, and from the last to the first
	ops   int        // how many of the nodes are operations
	total int        // how many operations the graph has
}

func (c rscCycle) operations() []int {
	var operations []int
	for _, n := range c.nodes {
		if int(n) < c.total {
			operations = append(operations, int(n))
		}
	}
	return operations
}

// cycles finds some cycles, the shortest first, if there are any. Each is the shortest through one of its operations,
// and the first of all unless the graph is so tangled that the search is cut off, or the context ended.
func (g *rscGraph) cycles(ctx context.Context) []rscCycle {
	var found []rscCycle
	component := g.components()
	sizes := map[int32]int{}
	for _, c := range component {
		sizes[c]++
	}
	budget, known := maxCycleWork, map[string]bool{}
	s := rscShortest{
		g: g, component: component, length: make([]int32, len(g.edges)), from: make([]int32, len(g.edges)),
		kind: make([]edgeKind, len(g.edges)),
	}
	for start := range int32(len(g.ops)) {
		if sizes[component[start]] < 2 || len(found) > 0 && budget < 0 || ctx.Err() != nil {
			continue
		}
		cycle, work, ok := s.through(start)
		budget -= work
		if !ok {
			continue
		}
		operations := cycle.operations()
		slices.Sort(operations)
		if name := fmt.Sprint(operations); !known[name] {
			known[name] = true
			found = append(found, cycle)
		}
	}
	slices.SortStableFunc(found, func(a, b rscCycle) int { return cmp.Compare(a.ops, b.ops) })
	return found[:min(len(found), maxCycles)]
}

// components numbers the strongly connected components (Tarjan's algorithm, without recursion).
func (g *rscGraph) components() []int32 {
	type frame struct {
		node int32
		next int
	}
	n := len(g.edges)
	component, index, low := make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range component {
		component[i] = -1
	}
	var stack []int32
	var counter, number int32
	for root := range int32(n) {
		if index[root] != 0 {
			continue
		}
		frames := []frame{{root, 0}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			v := f.node
			if f.next == 0 && index[v] == 0 {
				counter++
				index[v], low[v] = counter, counter
				stack = append(stack, v)
			}
			if f.next < len(g.edges[v]) {
				w := g.edges[v][f.next].to
				f.next++
				switch {
				case index[w] == 0:
					frames = append(frames, frame{w, 0})
				case component[w] < 0:
					low[v] = min(low[v], index[w])
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				u := frames[len(frames)-1].node
				low[u] = min(low[u], low[v])
			}
			if low[v] == index[v] {
				for {
					w := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					component[w] = number
					if w == v {
						break
					}
				}
				number++
			}
		}
	}
	return component
}

// rscShortest finds shortest cycles; what it needs is made once.
type rscShortest struct {
	g         *rscGraph
	component []int32
	length    []int32 // in operations, from the start, plus one; 0 if not reached
	from      []int32
	kind      []edgeKind
	reached   []int32
}

// through finds a shortest cycle through an operation, counted in operations, and how many edges it followed.
func (s *rscShortest) through(start int32) (cycle rscCycle, work int, ok bool) {
	defer func() {
		for _, n := range s.reached {
			s.length[n] = 0
		}
		s.reached = s.reached[:0]
	}()
	// Points cost nothing, so that they are looked at before the operations that are as far away.
	level, next := []int32{start}, []int32(nil)
	s.length[start] = 1
	s.reached = append(s.reached, start)
	for len(level) > 0 {
		for len(level) > 0 {
			n := level[len(level)-1]
			level = level[:len(level)-1]
			for _, e := range s.g.edges[n] {
				work++
				if e.to == start {
					return s.back(start, n, e.why), work, true
				}
				if s.component[e.to] != s.component[start] || s.length[e.to] != 0 {
					continue
				}
				s.reached = append(s.reached, e.to)
				s.from[e.to], s.kind[e.to] = n, e.why
				if int(e.to) < len(s.g.ops) {
					s.length[e.to] = s.length[n] + 1
					next = append(next, e.to)
				} else {
					s.length[e.to] = s.length[n]
					level = append(level, e.to)
				}
			}
		}
		level, next = next, level
	}
	return rscCycle{}, work, false
}

func (s *rscShortest) back(start, last int32, why edgeKind) rscCycle {
	c := rscCycle{kinds: []edgeKind{why}, total: len(s.g.ops)}
	for n := last; ; n = s.from[n] {
		c.nodes = append(c.nodes, n)
		if int(n) < len(s.g.ops) {
			c.ops++
		}
		if n == start {
			break
		}
		c.kinds = append(c.kinds, s.kind[n])
	}
	slices.Reverse(c.nodes)
	slices.Reverse(c.kinds)
	return c
}

// edgesOf tells a cycle as reasons between operations.
func (g *rscGraph) edgesOf(c rscCycle) []RSCEdge {
	var edges []RSCEdge
	var points []rscPoint
	for i, n := range c.nodes {
		if int(n) < len(g.ops) {
			edges = append(edges, RSCEdge{From: g.ops[n].Operation})
			points = points[:0]
		} else {
			points = append(points, g.points[int(n)-len(g.ops)])
		}
		to := c.nodes[(i+1)%len(c.nodes)]
		if int(to) >= len(g.ops) {
			continue
		}
		e := &edges[len(edges)-1]
		e.To = g.ops[to].Operation
		e.Why = why(e.From, e.To, c.kinds[i], points)
	}
	return edges
}

// why says what an edge means; its subject is the earlier operation.
func why(from, to Operation, kind edgeKind, points []rscPoint) string {
	switch kind {
	case byReading:
		return "left the value that the next one found"
	case byReplaced:
		return "found the value that the next one replaced"
	case byCarstamp:
		if a, b := from.Result.Carstamp, to.Result.Carstamp; !a.IsZero() && !b.IsZero() {
			return fmt.Sprintf("changed the key before the next one did, by their carstamps %s and %s", a, b)
		}
		return "changed the key before the next one did, by the carstamps of answers"
	}
	var messages []string
	for _, p := range points {
		switch p.kind {
		case ofFence:
			return fmt.Sprintf("came before a fence of %s, from %v to %v, which had ended before the next one began",
				p.fence.Client, p.fence.Invoked, p.fence.Returned)
		case ofMessage:
			messages = append(messages, fmt.Sprintf("from %s to %s, sent at %v and received at %v",
				p.message.From, p.message.To, p.message.Sent, p.message.Received))
		}
	}
	last := points[len(points)-1]
	switch {
	case len(messages) > 0:
		return "ended before a message " + strings.Join(messages, ", then one ") + ", before the next one began"
	case last.kind == ofWrites:
		return "is a write that had ended before the next one, a write too, began"
	case last.kind == ofKey:
		return "is a write that had ended before the next one, a read of its key, began"
	}
	return fmt.Sprintf("ended before the next one began, and %s knew it", last.client)
}

// explainCycle tells a cycle in words.
func explainCycle(edges []RSCEdge, remark string) string {
	var b strings.Builder
	b.WriteString("each of these operations has to come before the next one, and the last before the first:\n")
	for _, e := range edges {
		fmt.Fprintf(&b, "%s\n    %s\n", list([]Operation{e.From}), e.Why)
	}
	b.WriteString(remark)
	return strings.TrimSuffix(b.String(), "\n")
}
