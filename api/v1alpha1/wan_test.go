package v1alpha1

import (
	"path/filepath"
	"testing"
	"time"
)

const ms = time.Millisecond

// possible reports whether a way is within what a manifest may ask for.
func (w Way) possible() bool {
	bounded := w.Rate == 0 || w.Rate >= 8_000 && w.Rate <= 100_000_000_000
	return w.Delay >= 0 && w.Delay <= maxRTT/2 && w.Jitter >= 0 && w.Jitter <= maxRTT && w.Loss >= 0 &&
		w.Loss <= 100_000 && bounded
}

func TestWayOfAProfile(t *testing.T) {
	c, err := Load(filepath.Join("..", "..", "config", "samples", "gryff-five-regions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from, to string
		rtt      time.Duration
	}{{"jp", "ir", 220 * ms}, {"ir", "jp", 220 * ms}, {"va", "ca", 72 * ms}, {"ca", "ca", 0}, {"ca", "mars", 0}} {
		if w := c.Spec.Way(tt.from, tt.to); w != (Way{Delay: tt.rtt / 2}) {
			t.Errorf("%s to %s: %+v", tt.from, tt.to, w)
		}
		if rtt := c.Spec.RTT(tt.from, tt.to); rtt != tt.rtt {
			t.Errorf("%s-%s: %s", tt.from, tt.to, rtt)
		}
	}
}

// Each row is the only link there is, between a and b.
func TestWayOfALink(t *testing.T) {
	tests := []struct {
		name, link  string
		there, back Way // from a to b, from b to a
	}{
		{"a round trip", "rtt: 1.5s", Way{Delay: 750 * ms}, Way{Delay: 750 * ms}},
		{"no delay", "rtt: 0s", Way{}, Way{}},
		{"a round trip that can't be halved evenly", "rtt: 3us", Way{Delay: 1500}, Way{Delay: 1500}},
		{"all of both directions", "rtt: 10ms, jitter: 3ms, loss: 0.25%, rate: 100Mbit",
			Way{5 * ms, 3 * ms, 250, 100_000_000}, Way{5 * ms, 3 * ms, 250, 100_000_000}},
		{"the least rate", "rtt: 10ms, rate: 8kbit", Way{Delay: 5 * ms, Rate: 8000}, Way{Delay: 5 * ms, Rate: 8000}},
		{"the most", "rtt: 10ms, rate: 100Gbit", Way{Delay: 5 * ms, Rate: 1e11}, Way{Delay: 5 * ms, Rate: 1e11}},
		{"the smallest share", "rtt: 10ms, loss: 0.001%", Way{Delay: 5 * ms, Loss: 1}, Way{Delay: 5 * ms, Loss: 1}},
		{"more than one in ten", "rtt: 10ms, loss: 12.5%", Way{Delay: 5 * ms, Loss: 12_500},
			Way{Delay: 5 * ms, Loss: 12_500}},
		{"nothing arrives", "rtt: 10ms, loss: 100.000%", Way{Delay: 5 * ms, Loss: 100_000},
			Way{Delay: 5 * ms, Loss: 100_000}},
		{"one direction takes longer", "rtt: 10ms, jitter: 1ms, directions: [{from: b, delay: 40ms}]",
			Way{Delay: 5 * ms, Jitter: ms}, Way{Delay: 40 * ms, Jitter: ms}},
		{"one direction loses more", "rtt: 10ms, loss: 1%, directions: [{from: a, loss: 2%}]",
			Way{Delay: 5 * ms, Loss: 2000}, Way{Delay: 5 * ms, Loss: 1000}},
		{"one direction carries less", "rtt: 10ms, rate: 1Gbit, directions: [{from: b, rate: 1Mbit}]",
			Way{Delay: 5 * ms, Rate: 1_000_000_000}, Way{Delay: 5 * ms, Rate: 1_000_000}},
		{"nothing in one direction",
			"rtt: 10ms, jitter: 1ms, loss: 1%, directions: [{from: a, delay: 0s, jitter: 0s, loss: 0%}]",
			Way{}, Way{Delay: 5 * ms, Jitter: ms, Loss: 1000}},
		{"both directions in full",
			"rtt: 10ms, directions: [{from: b, delay: 1ms, jitter: 2ms, loss: 3%, rate: 4Mbit}, " +
				"{from: a, delay: 5ms, jitter: 6ms, loss: 7%, rate: 8Mbit}]",
			Way{5 * ms, 6 * ms, 7000, 8_000_000}, Way{ms, 2 * ms, 3000, 4_000_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Decode([]byte(header + "spec:\n  protocol: ABD\n  sites: [{name: a, members: 2}, {name: b}]\n" +
				"  wan: {links: [{between: [b, a], " + tt.link + "}]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if w := c.Spec.Way("a", "b"); w != tt.there {
				t.Errorf("from a to b: %+v, want %+v", w, tt.there)
			}
			if w := c.Spec.Way("b", "a"); w != tt.back {
				t.Errorf("from b to a: %+v, want %+v", w, tt.back)
			}
			if rtt := c.Spec.RTT("a", "b"); rtt != tt.there.Delay+tt.back.Delay || rtt != c.Spec.RTT("b", "a") {
				t.Errorf("round trip %s", rtt)
			}
			if w := c.Spec.Way("a", "a"); w != (Way{}) {
				t.Errorf("within a: %+v", w)
			}
		})
	}
}

func TestTolerates(t *testing.T) {
	twenty := int32(20)
	for _, tt := range []struct {
		name               string
		wan                WAN
		declared, measured time.Duration
		want               bool
	}{
		{"as declared", WAN{}, 100 * ms, 100 * ms, true},
		{"shorter", WAN{}, 100 * ms, 100*ms - 1, false},
		{"the most by default", WAN{}, 100 * ms, 112 * ms, true},
		{"more than that", WAN{}, 100 * ms, 112*ms + 1, false},
		{"the most that is asked for", WAN{TolerancePercent: &twenty}, 100 * ms, 122 * ms, true},
		{"more than what is asked for", WAN{TolerancePercent: &twenty}, 100 * ms, 122*ms + 1, false},
		{"no delay", WAN{}, 0, 2 * ms, true},
		{"no delay, but there is one", WAN{}, 0, 2*ms + 1, false},
		{"the longest", WAN{TolerancePercent: &twenty}, maxRTT, maxRTT + maxRTT/5, true},
	} {
		if got := tt.wan.Tolerates(tt.declared, tt.measured); got != tt.want {
			t.Errorf("%s: %v for %s, of which %s are measured", tt.name, got, tt.declared, tt.measured)
		}
	}
}
