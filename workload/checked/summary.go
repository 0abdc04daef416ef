package checked

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// The verdicts of a Summary.
const (
	Proved     = "proved"    // what the protocol promises, and every key was read back at every site
	Violated   = "violation" // no order explains what the clients saw
	NotDecided = "undecided" // it could not run, a key could not be read back, or the check took too long
)

// reasonBytes bounds the reason in a Summary, which must fit into the 4096 bytes of a container's termination message
// together with the figures of 13 sites.
const reasonBytes = 1000

// Summary is a verification in few words. Times are in milliseconds.
type Summary struct {
	Verdict    string                 `json:"verdict"`
	Reason     string                 `json:"reason,omitempty"` // why it is not proved
	Operations int                    `json:"operations"`       // all that began
	Outcomes   map[string]int         `json:"outcomes"`         // by status: OK, unavailable, unknown...
	Sites      map[string]SiteSummary `json:"sites"`
}

// SiteSummary tells what the clients of a site felt.
type SiteSummary struct {
	OK         int     `json:"ok"` // operations that were answered
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
	LongestGap float64 `json:"longest_gap_ms"` // without a success, up to the end of the history
	GapFrom    float64 `json:"gap_from_ms"`    // since the beginning
}

// fill takes the figures from a history.
func (s *Summary) fill(operations []history.Operation, gaps map[string]history.Gap) {
	s.Operations = len(operations)
	s.Outcomes, s.Sites = map[string]int{}, map[string]SiteSummary{}
	latencies := map[string][]time.Duration{}
	for _, o := range operations {
		s.Outcomes[o.Result.Status.String()]++
		all := latencies[o.Site]
		if o.Result.Status == register.OK {
			all = append(all, o.Latency())
		}
		latencies[o.Site] = all // a site without an answer is told of, too
	}
	for site, all := range latencies { // order is irrelevant: each is summed up for itself
		slices.Sort(all)
		gap := gaps[site]
		s.Sites[site] = SiteSummary{
			OK: len(all), P50: ms(at(all, 0.5)), P99: ms(at(all, 0.99)), Max: ms(at(all, 1)),
			LongestGap: ms(gap.Length()), GapFrom: ms(gap.From),
		}
	}
}

// at is a quantile of sorted times, 0 of none.
func at(sorted []time.Duration, quantile float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(quantile*float64(len(sorted)-1))]
}

// ms is a time in milliseconds, to a tenth.
func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)/(100*time.Microsecond)) / 10
}

// conclude notes the verdict that a verification's error means.
func (s *Summary) conclude(err error) {
	switch {
	case err == nil:
		s.Verdict = Proved
		return
	case errors.Is(err, ErrViolation):
		s.Verdict = Violated
	default:
		s.Verdict = NotDecided
	}
	s.Reason = err.Error()
	if len(s.Reason) > reasonBytes {
		s.Reason = strings.ToValidUTF8(s.Reason[:reasonBytes], "") + "..."
	}
}

// publish prints the summary in a line, and writes it to a file unless that is empty.
func (s *Summary) publish(out io.Writer, file string) error {
	line, err := json.Marshal(s)
	if err == nil {
		line = append(line, '\n')
		_, err = out.Write(line)
	}
	if err == nil && file != "" {
		err = os.WriteFile(file, line, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// Table writes the summary for people.
func (s *Summary) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "site\tok\tp50 ms\tp99 ms\tmax ms\tlongest gap ms\tfrom ms\t")
	for _, name := range slices.Sorted(maps.Keys(s.Sites)) {
		site := s.Sites[name]
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, site.OK, site.P50, site.P99, site.Max,
			site.LongestGap, site.GapFrom)
	}
	err := t.Flush()
	var outcomes []string
	for _, status := range slices.Sorted(maps.Keys(s.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%d %s", s.Outcomes[status], status))
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "%d operations: %s\n", s.Operations, strings.Join(outcomes, ", "))
	}
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// counters count what becomes of operations while they go on.
type counters struct {
	mu    sync.Mutex
	last  map[string]time.Time // of the last success, by site
	ended map[register.Status]int
}

func newCounters(sites []workload.Site) *counters {
	c := &counters{last: map[string]time.Time{}, ended: map[register.Status]int{}}
	for _, site := range sites {
		c.last[site.Name] = time.Now()
	}
	return c
}

// add counts an operation that has just ended.
func (c *counters) add(o history.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[o.Result.Status]++
	if o.Result.Status == register.OK {
		c.last[o.Site] = time.Now()
	}
}

// line tells how many operations ended in which way, and which sites had no success for a period or longer.
func (c *counters) line(now time.Time, period time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(c.ended)) {
		total += c.ended[status]
		if status != register.OK {
			parts = append(parts, fmt.Sprintf("%d %s", c.ended[status], status))
		}
	}
	for _, site := range slices.Sorted(maps.Keys(c.last)) {
		if silent := now.Sub(c.last[site]); silent >= period {
			parts = append(parts, fmt.Sprintf("no success at site %s for %.0f s", site, silent.Seconds()))
		}
	}
	return strings.Join(append([]string{fmt.Sprintf("%d operations", total)}, parts...), ", ")
}
