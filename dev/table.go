package dev

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/georegister/georegister/replica/meter"
)

// ratesOver is the time that the table's figures look back.
const ratesOver = 5 * time.Second

// Rates remembers readings, to tell what happened lately. It is not safe for concurrent use.
type Rates struct {
	samples map[string][]sample
	updates map[string][]updatesAt
}

type sample struct {
	at      time.Time
	pid     int
	reading meter.Reading
}

// NewRates remembers nothing yet.
func NewRates() *Rates {
	return &Rates{samples: map[string][]sample{}, updates: map[string][]updatesAt{}}
}

// since adds a reading and returns what happened between the oldest one that counts and it.
func (r *Rates) since(o Observation, now time.Time) (meter.Reading, time.Duration) {
	kept := r.samples[o.Label]
	if len(kept) > 0 && kept[0].pid != o.PID {
		kept = nil // counts began again with the process
	}
	for len(kept) > 1 && now.Sub(kept[0].at) > ratesOver {
		kept = kept[1:]
	}
	latest := sample{now, o.PID, o.reading()}
	r.samples[o.Label] = append(kept, latest)
	oldest := r.samples[o.Label][0]
	return latest.reading.Since(oldest.reading), now.Sub(oldest.at)
}

// Table renders what was observed, with what happened since the earlier calls.
func (r *Rates) Table(observations []Observation, now time.Time) []string {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var reasons []string // below the table: one long word would push every column out of sight
	heading := "SITE\tSTATE\tOPS/S\tP50\tP99\tFAST PATH\tREDIS\tGRPC\tPID"
	if len(observations) > 0 && observations[0].Witness != nil {
		heading += "\tWITNESS"
	}
	fmt.Fprintln(t, heading)
	for _, o := range observations {
		reading, over := r.since(o, now)
		rate, p50, p99, fast := "-", "-", "-", "-"
		if o.Status != nil && over > 0 {
			rate = fmt.Sprintf("%.0f", float64(reading.Answered)/over.Seconds())
		}
		if reading.Answered > 0 {
			p50, p99 = milliseconds(reading.Quantile(0.5)), milliseconds(reading.Quantile(0.99))
			fast = fmt.Sprintf("%.0f%%", 100*float64(reading.Fast)/float64(reading.Answered))
		}
		if o.Reason != "" {
			reasons = append(reasons, o.Label+" "+string(o.State)+": "+o.Reason)
		}
		if l := o.Status.GetLoss(); l != nil && !l.Over {
			reasons = append(reasons, o.Label+" found its disk damaged, and keeps what is left in "+l.Aside+" until it votes: "+l.Cause)
		}
		beside := ""
		if w := o.Witness; w != nil {
			beside = "\t" + string(w.State)
			if w.State == Running {
				beside = fmt.Sprintf("\t%d", w.PID)
			}
			if w.Reason != "" {
				reasons = append(reasons, w.Label+" "+string(w.State)+": "+w.Reason)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d%s\n", o.Label, o.State, rate, p50, p99, fast, o.Redis, o.GRPC, o.PID, beside)
	}
	_ = t.Flush() // to memory
	return append(strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), reasons...)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
