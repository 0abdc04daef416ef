package main

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// A protocol with a fast path is slower than Raft since that is longer at a site, or since too few operations take it.
func TestSlowerThanRaft(t *testing.T) {
	t.Parallel()
	row := func(name string, sites map[string]workload.Figures) compared {
		p, err := capability.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return compared{name, p, map[register.Kind]workload.KindFigures{register.Write: {Sites: sites}}}
	}
	raft := row("Raft", map[string]workload.Figures{
		"a": {Count: 1, P50: 70, P99: 80}, "b": {Count: 1, P50: 140, P99: 150}, "c": {Count: 1, P50: 200, P99: 210},
	})
	curp := row("CURP", map[string]workload.Figures{
		"a": {Count: 1, P50: 95, P99: 96, FastPathRate: 1}, "b": {Count: 1, P50: 95, P99: 300, FastPathRate: 0.97},
		"c": {Count: 1, P50: 200.9, P99: 300, FastPathRate: 0.95},
	})
	abd := row("ABD", map[string]workload.Figures{"a": {Count: 1, P50: 300, P99: 300}}) // its writes have no fast path
	var out strings.Builder
	if err := printSlower(&out, []compared{abd, curp, raft}, []string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	const want = `Slower than Raft, of the protocols with a fast path (its figure in brackets):
  CURP, write p50: a 95.0 (70.0): the fast path waits for the key's master and all of its witnesses, of which the farthest counts
  CURP, write p99: a 96.0 (80.0): the fast path waits for the key's master and all of its witnesses, of which the farthest counts
  CURP, write p99: b 300.0 (150.0), c 300.0 (210.0): up to 5.0% of them do not take the fast path

`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, rows := range [][]compared{{raft}, {curp}} { // nobody is slower, or there is no Raft
		out.Reset()
		if err := printSlower(&out, rows, []string{"a", "b", "c"}); err != nil || out.Len() > 0 {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
