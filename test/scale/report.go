package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"
)

// print writes the tables.
func (m *measurement) print(to io.Writer) {
	count := m.clusters + m.singles
	fmt.Fprintf(to, "%d clusters of %d members, %d cores, %s\n\n", m.clusters, len(sites),
		runtime.NumCPU(), runtime.Version())
	fmt.Fprint(to, "| what | figure |\n|---|---:|\n")
	row := func(what, format string, args ...any) {
		fmt.Fprintf(to, "| %s | "+format+" |\n", append([]any{what}, args...)...)
	}
	row("memory without a cluster, MiB", "%d", m.before.resident)
	row("memory at rest, MiB", "%d", m.rested.resident)
	row("most memory ever, MiB", "%d", m.rested.peak)
	row("all available after, s", "%.1f", m.all.Seconds())
	row("a cluster of these: p50, p99, s", "%.1f, %.1f", quantile(m.crowdTook, 0.5).Seconds(),
		quantile(m.crowdTook, 0.99).Seconds())
	row("CPU until then, s", "%.1f", (m.converged.cpu - m.before.cpu).Seconds())
	if _, _, others := m.crowdAsked.kinds(); true {
		row("requests until then, per cluster", "%.1f", float64(others)/float64(m.clusters))
	}
	if len(m.singleTook) > 0 {
		row("a cluster created alone: p50, p99, s", "%.2f, %.2f", quantile(m.singleTook, 0.5).Seconds(),
			quantile(m.singleTook, 0.99).Seconds())
	}
	if len(m.editTook) > 0 {
		row("an edit is seen after: p50, p99, s", "%.2f, %.2f", quantile(m.editTook, 0.5).Seconds(),
			quantile(m.editTook, 0.99).Seconds())
		row("the same while a member of every cluster is mute", "%.2f, %.2f", quantile(m.muteTook, 0.5).Seconds(),
			quantile(m.muteTook, 0.99).Seconds())
	}
	row("CPU at rest, % of a core", "%.2f", 100*(m.rested.cpu-m.settledCPU).Seconds()/m.flags.rest.Seconds())
	watches, leases, others := m.atRest.kinds()
	hourly := func(n int) float64 { return float64(n) / float64(count) / m.flags.rest.Hours() }
	row("requests at rest, per cluster and hour: others than watches and leases", "%.2f", hourly(others))
	row("watches", "%.2f", hourly(watches))
	row("leases", "%.2f", hourly(leases))
	fmt.Fprintf(to, "\nAll requests in %v at rest, by %d clusters:\n\n| request | count |\n|---|---:|\n",
		m.flags.rest, count)
	for _, name := range slices.Sorted(maps.Keys(m.atRest)) {
		fmt.Fprintf(to, "| %s | %d |\n", name, m.atRest[name])
	}
	fmt.Fprint(to, "\nAll requests until the crowd was available:\n\n| request | count |\n|---|---:|\n")
	for _, name := range slices.Sorted(maps.Keys(m.crowdAsked)) {
		fmt.Fprintf(to, "| %s | %d |\n", name, m.crowdAsked[name])
	}
}

// quantile is the least of the durations that a share of them does not exceed; 0 of none.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
