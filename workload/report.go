package workload

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// Report gathers how long operations took, by kind and site. It is safe for concurrent use.
//
// As JSON it is {"verdict": ..., "operations": {KIND: {"overall": FIGURES, "sites": {NAME: FIGURES}}}}.
type Report struct {
	// Verdict is the outcome of the check of the same run's history; empty if it was not checked. Set it
	// when the run is over.
	Verdict history.Outcome

	mu      sync.Mutex
	sites   map[register.Kind]map[string]*meter
	outcome map[register.Status]int64
}

// meter measures one group of operations.
type meter struct {
	latency    *hdr.Histogram // microseconds, to three digits
	longest    int64          // microseconds, exactly
	roundTrips int64          // sum
	fast       int64          // how many took the fast path
}

// Figures are the measurements of one group of operations. Latencies are in milliseconds.
type Figures struct {
	Count        int64   `json:"count"`
	P50          float64 `json:"p50_ms"`
	P90          float64 `json:"p90_ms"`
	P99          float64 `json:"p99_ms"`
	P999         float64 `json:"p999_ms"`
	Max          float64 `json:"max_ms"`
	RoundTrips   float64 `json:"round_trips"` // the average
	FastPathRate float64 `json:"fast_path_rate"`
}

// KindFigures are the measurements of one kind of operations.
type KindFigures struct {
	Overall Figures            `json:"overall"`
	Sites   map[string]Figures `json:"sites"`
}

// NewReport is a report of nothing yet.
func NewReport() *Report {
	return &Report{sites: map[register.Kind]map[string]*meter{}, outcome: map[register.Status]int64{}}
}

// mostLatency is the longest latency that is told apart from longer ones, in microseconds.
const mostLatency = int64(time.Hour / time.Microsecond)

func newMeter() *meter { return &meter{latency: hdr.New(1, mostLatency, 3)} }

// Record adds an operation. Only answers are measured, a refusal by an rmw function among them; the others
// are counted (see Outcomes).
func (r *Report) Record(o history.Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome[o.Result.Status]++
	if o.Result.Status != register.OK && o.Result.Status != register.Failed {
		return
	}
	sites := r.sites[o.Request.Kind]
	if sites == nil {
		sites = map[string]*meter{}
		r.sites[o.Request.Kind] = sites
	}
	if sites[o.Site] == nil {
		sites[o.Site] = newMeter()
	}
	sites[o.Site].record(o)
}

func (m *meter) record(o history.Operation) {
	// Clamped into the histogram's range, so that no operation is ever left out of the figures.
	microseconds := min(max(int64(o.Latency()/time.Microsecond), 1), mostLatency)
	_ = m.latency.RecordValue(microseconds)
	m.longest = max(m.longest, microseconds)
	m.roundTrips += int64(o.Result.RoundTrips)
	if o.Result.Fast {
		m.fast++
	}
}

// Outcomes counts the recorded operations by what became of them.
func (r *Report) Outcomes() map[register.Status]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.outcome)
}

// Operations is how many operations got an answer, of all kinds.
func (r *Report) Operations() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome[register.OK] + r.outcome[register.Failed]
}

// Figures are the measurements by kind. Kinds of which nothing was measured are left out.
func (r *Report) Figures() map[register.Kind]KindFigures {
	r.mu.Lock()
	defer r.mu.Unlock()
	figures := make(map[register.Kind]KindFigures, len(r.sites))
	for kind, meters := range r.sites {
		overall, sites := newMeter(), make(map[string]Figures, len(meters))
		for site, m := range meters {
			overall.add(m)
			sites[site] = m.figures()
		}
		figures[kind] = KindFigures{Overall: overall.figures(), Sites: sites}
	}
	return figures
}

// add adds what another meter measured.
func (m *meter) add(o *meter) {
	m.latency.Merge(o.latency)
	m.longest = max(m.longest, o.longest)
	m.roundTrips += o.roundTrips
	m.fast += o.fast
}

func (m *meter) figures() Figures {
	count := m.latency.TotalCount() // never 0: a meter is made for an operation
	at := func(percentile float64) float64 {
		// The histogram rounds up, but never above what was measured.
		return float64(min(m.latency.ValueAtPercentile(percentile), m.longest)) / 1000
	}
	return Figures{
		Count: count,
		P50:   at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max:          float64(m.longest) / 1000,
		RoundTrips:   float64(m.roundTrips) / float64(count),
		FastPathRate: float64(m.fast) / float64(count),
	}
}

// MarshalJSON renders the report for programs.
func (r *Report) MarshalJSON() ([]byte, error) {
	operations := map[string]KindFigures{}
	for kind, figures := range r.Figures() {
		operations[kind.String()] = figures
	}
	return json.Marshal(struct {
		Verdict    history.Outcome        `json:"verdict"`
		Operations map[string]KindFigures `json:"operations"`
	}{r.Verdict, operations})
}

// Table renders the report for people.
func (r *Report) Table(w io.Writer) error {
	figures, outcomes := r.Figures(), r.Outcomes()
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\tsite\tcount\tp50 ms\tp90 ms\tp99 ms\tp99.9 ms\tmax ms\tround trips\tfast path\t")
	for _, kind := range slices.Sorted(maps.Keys(figures)) {
		k := figures[kind]
		for _, site := range slices.Sorted(maps.Keys(k.Sites)) {
			row(t, kind.String(), site, k.Sites[site])
		}
		row(t, kind.String(), "all", k.Overall)
	}
	_ = t.Flush() // to memory
	for _, status := range slices.Sorted(maps.Keys(outcomes)) {
		if status != register.OK { // the table leaves them out
			fmt.Fprintf(&b, "%s: %d operations\n", status, outcomes[status])
		}
	}
	if r.Verdict != "" {
		fmt.Fprintf(&b, "verdict: %s\n", r.Verdict)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func row(t io.Writer, kind, site string, f Figures) {
	fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f%%\t\n",
		kind, site, f.Count, f.P50, f.P90, f.P99, f.P999, f.Max, f.RoundTrips, 100*f.FastPathRate)
}
