package view_test

import (
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// Table 2 of the Gus paper, and what is on its edges.
func TestRelaxedQuorums(t *testing.T) {
	for _, c := range []struct{ n, f, read, write, hold int }{
		{7, 2, 4, 5, 5}, {9, 2, 5, 7, 6}, {11, 3, 6, 8, 8}, {13, 3, 7, 10, 9}, // the table's
		{7, 1, 4, 6, 4}, {9, 1, 5, 8, 5},
	} {
		r, ok := view.RelaxedFor(c.n, c.f)
		if want := (view.Relaxed{Read: c.read, Write: c.write, Hold: c.hold}); !ok || r != want {
			t.Errorf("n = %d, f = %d: %+v, %v; want %+v", c.n, c.f, r, ok, want)
		}
	}
	for _, c := range []struct{ n, f int }{
		{3, 1}, {5, 1}, {5, 2}, // not needed
		{7, 3}, {9, 4}, {11, 5}, // theorem 1
		{9, 3}, {11, 4}, // the inequality
		{7, 0}, {7, -1}, {7, 7},
	} {
		if r, ok := view.RelaxedFor(c.n, c.f); ok {
			t.Errorf("n = %d, f = %d: %+v, want none", c.n, c.f, r)
		}
	}
}

// What the sizes are for: quorums meet, a writer that hears of Write always knows what to do, and a tag that it gave up
// is never held by Hold.
func TestRelaxedQuorumsDo(t *testing.T) {
	some := 0
	for n := range 40 {
		for f := range n {
			r, ok := view.RelaxedFor(n, f)
			if !ok {
				continue
			}
			some++
			if 2*r.Write <= n || 2*r.Read <= n || r.Hold > n-f {
				t.Errorf("n = %d, f = %d: %+v", n, f, r)
			}
			for holders := range r.Read - 1 { // beside the writer: too few to keep the tag
				if stale := r.Write - 1 - holders; stale < n-r.Hold || n-1-stale >= r.Hold {
					t.Errorf("n = %d, f = %d: with %d other holders of %d, %d could hold the tag", n, f,
						holders, r.Write, n-1-stale)
				}
			}
		}
	}
	if some == 0 {
		t.Error("there are none")
	}
}
