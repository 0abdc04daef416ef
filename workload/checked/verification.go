package checked

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
)

// beginWithin is how long a site may take to answer for the first time.
const beginWithin = time.Minute

// Verification loads a store that somebody else runs from each of its sites, and judges what the clients saw.
type Verification struct {
	Protocol string
	// Sites are the stores' listeners. The clients of a site use its address alone, so that the report tells what the
	// clients of a site felt.
	Sites    []client.Endpoint
	Duration time.Duration
	Clients  int           // at each site
	Every    time.Duration // a client begins an operation at most as often; 0: at once
	Seed     uint64        // makes the operations; their interleaving is as real as the time
	History  string        // file for the recorded operations; empty: none
	Report   string        // file for the Summary, as JSON; empty: none
	Progress time.Duration // between two lines of progress
}

// Run carries the verification out and returns an error unless the history is what the protocol promises, linearizable
// or regular sequentially consistent; the error is an ErrViolation if it is not, and any other if that could not be
// decided. It uses keys of a prefix of its own, which it leaves in the store: whoever doubts the verdict can look. A
// Summary, in one line of JSON, is the last that it prints.
func (v Verification) Run(ctx context.Context, out io.Writer) error {
	summary := &Summary{}
	err := v.run(ctx, out, summary)
	summary.conclude(err)
	return errors.Join(err, summary.publish(out, v.Report))
}

func (v Verification) run(ctx context.Context, out io.Writer, summary *Summary) (err error) {
	spec, err := Spec(v.Protocol)
	if err != nil {
		return err
	}
	connected := &Clients{Prefix: "verify/" + rand.Text() + "/"}
	defer func() { err = errors.Join(err, connected.Close()) }()
	for _, endpoint := range v.Sites {
		if err := begin(ctx, connected, endpoint); err != nil {
			return err
		}
	}
	sites := connected.Sites
	counts := newCounters(sites)
	fmt.Fprintf(out, "verifying for %s: %d clients at each of %d sites, keys under %q\n", v.Duration, v.Clients,
		len(sites),
		connected.Prefix)
	recorder := history.NewRecorder(nil)
	stop := Every(v.Progress, func(elapsed time.Duration) {
		fmt.Fprintf(out, "%4.0f s: %s\n", elapsed.Seconds(), counts.line(time.Now(), v.Progress))
	})
	report, err := workload.Loop{
		Spec: spec, Sites: sites, Clients: v.Clients, Seed: v.Seed,
		Duration: v.Duration, Every: v.Every, Operations: MaxOperations, Recorder: recorder,
		FenceEvery: FenceEvery(v.Protocol), Progress: counts.add,
	}.Run(ctx)
	stop()
	if err != nil {
		return err
	}
	begun := recorder.Len()
	fmt.Fprintln(out, "the load is over: reading every key back at every site")
	ending, cancel := Ending(ctx)
	defer cancel()
	read := ReadBack(ending, sites, recorder)
	verdict := Conclude(ending, v.Protocol, recorder, report, v.History)
	operations := recorder.Operations()
	gaps := history.LongestGaps(operations)
	for _, site := range slices.Sorted(maps.Keys(gaps)) {
		fmt.Fprintf(out, "longest time without a success at site %s: %s, from %s on\n", site,
			gaps[site].Length().Round(time.Millisecond), gaps[site].From.Round(time.Millisecond))
	}
	summary.fill(operations, gaps)
	return errors.Join(report.Table(out), verdict, read, v.whole(ctx, begun))
}

// whole is an error if the load ended before its time: a verdict on half of what was asked for is none.
func (v Verification) whole(ctx context.Context, begun int) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the load was interrupted: %w", context.Cause(ctx))
	case begun >= MaxOperations:
		return fmt.Errorf("the load ended before %s were over, at %d operations, which are all that can be checked; "+
			"give a longer --every or fewer --clients", v.Duration, begun)
	}
	return nil
}

// begin connects to a site, which must answer soon: who never answers can't be verified.
func begin(ctx context.Context, connected *Clients, endpoint client.Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	return connected.Add(ctx, endpoint.Site, client.Options{Endpoints: []client.Endpoint{endpoint}, InOrder: true})
}
