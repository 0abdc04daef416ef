package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/workload/bench"
)

// table holds the figures of one durability and one size of values.
type table struct {
	durability string
	valueBytes int
	systems    []system
	rows       []row
}

type row struct {
	cell    cell
	results map[string]bench.Result // by name of the system
}

func newTable(durability string, valueBytes int, systems []system) *table {
	return &table{durability: durability, valueBytes: valueBytes, systems: systems}
}

// measure adds a row. The systems take turns, so that a machine that changes its pace changes it for all.
func (t *table) measure(ctx context.Context, f flags, c cell) error {
	all := map[string][]bench.Result{}
	for range f.rounds {
		for _, s := range t.systems {
			if c.depth > 1 && !s.pipelines() {
				continue
			}
			o := s.options(f, c)
			result, err := f.data.run(ctx, "bench", s.name, c.kind.String(), t.durability, o)
			if err != nil {
				return fmt.Errorf("%s, %s, %d clients: %w", s.name, c.kind, c.clients, err)
			}
			all[s.name] = append(all[s.name], result)
			fmt.Fprintf(os.Stderr, "%s %d B, %s, %d clients x %d, %s: %.0f/s, p50 %s, p99 %s, CPU %s\n", t.durability,
				c.valueBytes, c.kind, c.clients, c.depth, s.name, result.Throughput(), result.P50, result.P99,
				result.CPUPerOperation())
		}
	}
	r := row{c, map[string]bench.Result{}}
	for name, results := range all {
		r.results[name] = medianOf(results)
	}
	t.rows = append(t.rows, r)
	return nil
}

// median is the middle one of some, which it sorts.
func median[T any](all []T, compare func(a, b T) int) T {
	slices.SortFunc(all, compare)
	return all[len(all)/2]
}

// medianOf is the result with the median throughput.
func medianOf(results []bench.Result) bench.Result {
	return median(results, func(a, b bench.Result) int { return int(a.Operations - b.Operations) })
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "## %s, values of %d bytes\n\n", t.durability, t.valueBytes)
	t.section(w, "Each client waits for its answer before it sends the next operation.", 1)
	t.section(w, fmt.Sprintf("Pipelined: each client sends %d operations together.", pipelineDepth), pipelineDepth)
}

func (t *table) section(w io.Writer, title string, depth int) {
	if !slices.ContainsFunc(t.rows, func(r row) bool { return r.cell.depth == depth && len(r.results) > 0 }) {
		return
	}
	fmt.Fprintf(w, "%s\n\n", title)
	fmt.Fprintln(w, "| operation | clients | through | operations/s | to etcd | p50 ms | p99 ms | CPU µs/operation |")
	fmt.Fprintln(w, "|---|---:|---|---:|---:|---:|---:|---:|")
	for _, r := range t.rows {
		for _, s := range t.systems {
			result, measured := r.results[s.name]
			if r.cell.depth != depth || !measured {
				continue
			}
			fmt.Fprintf(w, "| %s | %d | %s | %.0f | %s | %.1f | %.1f | %d |\n", r.cell.kind, r.cell.clients, s.name,
				result.Throughput(), ratio(result, r.results["etcd"]), ms(result.P50), ms(result.P99),
				result.CPUPerOperation().Microseconds())
		}
	}
	fmt.Fprintln(w)
}

// typical is the number of clients that summaries are about.
const typical = 128

// summarize prints throughput at the typical number of clients, and how it compares with etcd's.
func summarize(w io.Writer, tables []*table) {
	fmt.Fprintf(w,
		"## At %d clients, operations/s (and as a multiple of etcd's)\n\n| durability | bytes | operation |", typical)
	for _, s := range tables[0].systems {
		fmt.Fprintf(w, " %s |", s.name)
	}
	fmt.Fprintf(w, "\n|---|---:|---|%s\n", strings.Repeat("---:|", len(tables[0].systems)))
	for _, t := range tables {
		for _, r := range t.rows {
			if r.cell.clients != typical || r.cell.depth != 1 {
				continue
			}
			fmt.Fprintf(w, "| %s | %d | %s |", t.durability, t.valueBytes, r.cell.kind)
			for _, s := range t.systems {
				fmt.Fprintf(w, " %.0f (%s) |", r.results[s.name].Throughput(),
					ratio(r.results[s.name], r.results["etcd"]))
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintln(w)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratio(ours, etcd bench.Result) string {
	if etcd.Operations == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ours.Throughput()/etcd.Throughput())
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
