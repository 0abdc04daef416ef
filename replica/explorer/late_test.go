package explorer

import (
	"fmt"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
)

// What is explored in passes, each of which knows of more messages that are kept and more batches that linger, comes to
// what is explored at once by who knows of them all: to the same local states beside each other, and histories.
func TestPassesFindWhatOneDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol, operations string
		faults               Faults
		states               int // about so many
	}{
		{"abd", "write; read", Faults{Timeouts: 1, Crashes: 1}, 17_000},
		{"abd", "write; write", Faults{Timeouts: 2}, 43_000},
		{"gus", "write; read", Faults{}, 900},
		{"gus", "write; read", Faults{Timeouts: 1}, 12_000},
		{"gryff", "write; read", Faults{Losses: 1, Timeouts: 1}, 1000},
		{"caspaxos", "write; read", Faults{Losses: 1}, 2000},
		{"epaxos", "write; read", Faults{Crashes: 1}, 35_000},
	} {
		t.Run(fmt.Sprint(c.protocol, " ", c.operations, " ", c.faults), func(t *testing.T) {
			if testing.Short() && c.states > 20_000 {
				t.Skipf("-short: the scopes of fewer states run the same code; this one has some %d", c.states)
			}
			t.Parallel()
			entry, err := catalog.Find(c.protocol)
			if err != nil {
				t.Fatal(err)
			}
			sessions, err := ParseSessions(c.operations, 3)
			if err != nil {
				t.Fatal(err)
			}
			scope := &Scope{Start: entry.Start, Members: 3, Sessions: sessions, Faults: c.faults}
			s := newSearch(t.Context(), scope, Options{})
			initial, _, failure := s.begin()
			if failure != nil {
				t.Fatal(failure)
			}
			s.initial = initial
			s.explore()
			inPasses, passes, came := s.report, s.locals.pass, s.cameTo()
			if passes == 0 {
				t.Error("there was one pass alone")
			}
			s.forget()
			s.explore()
			if s.report.Failure != nil || s.locals.pass > 0 || !came.equal(s.cameTo()) ||
				inPasses.Histories != s.report.Histories {
				t.Errorf("in %d passes %+v, in %d more %+v", passes, inPasses, s.locals.pass, s.report)
			}
			// Walks leave other messages out, or keep others.
			s.scout()
			s.explore()
			if s.report.Failure != nil || !came.equal(s.cameTo()) || inPasses.Histories != s.report.Histories {
				t.Errorf("after random walks %+v, without %+v", s.report, inPasses)
			}
		})
	}
}

// places are what global states have beside messages: local states, and what became of the operations.
type places map[fingerprint]bool

func (p places) equal(other places) bool {
	for place := range p {
		if !other[place] {
			return false
		}
	}
	return len(p) == len(other)
}

// cameTo are the places to which an exploration came.
func (s *search) cameTo() places {
	all := places{}
	for number := range s.visited.found {
		s.restore(uint32(number))
		s.from.queue, s.from.held, s.from.used = nil, nil, 0
		all[hash(s.from.encode(nil))] = true
	}
	return all
}
