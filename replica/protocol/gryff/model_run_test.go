package gryff_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/near"
)

// modelSearch looks at every state that a model may come to, once. States that differ in the names of members only are
// the same.
type modelSearch struct {
	*model
	limit     int // of states
	seed      maphash.Seed
	known     map[uint64]struct{}
	explained map[uint64]bool // histories
	alike     []int           // members that no operation names
	path      []choice
	walks     int
	wrong     string
}

func (m *model) search(limit int) *modelSearch {
	r := &modelSearch{
		model: m, limit: limit, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}, explained: map[uint64]bool{},
	}
	for member := range modelMembers - 1 {
		named := slices.ContainsFunc(m.program, func(o planned) bool { return o.home == member })
		if !named && (m.faults.changes == 0 || newView.has(member)) {
			r.alike = append(r.alike, member)
		}
	}
	s := m.initial()
	r.look(&s)
	return r
}

func (r *modelSearch) ended() bool { return r.wrong != "" || len(r.known) >= r.limit }

// walk looks at states on so many ways from the beginning to an end, where there are too many for a search. On each way
// some steps are slow: the step that comes next is the one of the highest rank, of ranks that are drawn for the way and
// now and then anew.
func (m *model) walk(ways int) *modelSearch {
	r := &modelSearch{model: m, seed: maphash.MakeSeed(), explained: map[uint64]bool{}}
	rng := rand.New(rand.NewPCG(1, 2))
	for r.walks = 0; r.walks < ways && r.wrong == ""; r.walks++ {
		s := m.initial()
		r.path = r.path[:0]
		ranks := map[choice]uint64{}
		for more := true; more; {
			var drawn modelState
			var step choice
			highest := uint64(0)
			m.next(&s, func(c choice, n modelState) {
				if ranks[c] == 0 || rng.IntN(40) == 0 {
					ranks[c] = 1 + rng.Uint64N(1<<20)
				}
				if ranks[c] > highest {
					step, drawn, highest = c, n, ranks[c]
				}
			})
			if more = highest > 0; more {
				ranks[step] = 1 + rng.Uint64N(1<<20)
				s = drawn
				r.path = append(r.path, step)
				more = r.explains(&s)
			}
		}
	}
	return r
}

// look searches on from a state.
func (r *modelSearch) look(s *modelState) {
	r.next(s, func(c choice, n modelState) {
		if r.ended() {
			return
		}
		r.sort(&n)
		h := maphash.Comparable(r.seed, n)
		if _, again := r.known[h]; again {
			return
		}
		r.known[h] = struct{}{}
		r.path = append(r.path, c)
		if !r.explains(&n) {
			return
		}
		r.look(&n)
		r.path = r.path[:len(r.path)-1]
	})
}

// explains judges a state, and tells of one that is wrong.
func (r *modelSearch) explains(s *modelState) bool {
	if r.judge(s) {
		return true
	}
	var words strings.Builder
	for _, c := range r.path {
		fmt.Fprintln(&words, c)
	}
	for i, o := range r.program {
		fmt.Fprintf(&words, "operation %d of session %d, key %d: read %x, wrote %x, returned %t\n",
			i, o.session, o.key, s.ops[i].read, s.ops[i].wrote, s.ops[i].returned)
	}
	r.wrong = words.String()
	return false
}

