// Package phases tells what clients felt in each phase of an experiment, from the history of its operations.
package phases

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// Phase is a part of an experiment.
type Phase struct {
	Name     string
	From, To time.Duration // readings of the history's clock
	// Sites are those whose clients count, in the order of the report.
	Sites []Site
}

// Site is a site in a phase. One that joins in it is judged from its first success on, one that leaves in it until its
// last: what its clients were refused before and after is no gap.
type Site struct {
	Name          string
	Joins, Leaves bool
}

// Stay lists sites that neither join nor leave.
func Stay(names ...string) []Site {
	sites := make([]Site, len(names))
	for i, name := range names {
		sites[i].Name = name
	}
	return sites
}

// Row is what the clients of a site felt in a phase.
type Row struct {
	Phase, Site string
	Succeeded   int // operations that were answered in the phase; a refusal by an rmw function is an answer
	Failed      int // operations that began in the phase and were refused, or whose outcome is unknown
	PerSecond   float64
	P50, P99    time.Duration // of those that succeeded
	// Gap is the longest time without a success, the phase's two ends counted as successes, and GapAt when it began
	// after the start of the phase.
	Gap, GapAt time.Duration
}

// All is the Site of a Row over all sites: its gap is the longest at any one of them.
const All = "all"

// Rows has one row for each phase and site, and after those of a phase one for all its sites.
func Rows(operations []history.Operation, phases []Phase) []Row {
	bySite := map[string][]history.Operation{}
	for _, o := range operations {
		bySite[o.Site] = append(bySite[o.Site], o)
	}
	var rows []Row
	for _, p := range phases {
		all := Row{Phase: p.Name, Site: All}
		var latencies []time.Duration
		for _, site := range p.Sites {
			row, took := p.row(site, bySite[site.Name])
			rows = append(rows, row)
			latencies = append(latencies, took...)
			all.Succeeded += row.Succeeded
			all.Failed += row.Failed
			if row.Gap > all.Gap {
				all.Gap, all.GapAt = row.Gap, row.GapAt
			}
		}
		all.measure(latencies, p.To-p.From)
		rows = append(rows, all)
	}
	return rows
}

// row is a site's row, and the latencies that it is made of.
func (p Phase) row(site Site, operations []history.Operation) (Row, []time.Duration) {
	r := Row{Phase: p.Name, Site: site.Name}
	var answers []history.Operation
	var successes []time.Duration
	for _, o := range operations {
		switch answered := o.Result.Status == register.OK || o.Result.Status == register.Failed; {
		case answered && o.Returned >= p.From && o.Returned < p.To:
			answers = append(answers, o)
			successes = append(successes, o.Returned)
		case !answered && o.Invoked >= p.From && o.Invoked < p.To:
			r.Failed++
		}
	}
	slices.Sort(successes)
	r.Succeeded = len(successes)
	from, to := p.From, p.To
	if site.Joins && len(successes) > 0 {
		from = successes[0]
	}
	if site.Leaves && len(successes) > 0 {
		to = successes[len(successes)-1]
	}
	last := from
	for _, at := range append(successes, to) {
		if at-last > r.Gap {
			r.Gap, r.GapAt = at-last, last-p.From
		}
		last = at
	}
	var latencies []time.Duration
	for _, o := range answers {
		if !site.Joins || o.Invoked >= from { // else it waited for the site
			latencies = append(latencies, o.Latency())
		}
	}
	r.measure(latencies, to-from)
	return r, latencies
}

// measure fills in what follows from the latencies of the operations of a time.
func (r *Row) measure(latencies []time.Duration, over time.Duration) {
	if len(latencies) == 0 || over <= 0 {
		return
	}
	slices.Sort(latencies)
	r.PerSecond = float64(len(latencies)) / over.Seconds()
	r.P50 = latencies[(len(latencies)-1)*50/100]
	r.P99 = latencies[(len(latencies)-1)*99/100]
}

// Table renders rows for people.
func Table(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tsite\toperations\tfailed\tper second\tp50 ms\tp99 ms\tlongest gap ms\tat s\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.0f\t%.1f\t\n", r.Phase, r.Site, r.Succeeded, r.Failed,
			r.PerSecond, milliseconds(r.P50), milliseconds(r.P99), milliseconds(r.Gap), r.GapAt.Seconds())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the table of phases: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
