package simulator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// experiment is the paper's network with some of its sites.
func experiment(t *testing.T, start Start, mix string, sites ...string) Experiment {
	t.Helper()
	p, err := profile.Find("gryff")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.Select(sites); err != nil {
		t.Fatal(err)
	}
	spec := workload.Default()
	if spec.Mix, err = workload.ParseMix(mix); err != nil {
		t.Fatal(err)
	}
	return Experiment{Start: start, Network: p, Clients: 16, Workload: spec, Duration: 60 * time.Second, Seed: 1}
}

func measure(t *testing.T, x Experiment) Measured {
	t.Helper()
	m, err := Measure(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	if !m.OK() {
		t.Fatalf("%s: %s", m.Report.Verdict, m.Reason)
	}
	return m
}

// within checks a latency against round trips alone; a local hop, jitter and fsyncs add at most 2 ms.
func within(t *testing.T, what string, got, roundTrips float64) {
	t.Helper()
	if got < roundTrips || got > roundTrips+2 {
		t.Errorf("%s: %.1f ms, want %.1f ms and a little", what, got, roundTrips)
	}
}

// With three sites a read takes one round trip to the nearer of the other two, and a write two (Gryff, 6.3).
func TestThreeSites(t *testing.T) {
	t.Parallel()
	nearest := map[string]float64{"CA": 72, "VA": 72, "IR": 88}
	for _, c := range []struct {
		name, mix string
		start     Start
	}{
		{"abd", "ycsb-a", Member(abd.Factory)},
		{"gryff", "gryff-a", Member(gryff.Factory)},
	} {
		t.Run(c.name, func(t *testing.T) {
			figures := measure(t, experiment(t, c.start, c.mix, "CA", "VA", "IR")).Report.Figures()
			for site, rtt := range nearest {
				read, write := figures[register.Read].Sites[site], figures[register.Write].Sites[site]
				within(t, site+" read p50", read.P50, rtt)
				within(t, site+" write p50", write.P50, 2*rtt)
				within(t, site+" write p99", write.P99, 2*rtt)
				if c.name == "gryff" { // every read, at n = 3, and rmws without conflicts
					within(t, site+" read max", read.Max, rtt)
					if read.RoundTrips != 1 || read.FastPathRate != 1 {
						t.Errorf("%s reads: %+v, want one round trip each", site, read)
					}
				}
			}
		})
	}
}

func TestFiveSites(t *testing.T) {
	t.Parallel()
	figures := measure(t, experiment(t, Member(gryff.Factory), "gryff-a", "CA", "VA", "IR", "OR", "JP")).Report.Figures()
	for site, rtt := range map[string]float64{"CA": 72, "VA": 88, "IR": 145, "OR": 93, "JP": 121} {
		read := figures[register.Read].Sites[site]
		within(t, site+" read p50", read.P50, rtt)
		if read.FastPathRate < 0.99 {
			t.Errorf("%s: %.2f%% of the reads took one round trip", site, 100*read.FastPathRate)
		}
	}
	if rmw := figures[register.RMW].Overall; rmw.Count == 0 || rmw.RoundTrips < 2 || rmw.RoundTrips > 2.2 {
		t.Errorf("rmws: %+v, want two round trips but for conflicts", rmw)
	}
}

func TestMeasureReplaysWithFaults(t *testing.T) {
	t.Parallel()
	x := experiment(t, Member(abd.Factory), "ycsb-a", "CA", "VA", "IR")
	x.Clients, x.Duration, x.Faults, x.Shards = 4, 20*time.Second, faults.Kinds(), 3
	var reports [2]bytes.Buffer
	for i := range reports {
		m := measure(t, x)
		if m.Faults == 0 {
			t.Error("no faults were injected")
		}
		if err := m.Report.Table(&reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	if reports[0].String() != reports[1].String() {
		t.Errorf("two runs differ:\n%s\n%s", &reports[0], &reports[1])
	}
}

func TestMeasureTellsViolations(t *testing.T) {
	t.Parallel()
	x := experiment(t, startToy(toyMistakes{readLocally: true}), "ycsb-a", "CA", "VA", "IR")
	x.Clients, x.Duration, x.Workload.Conflict = 2, 2*time.Second, 0.5
	m, err := Measure(t.Context(), x)
	if err != nil || m.OK() || string(m.Report.Verdict) != string(check.Violation) || m.Reason == "" {
		t.Errorf("%v, %s: %s", err, m.Report.Verdict, m.Reason)
	}
}

func TestMeasureRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*Experiment){
		"no protocol": func(x *Experiment) { x.Start = nil },
		"no sites":    func(x *Experiment) { x.Network = profile.Profile{} },
		"0 clients":   func(x *Experiment) { x.Clients = 0 },
		"duration":    func(x *Experiment) { x.Duration = 0 },
		"conflict":    func(x *Experiment) { x.Workload.Conflict = 7 },
	} {
		x := experiment(t, Member(abd.Factory), "ycsb-a", "CA", "VA", "IR")
		spoil(&x)
		if _, err := Measure(t.Context(), x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// BenchmarkMeasure is 180 simulated seconds of 80 clients.
func BenchmarkMeasure(b *testing.B) {
	p, err := profile.Find("gryff")
	if err != nil {
		b.Fatal(err)
	}
	events := uint64(0)
	for b.Loop() {
		m, err := Measure(b.Context(), Experiment{
			Start: Member(gryff.Factory), Network: p, Clients: 16, Workload: workload.Default(), Duration: 180 * time.Second, Seed: 1,
		})
		if err != nil || !m.OK() {
			b.Fatalf("%v, %s", err, m.Reason)
		}
		events += m.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