// sort gives members that are alike names by what they hold and have answered.
func (r *modelSearch) sort(s *modelState) {
	bit := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	type named struct {
		what   uint64
		member int
	}
	order := make([]named, 0, modelMembers)
	sorted := true
	for _, i := range r.alike {
		m := &s.members[i]
		what := uint64(m.values[0])<<16 | uint64(m.values[1])
		what = what<<2 | uint64(m.epoch)
		what = what<<4 | bit(m.votes)<<3 | bit(m.told)<<2 | bit(int(s.lost) == i)<<1
		for j := range s.ops {
			what = what<<2 | bit(s.ops[j].answers.has(i))<<1 | bit(s.ops[j].newest.has(i))
		}
		for j := range s.members {
			what = what<<1 | bit(s.members[j].copied.has(i))
		}
		for j := range s.ops {
			what = what*31 + uint64(s.ops[j].had[i]) // those for which that is the same may have either name
		}
		sorted = sorted && (len(order) == 0 || order[len(order)-1].what <= what)
		order = append(order, named{what, i})
	}
	if sorted {
		return
	}
	slices.SortFunc(order, func(a, b named) int {
		if a.what < b.what {
			return -1
		}
		return int(bit(a.what > b.what))
	})
	var to [modelMembers]int
	for i := range to {
		to[i] = i
	}
	for i, o := range order {
		to[o.member] = r.alike[i]
	}
	rename := func(old set) (renamed set) {
		for i := range to {
			if old.has(i) {
				renamed.add(to[i])
			}
		}
		return renamed
	}
	was := s.members
	for i := range to {
		s.members[to[i]] = was[i]
	}
	for i := range s.members {
		s.members[i].copied = rename(s.members[i].copied)
	}
	for i := range s.ops {
		had := s.ops[i].had
		for j := range to {
			s.ops[i].had[to[j]] = had[j]
		}
		s.ops[i].answers, s.ops[i].newest = rename(s.ops[i].answers), rename(s.ops[i].newest)
	}
	if s.lost >= 0 {
		s.lost = int8(to[s.lost])
	}
}

// seen is what clients know of an operation.
type seen struct {
	begun, returned, pending bool
	read, wrote              stamp
	before, writes           set
}

// judge reports whether there is an order, as regular sequential consistency wants one, of what clients have seen until
// now.
func (r *modelSearch) judge(s *modelState) bool {
	var all [modelOps]seen
	for i := range r.program {
		o := &s.ops[i]
		all[i] = seen{begun: o.phase != notBegun, returned: o.returned, pending: !o.returned && o.wrote != 0,
			read: o.read, wrote: o.wrote, before: o.before, writes: o.writes}
	}
	h := maphash.Comparable(r.seed, all)
	if ok, known := r.explained[h]; known {
		return ok
	}
	// Who reads a key last finds the highest of what was written there, unless more is under way.
	var last [modelKeys]stamp
	var open [modelKeys]bool
	for i, o := range r.program {
		if all[i].returned {
			last[o.key] = max(last[o.key], all[i].wrote)
		}
		open[o.key] = open[o.key] || all[i].pending
	}
	var place func(placed set, values [modelKeys]stamp) bool
	place = func(placed set, values [modelKeys]stamp) bool {
		done := true
		for key := range values {
			done = done && (open[key] || values[key] == last[key])
		}
		for i, o := range r.program {
			a := &all[i]
			done = done && (!a.returned || placed.has(i))
			if placed.has(i) || !a.returned && !a.pending || a.before&^placed != 0 ||
				r.mustFollow(i, a.writes)&^placed != 0 {
				continue
			}
			next := values
			if o.kind != register.Write && values[o.key] != a.read {
				continue
			}
			if o.kind != register.Read {
				next[o.key] = a.wrote
			}
			with := placed
			with.add(i)
			if place(with, next) {
				return true
			}
		}
		return done
	}
	ok := place(0, [modelKeys]stamp{})
	r.explained[h] = ok
	return ok
}

// mustFollow are those of some writes that had returned which come before an operation: before a write all of them,
// before a read those of its key.
func (r *modelSearch) mustFollow(op int, writes set) (of set) {
	for i, o := range r.program {
		if writes.has(i) && (o.key == r.program[op].key || r.program[op].kind != register.Read) {
			of.add(i)
		}
	}
	return of
}

const (
	read  = register.Read
	write = register.Write
	rmw   = register.RMW
)

