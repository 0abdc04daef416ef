package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Worlds with more shards than sites, and with two sites, among them some whose masters move, are served as any.
func TestCURPSurvivesManyShards(t *testing.T) {
	t.Parallel()
	took := map[string]int{}
	many, two, moves := 0, 0, 0
	for seed := uint64(1); many < seedsFor(t)/40 || two < many/4; seed++ {
		s := schedule.Draw(seed, curpOptions())
		sites := map[string]bool{}
		for _, site := range s.Environment.Network.Sites {
			sites[site] = true
		}
		if s.Environment.Shards <= len(s.Environment.Network.Sites) {
			continue
		}
		many++
		if len(sites) == 2 {
			two++
		}
		for _, f := range s.Faults {
			if f.Kind == faults.Move {
				moves++
			}
		}
		if f := Run(s, nil, func(path string) { took[path]++ }).Failure; f != nil {
			t.Errorf("%v\n%s", f, Explain(f))
		}
	}
	t.Logf("%d worlds with more shards than members, %d of them of two sites, %d moves; %d masters moved, %d replaced", many, two, moves,
		took["curp.moved"], took["curp.failover"])
	if took["curp.failover"] == 0 && many >= 20 {
		t.Error("no master was replaced: this proves little")
	}
}
