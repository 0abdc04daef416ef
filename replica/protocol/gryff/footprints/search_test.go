package footprints

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// goesWrong is a program, and a way through it that goes wrong without footprints, or with a mistake.
type goesWrong struct {
	program []planned
	way     []choice
}

// kindOfWay tells ways apart by what happened to operations. Members are not part of it.
type kindOfWay [maxOperations]struct {
	planned                   planned
	round                     uint8
	returned, found, depended bool
	missed                    set // writes that had returned
}

func (m *model) kindOf(s *state) (all kindOfWay) {
	for i, o := range m.program {
		x, st := &all[i], &s.ops[i]
		o.home = 0
		x.planned, x.round, x.returned, x.found = o, st.round, st.returned, st.read != 0
		x.depended = !s.pasts[o.session].none()
		for j, other := range m.program {
			if w := &s.ops[j]; o.kind == read && st.returned && w.returned && other.key == o.key && w.wrote > st.read {
				x.missed.add(j)
			}
		}
	}
	return all
}

// search goes so many ways near some that go wrong, or near others that it has come to, of a kind that is new.
func search(t *testing.T, seeds []goesWrong, r rules, f faults, members, ways int) (went int, wrong string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	all, known := slices.Clone(seeds), map[kindOfWay]bool{}
	for went = 1; went <= ways; went++ {
		from := all[rng.IntN(len(all))]
		if rng.IntN(4) == 0 {
			from = seeds[rng.IntN(len(seeds))]
		}
		m := &model{program: from.program, members: members, rules: r, faults: f}
		if rng.IntN(3) == 0 {
			m.program = m.otherProgram(rng)
		}
		s, way := m.follow(rng, m.otherWay(rng, from.way), []float64{0, 0.02, 0.1}[rng.IntN(3)])
		if !m.legal(&s) {
			way = m.shorten(way)
			s, way, _ = m.replay(way)
			return went, m.describe(&s, way)
		}
		if kind := m.kindOf(&s); !known[kind] && len(all) < 100_000 {
			known[kind] = true
			all = append(all, goesWrong{m.program, way})
		}
	}
	return ways, ""
}

// otherProgram has operations more, or other ones.
func (m *model) otherProgram(rng *rand.Rand) []planned {
	p := slices.Clone(m.program)
	for range rng.IntN(3) {
		i := rng.IntN(len(p))
		switch rng.IntN(4) {
		case 0:
			if len(p) < maxOperations {
				home := p[i].home
				if rng.IntN(4) == 0 {
					home = rng.IntN(m.members)
				}
				p = append(p, planned{session: rng.IntN(3), kind: kind(rng.IntN(2)), key: rng.IntN(keys), home: home})
			}
		case 1:
			if !p[i].under {
				p[i].kind = kind(rng.IntN(3))
			}
		case 2:
			if !p[i].under {
				p[i].key = rng.IntN(keys)
			}
		case 3:
			p[i].home = rng.IntN(m.members)
		}
	}
	var has [keys]bool
	for i := range p {
		if o := &p[i]; o.kind == rmw && has[o.key] {
			o.kind = write
		} else if o.kind == rmw {
			has[o.key] = true
		}
	}
	return p
}

// otherWay leaves steps out, or has them come at another time, or with another member.
func (m *model) otherWay(rng *rand.Rand, way []choice) []choice {
	way = slices.Clone(way)
	for range 1 + rng.IntN(4) {
		if len(way) < 3 {
			break
		}
		i := rng.IntN(len(way))
		switch rng.IntN(4) {
		case 0:
			way = slices.Delete(way, i, i+1)
		case 1:
			c := way[i]
			way = slices.Delete(way, i, i+1)
			way = slices.Insert(way, rng.IntN(len(way)+1), c)
		case 2:
			if way[i].act == isAnswered {
				way[i].member = rng.IntN(m.members)
			}
		case 3: // what is left of an operation
			rest := slices.Clone(way[i:])
			op := rest[0].op
			way = slices.DeleteFunc(way, func(c choice) bool { return c.op == op && slices.Contains(rest, c) })
			rest = slices.DeleteFunc(rest, func(c choice) bool { return c.op != op })
			at := min(i, len(way))
			way = slices.Insert(way, at+rng.IntN(len(way)-at+1), rest...)
		}
	}
	return way
}

// follow goes a way as far as its steps can be done, with a drawn one now and then, and goes on with drawn ones.
func (m *model) follow(rng *rand.Rand, way []choice, stray float64) (s state, done []choice) {
	s = m.initial()
	try := func(c choice) bool {
		n := s
		if !m.do(&n, c) {
			return false
		}
		s, done = n, append(done, c)
		return true
	}
	draw := func() bool {
		all := m.choices(&s)
		return len(all) > 0 && try(all[rng.IntN(len(all))])
	}
	for _, c := range way {
		for rng.Float64() < stray {
			draw()
		}
		if slices.Contains(m.choices(&s), c) {
			try(c)
		}
	}
	for range rng.IntN(40) {
		draw()
	}
	return s, done
}

// replay goes a way up to where it is wrong.
func (m *model) replay(way []choice) (s state, done []choice, wrong bool) {
	s = m.initial()
	for _, c := range way {
		n := s
		if !slices.Contains(m.choices(&s), c) || !m.do(&n, c) {
			continue
		}
		s, done = n, append(done, c)
		if c.act == ends && !m.legal(&s) {
			return s, done, true
		}
	}
	return s, done, !m.legal(&s)
}

// shorten leaves steps out as long as the way is wrong.
func (m *model) shorten(way []choice) []choice {
	for size := len(way); size > 0; size /= 2 {
		for i := 0; i+size <= len(way); {
			if _, done, wrong := m.replay(without(way, i, i+size)); wrong {
				way = done
			} else {
				i++
			}
		}
	}
	return way
}
