package explorer

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
)

// What is explored in passes, each of which knows of more batches that linger, is what is explored at once by who
// knows of them all.
func TestPassesFindWhatOneDoes(t *testing.T) {
	t.Parallel()
	for protocol, faults := range map[string]Faults{
		"gus": {}, "epaxos": {Crashes: 1}, "abd": {Timeouts: 1, Crashes: 1},
	} { // in any order: each is a test
		t.Run(protocol, func(t *testing.T) {
			if testing.Short() && protocol == "epaxos" {
				t.Skip("-short: gus and abd run the same code; this scope has some 35,000 states")
			}
			t.Parallel()
			entry, err := catalog.Find(protocol)
			if err != nil {
				t.Fatal(err)
			}
			sessions, err := ParseSessions("write; read", 3)
			if err != nil {
				t.Fatal(err)
			}
			scope := &Scope{Start: entry.Start, Members: 3, Sessions: sessions, Faults: faults}
			s := newSearch(t.Context(), scope, Options{})
			initial, _, failure := s.begin()
			if failure != nil {
				t.Fatal(failure)
			}
			s.initial = initial
			s.explore()
			inPasses, passes := s.report, len(s.late.passes)
			s.forget()
			s.explore()
			if s.report.Failure != nil || len(s.late.passes) > 0 || inPasses.States != s.report.States ||
				inPasses.Ends != s.report.Ends || inPasses.Histories != s.report.Histories {
				t.Errorf("in %d passes %+v, in %d more %+v", passes, inPasses, len(s.late.passes), s.report)
			}
			if passes == 0 {
				t.Error("there was one pass alone")
			}
			// Walks leave other messages out, or keep others, and all that can be seen stays.
			s.scout()
			s.explore()
			if s.report.Failure != nil || inPasses.Ends != s.report.Ends || inPasses.Histories != s.report.Histories {
				t.Errorf("after random walks %+v, without %+v", s.report, inPasses)
			}
		})
	}
}