// modelPrograms: in all of them the write of operation 0, of the first key, is under way. One session reads it and goes
// on with the second key; another one writes the second key and reads the first.
func modelPrograms() map[string][]planned {
	with := func(more ...planned) []planned {
		all := append(
			[]planned{{session: 2, kind: write, key: 0, home: 2, under: true}, {session: 0, kind: read, key: 0}},
			more...)
		return append(all, planned{session: 1, kind: write, key: 1, home: 1},
			planned{session: 1, kind: read, key: 0, home: 1})
	}
	return map[string][]planned{
		"read":  with(planned{session: 0, kind: read, key: 1}),
		"write": with(planned{session: 0, kind: write, key: 1}),
		"rmw":   with(planned{session: 0, kind: rmw, key: 1}),
		// The session moves to another coordinator while the first one writes back what it has read.
		"moved": with(planned{session: 0, kind: write, key: 1, home: 3}),
		// An rmw comes upon what its session has read, and is read by the session before it goes on.
		"base": with(planned{session: 0, kind: rmw, key: 0}, planned{session: 0, kind: write, key: 1}),
	}
}

// GEOREGISTER_MODEL is how many ways are walked through each model with faults, instead of a few thousand
// (docs/checking.md).
func TestModelIsRegularSequential(t *testing.T) {
	t.Parallel()
	ways := near.Number(t, "GEOREGISTER_MODEL", 5000)
	for name, program := range modelPrograms() {
		t.Run(name, func(t *testing.T) {
			if name == "read" || name == "write" || name == "rmw" {
				const limit = 2_000_000
				r := (&model{program: program}).search(limit)
				t.Logf("%d states, %d histories", len(r.known), len(r.explained))
				if r.wrong != "" || r.ended() {
					t.Fatalf("searched to its end: %t\n%s", !r.ended(), r.wrong)
				}
			}
			for _, faults := range []modelFaults{
				{}, {unknown: 1}, {losses: 1}, {changes: 1}, {unknown: 1, losses: 1}, {unknown: 1, changes: 1},
			} {
				r := (&model{program: program, faults: faults}).walk(ways)
				t.Logf("%+v: %d ways, %d histories", faults, r.walks, len(r.explained))
				if r.wrong != "" {
					t.Fatalf("%+v:\n%s", faults, r.wrong)
				}
			}
		})
	}
}

func TestMistakesOfTheModelAreFound(t *testing.T) {
	t.Parallel()
	published := modelRules{askBeside: true, writeBeside: true, rmwBeside: true}
	for _, c := range []struct {
		name    string
		program string
		rules   modelRules
		faults  modelFaults // if any, ways are walked
	}{
		{"as published, with a read", "read", published, modelFaults{}},
		{"as published, with a write", "write", published, modelFaults{}},
		{"as published, with an rmw", "rmw", published, modelFaults{}},
		{"a read returns what a quorum has replaced", "read", modelRules{olderThanAll: true}, modelFaults{}},
		{"a write carries", "write", modelRules{writeBeside: true}, modelFaults{}},
		{"an rmw carries", "rmw", modelRules{rmwBeside: true}, modelFaults{}},
		{"answers of a lost disk count", "write", modelRules{deadDisks: true}, modelFaults{losses: 1}},
		{"an empty disk votes", "write", modelRules{unread: true}, modelFaults{losses: 1}},
		{"a newcomer votes that has copied nothing", "write", modelRules{unread: true}, modelFaults{changes: 1}},
		{"views hear each other", "write", modelRules{oldEpochs: true}, modelFaults{changes: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &model{program: modelPrograms()[c.program], rules: c.rules, faults: c.faults}
			var r *modelSearch
			if c.faults == (modelFaults{}) {
				r = m.search(1_000_000)
			} else {
				r = m.walk(100_000)
			}
			if r.wrong == "" {
				t.Fatalf("not found in %d states and %d ways", len(r.known), r.walks)
			}
			t.Logf("%d states, %d ways\n%s", len(r.known), r.walks, r.wrong)
		})
	}
}
