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
	reached := make([]rscStep, len(g.edges))
	for start := range int32(len(g.ops)) {
		if sizes[component[start]] < 2 || len(found) > 0 && budget < 0 || ctx.Err() != nil {
			continue
		}
		cycle, work := g.through(start, component, reached)
		budget -= work
		operations := cycle.operations()
		slices.Sort(operations)
		if name := fmt.Sprint(operations); !known[name] {
			known[name] = true
			found = append(found, cycle)
		}
	}
	slices.SortStableFunc(found, func(a, b rscCycle) int {
		return cmp.Compare(len(a.operations()), len(b.operations()))
	})
	return found[:min(len(found), maxCycles)]
}

// components names each node's strongly connected component by one of its nodes (Kosaraju's algorithm): a walk against
// the edges, from the node where one along them ended last, reaches a whole component, beside what was seen before.
func (g *rscGraph) components() []int32 {
	reversed := make([][]rscEdge, len(g.edges))
	for n, edges := range g.edges {
		for _, e := range edges {
			reversed[e.to] = append(reversed[e.to], rscEdge{to: int32(n)})
		}
	}
	var order []int32
	seen := make([]bool, len(g.edges))
	for n := range int32(len(g.edges)) {
		order = walk(g.edges, n, seen, order)
	}
	component := make([]int32, len(g.edges))
	seen = make([]bool, len(g.edges))
	for _, n := range slices.Backward(order) {
		for _, same := range walk(reversed, n, seen, nil) {
			component[same] = n
		}
	}
	return component
}

// walk appends what a node leads to and was not seen, depth first: each node after what it leads to, and so the first
// one last.
func walk(edges [][]rscEdge, from int32, seen []bool, order []int32) []int32 {
	for stack := []int32{from}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case n < 0: // all that the node leads to was seen
			order = append(order, ^n)
		case !seen[n]:
			seen[n] = true
			stack = append(stack, ^n)
			for _, e := range edges[n] {
				stack = append(stack, e.to)
			}
		}
	}
	return order
}

// rscStep is how the search for a cycle came to a node, if the search of the cycle through start did.
type rscStep struct {
	start int32 // the operation, counted from 1, so that the zero value is of no search
	from  int32
	kind  edgeKind
}

// through finds a shortest cycle through an operation, counted in operations, and how many edges it followed. The
// operation is not alone in its component, so that there is one. The steps, one for each node, are reused by the search
// for the next cycle: a map of those reached took half of the time.
func (g *rscGraph) through(start int32, component []int32, reached []rscStep) (cycle rscCycle, work int) {
	// Points cost nothing, so that they are looked at before the operations that are as far away.
	level, next := []int32{start}, []int32(nil)
	for {
		for len(level) > 0 {
			n := level[len(level)-1]
			level = level[:len(level)-1]
			for _, e := range g.edges[n] {
				work++
				if reached[e.to].start == start+1 || component[e.to] != component[start] {
					continue
				}
				reached[e.to] = rscStep{start + 1, n, e.why}
				switch {
				case e.to == start:
					return g.back(start, reached), work
				case int(e.to) < len(g.ops):
					next = append(next, e.to)
				default:
					level = append(level, e.to)
				}
			}
		}
		level, next = next, level
	}
}

// back is the cycle from an operation to itself.
func (g *rscGraph) back(start int32, reached []rscStep) rscCycle {
	c := rscCycle{total: len(g.ops)}
	for n := start; len(c.nodes) == 0 || n != start; n = reached[n].from {
		c.nodes = append(c.nodes, reached[n].from)
		c.kinds = append(c.kinds, reached[n].kind)
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
