package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// experiment is a run without faults. What a mutant makes slower in it is found: latencies are what a fast path, or to
// ask the nearest alone, is for, and no history tells of them.
type experiment struct{ by, sites, workload, conflict string }

var experiments = []experiment{
	{"reads and writes of five", "5", "ycsb-a", "0.02"},
	{"rmws of five on few keys", "5", "40:40:20", "0.3"},
	{"reads and writes of three", "3", "ycsb-a", "0.3"},
}

// slower is how many times what it was a latency has to be, in each of the two figures that are compared: a mutant may
// change the order of events, and so any latency a little.
const slower = 1.1

// figures are what an experiment says of a kind of operation.
type figures struct {
	Overall struct {
		Count      int     `json:"count"`
		Typical    float64 `json:"p50_ms"`
		Late       float64 `json:"p90_ms"`
		RoundTrips float64 `json:"round_trips"`
	} `json:"overall"`
}

// measured is what came of an experiment: the figures by kind of operation, none if the protocol has no such operations.
type measured struct {
	Verdict    string             `json:"verdict"`
	Operations map[string]figures `json:"operations"`
}

// measurements are those of the code without a mutant, by protocol and experiment. The zero value has none.
type measurements struct {
	mu    sync.Mutex
	known map[string]measured
}

// measure runs the experiments of a package's protocols with a mutant, and notes the first in which it is slower than
// without.
func (all *measurements) measure(ctx context.Context, program, folder string, known *result) error {
	for _, p := range protocolsOf[folder] {
		for _, e := range experiments {
			was, err := all.without(ctx, program, p, e)
			if err != nil {
				return err
			}
			if was.Verdict == "" {
				continue
			}
			is, err := measure(ctx, program, known.Name, p, e)
			if err != nil {
				return err
			}
			if how, why := compare(was, is); how != "" {
				known.Found, known.How, known.Reason = "experiment", how, why
				known.By = fmt.Sprintf("%s, %s", p, e.by)
				return nil
			}
		}
	}
	known.Measured = true
	return nil
}

func (all *measurements) without(ctx context.Context, program, protocol string, e experiment) (measured, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	key := protocol + ", " + e.by
	m, known := all.known[key]
	if known {
		return m, nil
	}
	m, err := measure(ctx, program, "", protocol, e)
	if all.known == nil {
		all.known = map[string]measured{}
	}
	all.known[key] = m
	return m, err
}

func measure(ctx context.Context, program, mutant, protocol string, e experiment) (m measured, err error) {
	out, err := run(ctx, program, mutant, []string{"simulate", "--protocol", protocol, "--profile", "gryff", "--sites",
		e.sites, "--clients", "2", "--duration", "12s", "--conflict", e.conflict, "--workload", e.workload, "--output", "json"})
	if ctx.Err() != nil {
		return m, ctx.Err()
	}
	begin := strings.Index(out, "{")
	if begin < 0 || json.NewDecoder(strings.NewReader(out[begin:])).Decode(&m) != nil {
		m.Verdict = "none"
		if strings.Contains(out, "Usage:") || mutant == "" && err != nil {
			m.Verdict = "" // there is no such experiment of the protocol
		}
	}
	return m, nil
}

// compare says what is worse with a mutant, or nothing.
func compare(was, is measured) (how, why string) {
	if was.Verdict != is.Verdict {
		return "verdict", fmt.Sprintf("%s, not %s", is.Verdict, was.Verdict)
	}
	for _, kind := range slices.Sorted(maps.Keys(was.Operations)) {
		a, b := was.Operations[kind].Overall, is.Operations[kind].Overall
		switch {
		case b.Count == 0 && a.Count > 0:
			return "stuck", fmt.Sprintf("no %s ended", kind)
		case b.Typical > slower*a.Typical && b.Late > slower*a.Late:
			return "slower", fmt.Sprintf("%s: half take more than %.0f ms, not %.0f, and a tenth more than %.0f, not %.0f", kind,
				b.Typical, a.Typical, b.Late, a.Late)
		case b.RoundTrips > a.RoundTrips+0.2:
			return "slower", fmt.Sprintf("%s: %.2f round trips, not %.2f", kind, b.RoundTrips, a.RoundTrips)
		}
	}
	return "", ""
}
