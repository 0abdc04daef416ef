package precedence

import "slices"

// Frontier says which operations may come next, in a search that puts them into an order that keeps all edges: one
// after the other, and back again.
type Frontier struct {
	graph  *Graph
	before []int32 // edges into each node from what is not taken
	ready  []int32 // operations that nothing has to come before any more
}

// Taken is an operation that was taken, and where it was among those that are ready.
type Taken struct {
	operation int32
	at        int
	ready     int // how many these were, without it
}

// NewFrontier begins with nothing taken. No edge may be added to the graph any more.
func NewFrontier(g *Graph) *Frontier {
	f := &Frontier{graph: g}
	var first []int32
	f.before, first = g.Indegrees()
	for _, n := range first {
		f.before[n] = 1
		f.release(n)
	}
	return f
}

// Ready are the operations that may come next. They are the frontier's, until the next one is taken.
func (f *Frontier) Ready() []int32 { return f.ready }

// Take puts an operation next that is ready.
func (f *Frontier) Take(operation int32) Taken {
	at := slices.Index(f.ready, operation)
	f.ready = slices.Delete(f.ready, at, at+1)
	t := Taken{operation, at, len(f.ready)}
	for _, e := range f.graph.edges[operation] {
		f.release(e.To)
	}
	return t
}

// Untake undoes the latest Take that was not undone.
func (f *Frontier) Untake(t Taken) {
	for _, e := range slices.Backward(f.graph.edges[t.operation]) {
		f.retain(e.To)
	}
	f.ready = slices.Insert(f.ready[:t.ready], t.at, t.operation)
}

// release takes back one edge into a node. Points that nothing has to come before are passed at once.
func (f *Frontier) release(n int32) {
	if f.before[n]--; f.before[n] > 0 {
		return
	}
	if int(n) < f.graph.operations {
		f.ready = append(f.ready, n)
		return
	}
	for _, e := range f.graph.edges[n] {
		f.release(e.To)
	}
}

// retain undoes release.
func (f *Frontier) retain(n int32) {
	if f.before[n] == 0 && int(n) >= f.graph.operations {
		for _, e := range f.graph.edges[n] {
			f.retain(e.To)
		}
	}
	f.before[n]++
}
