package generate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// draw takes sites: those of a package and an operator are a cell, in an order of the seed's.
type draw struct {
	packages []string
	cells    map[string]map[string][]*Site
	order    []string       // of operators
	taken    map[string]int // by operator
	of       map[string]map[string]int
	at       int // of the packages
}

func newDraw(sites []*Site, seed uint64) *draw {
	d := &draw{cells: map[string]map[string][]*Site{}, taken: map[string]int{}, of: map[string]map[string]int{}}
	for _, s := range sites {
		if d.cells[s.Package] == nil {
			d.cells[s.Package], d.of[s.Package] = map[string][]*Site{}, map[string]int{}
			d.packages = append(d.packages, s.Package)
		}
		cell := d.cells[s.Package]
		cell[s.Operator] = append(cell[s.Operator], s)
	}
	for _, o := range operators {
		d.order = append(d.order, o.name)
	}
	for _, p := range d.packages {
		for _, o := range d.order {
			slices.SortFunc(d.cells[p][o], func(a, b *Site) int {
				return cmp.Or(cmp.Compare(place(seed, a), place(seed, b)), strings.Compare(a.Name, b.Name))
			})
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(d.packages), func(i, j int) { d.packages[i], d.packages[j] = d.packages[j], d.packages[i] })
	random.Shuffle(len(d.order), func(i, j int) { d.order[i], d.order[j] = d.order[j], d.order[i] })
	return d
}

// place is where a seed puts a site among those of its cell. It depends on nothing else, so that most of what a seed draws
// is the same after the code has changed elsewhere.
func place(seed uint64, s *Site) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, s.Name)
	return rand.NewPCG(h.Sum64(), seed).Uint64()
}

// next takes a site that compiles; nil if there is none left.
func (d *draw) next(m *Module) *Site {
	for range d.packages {
		p := d.packages[d.at%len(d.packages)]
		d.at++
		for o := d.least(p); o != ""; o = d.least(p) {
			s := d.cells[p][o][0]
			d.cells[p][o] = d.cells[p][o][1:]
			if m.Compiles(s) {
				d.taken[o]++
				d.of[p][o]++
				return s
			}
		}
	}
	return nil
}

// least is the operator that has been taken least in a package, and of several the one least taken in all; empty if
// the package has no site left.
func (d *draw) least(p string) string {
	left := slices.DeleteFunc(slices.Clone(d.order), func(o string) bool { return len(d.cells[p][o]) == 0 })
	if len(left) == 0 {
		return ""
	}
	return slices.MinFunc(left, func(a, b string) int {
		if c := d.of[p][a] - d.of[p][b]; c != 0 {
			return c
		}
		return d.taken[a] - d.taken[b]
	})
}
