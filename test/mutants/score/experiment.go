package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// experiment is a run without faults. What a mutant makes slower or costlier in it is found: latencies are what a fast
// path, or to ask the nearest alone, is for, and no history tells of them, nor of messages that nobody needs, of what
// they need not say, or of memory that is never let go.
type experiment struct{ by, sites, workload, conflict, bytes, think, sync string }

// experiments are of every number of sites, share of operations on one key, and mix of operations, but for mixes that
// differ little while keys are seldom shared; of values too large for some messages; of so few operations that what
// members do at rest counts; and with disks as slow as a round trip, where to wait for one once too often shows.
func experiments() (all []experiment) {
	mixes := []struct{ by, workload string }{
		{"reads and writes", "ycsb-a"}, {"all operations", "40:40:20"}, {"reads", "95:5:0"}, {"rmws", "0:0:100"},
	}
	for _, sites := range []string{"5", "3", wide} {
		for _, shared := range []struct {
			by, conflict string
			mixes        int
		}{{"many keys", "0.02", 2}, {"few keys", "0.3", len(mixes)}, {"one key", "1", len(mixes)}} {
			for _, mix := range mixes[:shared.mixes] {
				by := fmt.Sprintf("%s of %s sites, %s", mix.by, sites, shared.by)
				all = append(all, experiment{by, sites, mix.workload, shared.conflict, "16", "0", "0"})
			}
		}
		all = append(all, experiment{"large values of " + sites + " sites", sites, "ycsb-a", "0.3", "70000", "0", "0"},
			experiment{"few operations of " + sites + " sites", sites, "ycsb-a", "0.3", "16", "1s", "0"},
			experiment{"slow disks of " + sites + " sites", sites, "40:40:20", "0.3", "16", "0", "50ms"},
			experiment{"slow disks of " + sites + " sites, no rmws", sites, "ycsb-a", "0.3", "16", "0", "50ms"})
	}
	return all
}

// wide is how many sites experiments have with protocols that need as many to differ from another one, and with no
// others.
const wide = "7"

// line are the round trips of seven sites on a line.
func line() string {
	var pairs []string
	for a := 1; a <= 7; a++ {
		for b := a + 1; b <= 7; b++ {
			pairs = append(pairs, fmt.Sprintf("s%d-s%d=%dms", a, b, 22+12*(b-a-1)))
		}
	}
	return strings.Join(pairs, ",")
}

// slower is how many times what it was a latency has to be, in each of the two figures that are compared, or a cost of
// an operation: a mutant may change the order of events, and so any figure a little.
const slower = 1.1

// figures are what an experiment says of a kind of operation, of all sites or of one.
type figures struct {
	Count      int     `json:"count"`
	Typical    float64 `json:"p50_ms"`
	Late       float64 `json:"p90_ms"`
	RoundTrips float64 `json:"round_trips"`
	Fast       float64 `json:"fast_path_rate"`
}

// measured is what came of an experiment: the figures by kind of operation, none if the protocol has no such operations,
// and what an operation costs.
type measured struct {
	Verdict    string `json:"verdict"`
	Operations map[string]struct {
		Overall figures            `json:"overall"`
		Sites   map[string]figures `json:"sites"`
	} `json:"operations"`
	costs []float64 // by their place in perOperation
}

// costs is where the program tells how many operations there were, and what perOperation lists.
var costs = regexp.MustCompile(`: (\d+) operations, \d+ faults, (\d+) messages, (\d+) batches written, ` +
	`(\d+) bytes sent, (\d+) stored and (\d+) held in the end`)

// perOperation are the costs of an operation.
var perOperation = []string{
	"messages", "batches of records", "bytes of messages", "bytes stored in the end", "bytes held in memory in the end",
}

// Where the first sameRun costs are what they were, the run has gone the same way, and no other cost differs by chance:
// costlierAlike is how many times what it was each has to be then.
const (
	sameRun       = 2
	costlierAlike = 1.01
)

// measurements are those of the code without a mutant, by protocol and experiment. The zero value has none.
type measurements struct{ once[measured] }

// measure runs the experiments of a package's protocols with a mutant, and notes the first in which it is slower than
// without.
func (all *measurements) measure(ctx context.Context, program, folder string, known *result) error {
	for _, p := range protocolsOf[folder] {
		for _, e := range experiments() {
			if (e.sites == wide) != (fewest[p] == wide) {
				continue
			}
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
	return all.of(protocol+", "+e.by, func() (measured, error) { return measure(ctx, program, "", protocol, e) })
}

func measure(ctx context.Context, program, mutant, protocol string, e experiment) (m measured, err error) {
	arguments := []string{"simulate", "--protocol", protocol, "--clients", "2", "--duration", "12s",
		"--conflict", e.conflict, "--workload", e.workload, "--value-bytes", e.bytes, "--think", e.think,
		"--fsync", e.sync,
		"--output", "json"}
	if e.sites == wide {
		arguments = append(arguments, "--rtt", line())
	} else {
		arguments = append(arguments, "--profile", "gryff", "--sites", e.sites)
	}
	out, err := run(ctx, program, mutant, arguments)
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
	if told := costs.FindStringSubmatch(out); told != nil {
		operations, _ := strconv.ParseFloat(told[1], 64)
		for _, text := range told[2:] {
			cost, _ := strconv.ParseFloat(text, 64)
			m.costs = append(m.costs, cost/operations)
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
		a, b := was.Operations[kind], is.Operations[kind]
		if b.Overall.Count == 0 && a.Overall.Count > 0 {
			return "stuck", fmt.Sprintf("no %s ended", kind)
		}
		if why := compareFigures(a.Overall, b.Overall); why != "" {
			return "slower", fmt.Sprintf("%s: %s", kind, why)
		}
		for _, site := range slices.Sorted(maps.Keys(a.Sites)) {
			if why := compareFigures(a.Sites[site], b.Sites[site]); why != "" {
				return "slower", fmt.Sprintf("%s at %s: %s", kind, site, why)
			}
		}
	}
	if len(was.costs) != len(is.costs) {
		return "", "" // it did not tell
	}
	more := slower
	if len(is.costs) > sameRun && slices.Equal(was.costs[:sameRun], is.costs[:sameRun]) {
		more = costlierAlike
	}
	for i, cost := range is.costs {
		if cost > more*was.costs[i] {
			return "costlier", fmt.Sprintf("%.2f %s for each operation, not %.2f", cost, perOperation[i], was.costs[i])
		}
	}
	return "", ""
}

// compareFigures says what is worse, or nothing. A site has a hundred operations or fewer of a kind.
func compareFigures(was, is figures) string {
	switch {
	case is.Typical > slower*was.Typical && is.Late > slower*was.Late:
		return fmt.Sprintf("half take more than %.0f ms, not %.0f, and a tenth more than %.0f, not %.0f",
			is.Typical, was.Typical, is.Late, was.Late)
	case is.RoundTrips > was.RoundTrips+0.2:
		return fmt.Sprintf("%.2f round trips, not %.2f", is.RoundTrips, was.RoundTrips)
	case is.Fast < was.Fast-0.2:
		return fmt.Sprintf("%.2f take the fast path, not %.2f", is.Fast, was.Fast)
	}
	return ""
}
