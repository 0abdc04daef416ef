package footprints

import (
	"cmp"
	"hash/maphash"
	"slices"
	"testing"

	"github.com/georegister/georegister/test/near"
)

// states looks at every state that a model may come to, once, as far as there are no more than a limit. An operation
// goes on with the answer that makes a quorum. States that differ in the names of members only are the same.
type states struct {
	*model
	limit int
	seed  maphash.Seed
	known map[uint64]struct{}
	alike []int // members that no operation names
	way   []choice
	wrong string
}

func (m *model) everyState(limit int) *states {
	all := &states{model: m, limit: limit, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	for member := range m.members {
		if !slices.ContainsFunc(m.program, func(o planned) bool { return o.home == member }) {
			all.alike = append(all.alike, member)
		}
	}
	s := m.initial()
	all.look(&s)
	return all
}

func (all *states) look(s *state) {
	for _, c := range all.choices(s) {
		n := *s
		if all.wrong != "" || len(all.known) == all.limit {
			return
		}
		if c.act == ends || !all.do(&n, c) {
			continue
		}
		home := all.program[c.op].home
		if c.act == isAnswered && all.quorum(n.members[home].epoch, all.counted(&n, c.op)) && !all.end(&n, c.op) {
			continue
		}
		renamed := n
		all.rename(&renamed)
		h := maphash.Comparable(all.seed, renamed)
		if _, again := all.known[h]; again {
			continue
		}
		all.known[h] = struct{}{}
		all.way = append(all.way, c)
		if !all.legal(&n) {
			all.wrong = all.describe(&n, all.way)
			return
		}
		all.look(&n)
		all.way = all.way[:len(all.way)-1]
	}
}

// rename gives members that are alike names by what they hold and have answered. The model must have no faults.
func (all *states) rename(s *state) {
	type column struct {
		member  memberState
		answers set // operations
		newest  set
		had     [maxOperations]stamp
	}
	var columns []column
	for _, i := range all.alike {
		c := column{member: s.members[i]}
		for j := range s.ops {
			c.had[j] = s.ops[j].had[i]
			if s.ops[j].answers.has(i) {
				c.answers.add(j)
			}
			if s.ops[j].newest.has(i) {
				c.newest.add(j)
			}
		}
		columns = append(columns, c)
	}
	slices.SortFunc(columns, func(a, b column) int {
		return cmp.Compare(maphash.Comparable(all.seed, a), maphash.Comparable(all.seed, b))
	})
	for at, i := range all.alike {
		c := columns[at]
		s.members[i] = c.member
		for j := range s.ops {
			o := &s.ops[j]
			o.had[i] = c.had[j]
			o.answers, o.newest = o.answers&^(1<<i), o.newest&^(1<<i)
			if c.answers.has(j) {
				o.answers.add(i)
			}
			if c.newest.has(j) {
				o.newest.add(i)
			}
		}
	}
}

// GEOREGISTER_FOOTPRINT_STATES has searches of more than the least programs, up to so many states each
// (docs/checking.md).
func TestEveryStateWithFootprintsIsRegularSequential(t *testing.T) {
	t.Parallel()
	limit := near.Number(t, "GEOREGISTER_FOOTPRINT_STATES", 1)
	for _, c := range []struct {
		program string
		members int
		large   bool
	}{
		{"wx0! Arx0 Ary0 Bwy1 Brx1", 3, false},
		{"wx0! Arx0 Awy0 Bwy1 Brx1", 3, false},
		{"wx0! Arx0 Ary0 Bwy1 Brx1", 5, false},
		{"wx0! Arx0 Ary0 Bwy1 Cry2 Crx2", 3, true},
		{"wx0! wy1! Arx0 Ary0 Bry1 Brx1", 5, true},
		{"wx0! Arx0 Awy0 Bwy1 Brx1", 5, true},
		{"wx0! Arx0 Amy0 Bwy1 Brx1", 5, true},
		{"wx0! Arx0 Ary0 Bwy1 Cry2 Crx2", 5, true},
		{"wx0! wy1! wz2! Arx0 Ary0 Bry1 Brz1 Crz2 Crx2", 3, true},
	} {
		m := &model{program: nearOf(c.program)[0].program, members: c.members}
		states := max(limit, 1_000_000)
		if c.large {
			if states = limit; limit == 1 {
				continue
			}
		}
		all := m.everyState(states)
		t.Logf("%s, %d members: %d states, all of them: %t", c.program, c.members, len(all.known), len(all.known) < states)
		if all.wrong != "" || !c.large && len(all.known) == states {
			t.Errorf("%s, %d members: %s", c.program, c.members, all.wrong)
		}
	}
}

func TestMistakesOfFootprintsAreFoundInEveryState(t *testing.T) {
	t.Parallel()
	for _, r := range []rules{{noFootprints: true}, {writesReturn: true}} {
		m := &model{program: nearOf("wx0! Arx0 Ary0 Bwy1 Brx1")[0].program, members: 5, rules: r}
		if all := m.everyState(1_000_000); all.wrong == "" {
			t.Errorf("%+v is not found in %d states", r, len(all.known))
		}
	}
}
