package transactions

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/history/precedence"
)

const (
	// Whose order is inferred: all transactions of a small history, else those of the cycles that the proposal has, and
	// who left what these found.
	maxInferred = 400
	maxRounds   = 20 // of inferring from what was inferred
)

// inference is what follows from values and clocks alone, whatever the order of the values of a key is.
type inference struct {
	*checker
	graph *precedence.Graph
	asked []int32
	reach [][]bool // of each one that is asked: the nodes that come after it
	drawn map[[2]int32]bool
}

// infer returns what follows from values and clocks alone, and the shortest cycle in that, if there is one: no order
// explains the answers then.
func (c *checker) infer(cycles []precedence.Cycle) (*precedence.Graph, *precedence.Cycle) {
	i := inference{
		checker: c, graph: c.graph(), asked: c.asked(cycles), reach: make([][]bool, len(c.all)),
		drawn: map[[2]int32]bool{},
	}
	c.addFound(i.graph, true)
	for range maxRounds {
		if _, acyclic := i.graph.Sort(); !acyclic {
			if found := i.graph.Cycles(c.ctx); len(found) > 0 {
				return i.graph, &found[0]
			}
			break // the context ended
		}
		for _, n := range i.asked {
			i.reach[n] = make([]bool, i.graph.Nodes())
			i.graph.Reach(n, i.reach[n])
		}
		if c.ctx.Err() != nil || !i.round() {
			break
		}
	}
	return i.graph, nil
}

// asked are the transactions whose order is inferred.
func (c *checker) asked(cycles []precedence.Cycle) (asked []int32) {
	wanted := make([]bool, len(c.all))
	want := func(i int32) {
		if i != precedence.NoNode && !wanted[i] && len(asked) < maxInferred {
			wanted[i] = true
			asked = append(asked, i)
		}
	}
	for _, cycle := range cycles {
		for _, i := range cycle.Operations() {
			want(int32(i))
		}
	}
	for _, i := range slices.Clone(asked) {
		for _, f := range c.reads[i] {
			want(f.writer)
		}
	}
	if len(c.all) <= maxInferred {
		for i := range c.all {
			want(int32(i))
		}
	}
	return slices.DeleteFunc(asked, func(i int32) bool { return !c.effect[i] })
}

// round draws what follows from what is known to come before what, and reports whether that is anything new.
func (i *inference) round() (more bool) {
	drawn := len(i.drawn)
	writers := map[string][]int32{}
	for _, w := range i.asked {
		if !i.sure[w] {
			continue
		}
		for _, a := range i.all[w].Writes {
			writers[a.Key] = append(writers[a.Key], w)
		}
	}
	for _, reader := range i.asked {
		for _, f := range i.reads[reader] {
			if !f.certain || !i.sure[reader] {
				continue
			}
			for _, other := range writers[f.key] {
				if other != reader && other != f.writer {
					i.keepApart(reader, f, other)
				}
			}
		}
	}
	return len(i.drawn) > drawn
}

// keepApart has nobody who left another value come between who left one and who found it.
func (i *inference) keepApart(reader int32, f found, other int32) {
	switch {
	case f.writer == precedence.NoNode:
		i.draw(reader, other, fmt.Sprintf("found nothing under key %s, where the next one left a value", name(f.key)))
	case i.reach[f.writer] != nil && i.reach[f.writer][other]:
		i.draw(reader, other, fmt.Sprintf("found what %s left of key %s, which the next one replaced later",
			i.who(f.writer), name(f.key)))
	case i.reach[other][reader]:
		i.draw(other, f.writer, fmt.Sprintf("left a value of key %s before %s, which found the next one's", name(f.key),
			i.who(reader)))
	}
}

func (i *inference) draw(from, to int32, told string) {
	if i.drawn[[2]int32{from, to}] {
		return
	}
	i.drawn[[2]int32{from, to}] = true
	p := i.graph.Point(told)
	i.graph.Add(from, p, precedence.ByPoint)
	i.graph.Add(p, to, precedence.ByPoint)
}

// positions are the places of the transactions in an order that keeps all edges, as far as there is one: of those that
// may come next it takes the one that returned first.
func (c *checker) positions(g *precedence.Graph) []int {
	before, first := g.Indegrees()
	ready := &byReturn{c: c}
	for _, n := range first {
		heap.Push(ready, n)
	}
	position := make([]int, len(c.all))
	for next := 1; ready.Len() > 0; next++ {
		n := heap.Pop(ready).(int32)
		if int(n) < len(c.all) {
			position[n] = next
		}
		for _, e := range g.Edges(n) {
			if before[e.To]--; before[e.To] == 0 {
				heap.Push(ready, e.To)
			}
		}
	}
	return position
}

// byReturn is a heap of nodes. Points come before transactions, and those of unknown outcome last.
type byReturn struct {
	c     *checker
	nodes []int32
}

func (r *byReturn) Len() int { return len(r.nodes) }

func (r *byReturn) Less(i, j int) bool {
	a, b := r.nodes[i], r.nodes[j]
	n := int32(len(r.c.all))
	switch {
	case a >= n || b >= n:
		return a >= n && b < n
	case r.c.known(a) != r.c.known(b):
		return r.c.known(a)
	}
	return r.c.all[a].Returned < r.c.all[b].Returned
}

func (r *byReturn) Swap(i, j int) { r.nodes[i], r.nodes[j] = r.nodes[j], r.nodes[i] }

func (r *byReturn) Push(n any) { r.nodes = append(r.nodes, n.(int32)) }

func (r *byReturn) Pop() any {
	last := len(r.nodes) - 1
	n := r.nodes[last]
	r.nodes = r.nodes[:last]
	return n
}
