package netem

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct {
		line string
		want Command
	}{
		{"qdisc del dev eth0 root", Command{Verb: Del, Device: "eth0", Root: true}},
		{"-s qdisc show dev eth0", Command{Verb: Show, Device: "eth0"}},
		{"qdisc", Command{Verb: Show}},
		{"qdisc add dev eth0 root handle 1: prio bands 7 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
			Command{Verb: Add, Device: "eth0", Root: true, Handle: Handle{Major: 1}, Kind: Prio, Bands: 7}},
		{"qdisc add dev eth0 parent 1:2 handle 3: sfq",
			Command{Verb: Add, Device: "eth0", Parent: Handle{1, 2}, Handle: Handle{Major: 3}, Kind: SFQ}},
		{"qdisc add dev eth0 parent 1:10 handle 12: netem delay 90ms",
			Command{
				Verb: Add, Device: "eth0", Parent: Handle{1, 16}, Handle: Handle{Major: 18}, Kind: Netem,
				Spec: Spec{Delay: 90 * ms},
			}},
		{"qdisc add dev eth0 root handle 1: netem delay 1s 12.5ms 25.000000 limit 20 loss 1.500000 10.000000 " +
			"rate 8mbit",
			Command{Verb: Add, Device: "eth0", Root: true, Handle: Handle{Major: 1}, Kind: Netem, Spec: Spec{
				Delay: time.Second, Jitter: 12*ms + 500*time.Microsecond, DelayCorrelation: 0.25,
				Limit: 20, Loss: 0.015, LossCorrelation: 0.1, Rate: 1e6}}},
		{"qdisc add dev eth0 root handle 1: netem delay 1500 loss random 3% rate 1mbps",
			Command{Verb: Add, Device: "eth0", Root: true, Handle: Handle{Major: 1}, Kind: Netem, Spec: Spec{
				Delay: 1500 * time.Microsecond, Loss: 0.03, Rate: 1e6}}},
	} {
		got, err := Parse(strings.Fields(test.line))
		if err != nil || got != test.want {
			t.Errorf("%s\n got %+v, %v\nwant %+v", test.line, got, err, test.want)
		}
	}
}

func TestParseSaysWhatItDoesNotKnow(t *testing.T) {
	for line, want := range map[string]string{
		"filter add dev eth0":                                           "want qdisc",
		"qdisc change dev eth0 root":                                    "want add, del or show",
		"qdisc del dev eth0 parent 1:1":                                 "whole trees only",
		"qdisc del root":                                                "dev is missing",
		"qdisc add dev eth0 root handle 1: tbf rate 1mbit":              `no "tbf"`,
		"qdisc add dev eth0 root handle 1:":                             "kind is missing",
		"qdisc add dev eth0 handle 1: sfq":                              "root or a parent",
		"qdisc add dev eth0 root sfq":                                   "handle",
		"qdisc add dev eth0 root handle x: sfq":                         "no handle",
		"qdisc add dev eth0 root handle 1: prio bands 17":               "2 to 16",
		"qdisc add dev eth0 root handle 1: netem delay":                 "no time",
		"qdisc add dev eth0 root handle 1: netem delay 5min":            "no time",
		"qdisc add dev eth0 root handle 1: netem loss 101":              "no percentage",
		"qdisc add dev eth0 root handle 1: netem rate 5":                "",
		"qdisc add dev eth0 root handle 1: netem rate 0mbit":            "no rate",
		"qdisc add dev eth0 root handle 1: netem rate 5furlongs":        "no rate",
		"qdisc add dev eth0 root handle 1: netem delay 1ms duplicate 5": `no "duplicate"`,
	} {
		_, err := Parse(strings.Fields(line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want an error with %q", line, err, want)
		}
	}
}

func TestRatesAndHandlesAreTCs(t *testing.T) {
	for text, want := range map[string]float64{
		"8": 1, "8bit": 1, "1kbit": 125, "1Mbit": 125e3, "1kibit": 128, "1bps": 1, "2kbps": 2e3,
		"1gbps": 1e9, "1mibps": 1 << 20,
	} {
		var got float64
		if err := rate(&got)(text); err != nil || got != want {
			t.Errorf("rate %s: got %g, %v, want %g bytes/s", text, got, err, want)
		}
	}
	if h := (Handle{0x1a, 0x10}); h.String() != "1a:10" || h.Priority() != 0x1a0010 {
		t.Errorf("got %s, %#x", h, h.Priority())
	}
	if h := (Handle{Major: 3}); h.String() != "3:" {
		t.Errorf("got %s", h)
	}
}
