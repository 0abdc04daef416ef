package console

import (
	"strings"
	"testing"
)

func TestWhatIsNotEmulatedIsSaid(t *testing.T) {
	for _, tt := range []struct {
		name, wan string
		want      []string // lines with the pairs; the rest is the same for all
	}{
		{"no network", "", nil},
		{"delay and jitter",
			"wan: {links: [{between: [a, b], rtt: 3ms, jitter: 1ms, loss: 0%}, {between: [c, a], rtt: 4ms}, " +
				"{between: [b, c], rtt: 5ms, directions: [{from: c, delay: 1ms}]}]}", nil},
		{"loss", "wan: {links: [{between: [b, a], rtt: 3ms, loss: 0.1%}, {between: [c, a], rtt: 4ms}, " +
			"{between: [b, c], rtt: 5ms, directions: [{from: c, loss: 1%}]}]}",
			[]string{"nothing is lost here, though spec.wan asks for loss:", "  a-b, b-c"}},
		{"rate", "wan: {links: [{between: [b, a], rtt: 3ms}, {between: [c, a], rtt: 4ms, rate: 1Gbit}, " +
			"{between: [b, c], rtt: 5ms, directions: [{from: b, rate: 1Mbit}]}]}",
			[]string{"no rate is bounded here, though spec.wan asks for one:", "  a-c, b-c"}},
		{"both",
			"wan: {links: [{between: [b, a], rtt: 3ms, loss: 1%, rate: 1Gbit}, {between: [c, a], rtt: 4ms}, " +
				"{between: [b, c], rtt: 5ms}]}",
			[]string{
				"nothing is lost here, though spec.wan asks for loss:", "  a-b",
				"no rate is bounded here, though spec.wan asks for one:", "  a-b",
			}},
	} {
		got := notEmulated(manifest(t, "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], "+tt.wan+"}").Spec)
		if len(tt.want) == 0 {
			if got != "" {
				t.Errorf("%s: said %q", tt.name, got)
			}
			continue
		}
		lines, found := strings.CutSuffix(got, "\nwith Chaos Mesh (spec.wan.provider)\n")
		at := strings.LastIndex(lines, "\n")
		if !found || lines[:at] != strings.Join(tt.want, "\n") {
			t.Errorf("%s: said\n%s", tt.name, got)
		}
		for line := range strings.Lines(got) {
			if len(line) > 81 {
				t.Errorf("longer than a terminal is wide: %q", line)
			}
		}
	}
}
