package console

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/meter"
)

// ratesOver is the time that the table's figures look back.
const ratesOver = 5 * time.Second

// samples are what counters were at some moments, by the label of the member that counts.
type samples[T any] map[string][]sample[T]

type sample[T any] struct {
	at    time.Time
	pid   int
	count T
}

// add adds a sample, and returns the oldest one that counts: of the same process, and no older than that takes.
func (s samples[T]) add(o dev.Observation, now time.Time, count T) sample[T] {
	kept := s[o.Label]
	if len(kept) > 0 && kept[0].pid != o.PID {
		kept = nil // counts began again with the process
	}
	for len(kept) > 1 && now.Sub(kept[0].at) > ratesOver {
		kept = kept[1:]
	}
	s[o.Label] = append(kept, sample[T]{now, o.PID, count})
	return s[o.Label][0]
}

// rates remember readings, to tell what happened lately. They are not safe for concurrent use.
type rates struct {
	operations samples[meter.Reading]
	updates    samples[[]updates] // by partition
}

func newRates() *rates {
	return &rates{operations: samples[meter.Reading]{}, updates: samples[[]updates]{}}
}

// reading sums up what a member's clients did.
func reading(o dev.Observation) meter.Reading {
	var sum meter.Reading
	for _, kind := range o.Status.GetOperations() {
		sum = sum.Plus(meter.Reading{
			Answered: kind.Answered, Refused: kind.Refused, Unanswered: kind.Unanswered,
			Fast: kind.Fast, RoundTrips: kind.RoundTrips, Latency: kind.LatencyBuckets,
		})
	}
	return sum
}

// table renders what was observed, with what happened since the earlier calls.
func (r *rates) table(observations []dev.Observation, now time.Time) []string {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var reasons []string // below the table: one long word would push every column out of sight
	heading := "SITE\tSTATE\tOPS/S\tP50\tP99\tFAST PATH\tREDIS\tGRPC\tPID"
	if len(observations) > 0 && observations[0].Witness != nil {
		heading += "\tWITNESS"
	}
	fmt.Fprintln(t, heading)
	for _, o := range observations {
		latest := reading(o)
		oldest := r.operations.add(o, now, latest)
		lately, over := latest.Since(oldest.count), now.Sub(oldest.at)
		rate, p50, p99 := "-", "-", "-"
		if o.Status != nil && over > 0 {
			rate = fmt.Sprintf("%.0f", float64(lately.Answered)/over.Seconds())
		}
		if lately.Answered > 0 {
			p50, p99 = milliseconds(lately.Quantile(0.5)), milliseconds(lately.Quantile(0.99))
		}
		if o.Reason != "" {
			reasons = append(reasons, o.Label+" "+string(o.State)+": "+o.Reason)
		}
		if l := o.Status.GetLoss(); l != nil && !l.Over {
			reasons = append(reasons,
				o.Label+" found its disk damaged, and keeps what is left in "+l.Aside+" until it votes: "+l.Cause)
		}
		beside := ""
		if w := o.Witness; w != nil {
			beside = "\t" + string(w.State)
			if w.State == dev.Running {
				beside = fmt.Sprintf("\t%d", w.PID)
			}
			if w.Reason != "" {
				reasons = append(reasons, w.Label+" "+string(w.State)+": "+w.Reason)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d%s\n", o.Label, o.State, rate, p50, p99,
			percent(lately.Fast, lately.Answered), o.Redis, o.GRPC, o.PID, beside)
	}
	return append(written(t, &b), reasons...)
}

// written are the lines of a table that was written to memory.
func written(t *tabwriter.Writer, b *bytes.Buffer) []string {
	_ = t.Flush() // to memory
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// percent is a share of a whole, and a dash of nothing.
func percent(share, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(share)/float64(whole))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
