package precedence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

const (
	maxCycles    = 8         // that Cycles returns
	maxCycleWork = 4_000_000 // edges that are followed to find short ones, beyond the first
)

// Cycle is operations each of which has to come before the next one, and the last before the first.
type Cycle struct {
	nodes   []int32 // an operation first
	reasons []Reason
	total   int // how many operations the graph has
}

// Operations are the operations of the cycle, in its order.
func (c Cycle) Operations() []int {
	var operations []int
	for _, n := range c.nodes {
		if int(n) < c.total {
			operations = append(operations, int(n))
		}
	}
	return operations
}

// Cycles finds some cycles, the shortest first, if there are any. Each is the shortest through one of its operations,
// and the first of all unless the graph is so tangled that the search is cut off, or the context ended.
func (g *Graph) Cycles(ctx context.Context) []Cycle {
	var found []Cycle
	component := g.components()
	sizes := map[int32]int{}
	for _, c := range component {
		sizes[c]++
	}
	budget, known := maxCycleWork, map[string]bool{}
	reached := make([]arrival, len(g.edges))
	for start := range int32(g.operations) {
		if sizes[component[start]] < 2 || len(found) > 0 && budget < 0 || ctx.Err() != nil {
			continue
		}
		cycle, work := g.through(start, component, reached)
		budget -= work
		operations := cycle.Operations()
		slices.Sort(operations)
		if name := fmt.Sprint(operations); !known[name] {
			known[name] = true
			found = append(found, cycle)
		}
	}
	slices.SortStableFunc(found, func(a, b Cycle) int {
		return cmp.Compare(len(a.Operations()), len(b.Operations()))
	})
	return found[:min(len(found), maxCycles)]
}

// components names each node's strongly connected component by one of its nodes (Kosaraju's algorithm): a walk against
// the edges, from the node where one along them ended last, reaches a whole component, beside what was seen before.
func (g *Graph) components() []int32 {
	reversed := make([][]Edge, len(g.edges))
	for n, edges := range g.edges {
		for _, e := range edges {
			reversed[e.To] = append(reversed[e.To], Edge{To: int32(n)})
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
func walk(edges [][]Edge, from int32, seen []bool, order []int32) []int32 {
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
				stack = append(stack, e.To)
			}
		}
	}
	return order
}

// Reach marks in seen the nodes that come after one. It goes on behind none that seen has already.
func (g *Graph) Reach(node int32, seen []bool) {
	for _, e := range g.edges[node] {
		walk(g.edges, e.To, seen, nil)
	}
}

// arrival is how the search for a cycle came to a node, if the search of the cycle through start did.
type arrival struct {
	start int32 // the operation, counted from 1, so that the zero value is of no search
	from  int32
	why   Reason
}

// through finds a shortest cycle through an operation, counted in operations, and how many edges it followed. The
// operation is not alone in its component, so that there is one. The arrivals, one for each node, are reused by the
// search for the next cycle: a map of those reached took half of the time.
func (g *Graph) through(start int32, component []int32, reached []arrival) (cycle Cycle, work int) {
	// Points cost nothing, so that they are looked at before the operations that are as far away.
	level, next := []int32{start}, []int32(nil)
	for {
		for len(level) > 0 {
			n := level[len(level)-1]
			level = level[:len(level)-1]
			for _, e := range g.edges[n] {
				work++
				if reached[e.To].start == start+1 || component[e.To] != component[start] {
					continue
				}
				reached[e.To] = arrival{start + 1, n, e.Why}
				switch {
				case e.To == start:
					return g.back(start, reached), work
				case int(e.To) < g.operations:
					next = append(next, e.To)
				default:
					level = append(level, e.To)
				}
			}
		}
		level, next = next, level
	}
}

// back is the cycle from an operation to itself.
func (g *Graph) back(start int32, reached []arrival) Cycle {
	c := Cycle{total: g.operations}
	for n := start; len(c.nodes) == 0 || n != start; n = reached[n].from {
		c.nodes = append(c.nodes, reached[n].from)
		c.reasons = append(c.reasons, reached[n].why)
	}
	slices.Reverse(c.nodes)
	slices.Reverse(c.reasons)
	return c
}

// Step is why one operation of a cycle comes before the next one.
type Step struct {
	From, To int
	Why      Reason
	// Told says it of ByPoint, for people; its subject is the earlier operation.
	Told string
}

// Steps tells a cycle as reasons between operations.
func (g *Graph) Steps(c Cycle) []Step {
	var steps []Step
	var points []point
	for i, n := range c.nodes {
		if int(n) < c.total {
			steps = append(steps, Step{From: int(n)})
			points = points[:0]
		} else {
			points = append(points, g.points[int(n)-c.total])
		}
		to := c.nodes[(i+1)%len(c.nodes)]
		if int(to) >= c.total {
			continue
		}
		s := &steps[len(steps)-1]
		s.To, s.Why = int(to), c.reasons[i]
		if s.Why == ByPoint {
			s.Told = told(points)
		}
	}
	return steps
}

// told says what points on the way from an operation to the next one mean.
func told(points []point) string {
	var messages []string
	for _, p := range points {
		switch p.kind {
		case ofChecker:
			return p.told
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
	case last.kind == ofOperations:
		return "had ended before the next one began"
	case last.kind == ofWrites:
		return "is a write that had ended before the next one, a write too, began"
	case last.kind == ofKey:
		return "is a write that had ended before the next one, a read of its key, began"
	}
	return fmt.Sprintf("ended before the next one began, and %s knew it", last.client)
}
