// Package generate makes mutants from the product's own code: operators over the syntax tree, each of one kind of
// mistake that a person may make in a protocol. A place where an operator applies is a site; a draw takes sites evenly
// over packages and operators, by a seed, and the same seed takes the same ones of the same code on any machine.
//
// Left out is what no check of a store could see, be it ever so strong: counters and texts for people, the names of
// paths, what is said of a damaged disk or of input that no sound member sends, and a timer that is one nanosecond off.
// operators.go says so for each operator. So is what keeps every promise, by what the code around it says: unchanged.go
// and people.go tell it.
package generate

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/georegister/georegister/test/mutants"
)

// Packages are the folders whose code is mutated: all protocols, what they share, and those who decide on views.
var Packages = []string{
	"replica/protocol/abd", "replica/protocol/caspaxos", "replica/protocol/curp", "replica/protocol/curp/store",
	"replica/protocol/curpraft", "replica/protocol/epaxos", "replica/protocol/gryff", "replica/protocol/gus",
	"replica/protocol/instance", "replica/protocol/layered", "replica/protocol/raft", "replica/protocol/rmwpaxos",
	"replica/protocol/base", "replica/protocol/member", "replica/protocol/position", "replica/protocol/quorum",
	"replica/protocol/session", "replica/membership", "replica/view", "witness/core",
}

// Site is a place where an operator applies.
type Site struct {
	// Mutant is named for it: package, operator, file, function, and which one of the operator's in that function.
	mutants.Mutant
	Operator string
	function *function
	pieces   []piece
	instead  []piece // see change
	at       int     // where the changed statement begins, as an offset in the file
	keeps    bool    // every promise, by what the code says: it is left out
}

// Hash tells a site's change from that of another version of the code.
func (s *Site) Hash() string {
	h := fnv.New32a()
	h.Write([]byte(s.Diff()))
	return fmt.Sprintf("%08x", h.Sum32())
}

// Diff is the change for people to read: lines that go, and lines that come.
func (s *Site) Diff() string {
	var b strings.Builder
	for _, e := range s.Edits {
		before, after := strings.SplitAfter(e.Old, "\n"), strings.SplitAfter(e.New, "\n")
		before, after = before[:len(before)-1], after[:len(after)-1]
		head := 0
		for head < min(len(before), len(after)) && before[head] == after[head] {
			head++
		}
		tail := 0
		for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
			tail++
		}
		write(&b, " ", before[:head])
		write(&b, "-", before[head:len(before)-tail])
		write(&b, "+", after[head:len(after)-tail])
		write(&b, " ", before[len(before)-tail:])
	}
	return b.String()
}

func write(b *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		b.WriteString(mark + l)
	}
}

// Sites lists all sites of the packages, in the order of packages, operators, files and places. No two change the code
// in the same way: the first operator has it.
func (m *Module) Sites() []*Site {
	return slices.DeleteFunc(m.sites(), func(s *Site) bool { return s.keeps })
}

// sites are those, and what is left out since it keeps every promise.
func (m *Module) sites() []*Site {
	var all []*Site
	for _, p := range m.packages {
		seen := map[string]bool{}
		for _, o := range operators {
			for _, f := range p.functions {
				count := 0
				for _, c := range o.changes(f) {
					count++
					s := f.site(o, c, count)
					if s == nil || seen[s.key()] {
						continue
					}
					seen[s.key()] = true
					s.keeps = c.keeps || f.isForPeople(c)
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// Draw takes so many sites, or all if there are fewer, each of which compiles: package after package, each with the
// operator that has been taken least. What has no site of its own left, another one takes the place of. What is left out
// since it keeps every promise has its turn, so that the turns of others do not depend on what is known of it.
func (m *Module) Draw(seed uint64, count int) []*Site {
	d := newDraw(m.sites(), seed)
	var drawn []*Site
	for len(drawn) < count {
		s := d.next(m)
		if s == nil {
			break
		}
		if !s.keeps {
			drawn = append(drawn, s)
		}
	}
	return drawn
}

// Mutants are those of sites.
func Mutants(sites []*Site) []mutants.Mutant {
	var all []mutants.Mutant
	for _, s := range sites {
		all = append(all, s.Mutant)
	}
	return all
}

// Short names a package as the names of mutants do.
func Short(folder string) string {
	folder = strings.TrimPrefix(folder, "replica/")
	return strings.TrimPrefix(folder, "protocol/")
}

// Operators lists the operators' names and what each of them does.
func Operators() (names, what []string) {
	for _, o := range operators {
		names, what = append(names, o.name), append(what, o.breaks)
	}
	return names, what
}

// Find returns the site of that name, or nil.
func Find(sites []*Site, name string) *Site {
	if i := slices.IndexFunc(sites, func(s *Site) bool { return s.Name == name }); i >= 0 {
		return sites[i]
	}
	return nil
}
