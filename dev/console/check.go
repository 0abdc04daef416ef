package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
	"github.com/georegister/georegister/workload/checked"
)

const (
	// operationWithin bounds one operation of a check.
	operationWithin = 10 * time.Second
	// checkSeed makes the operations of a check; their interleaving is as real as the time.
	checkSeed = 1
)

// CheckOptions say how a check loads a cluster, and for how long.
type CheckOptions struct {
	Duration time.Duration
	Clients  int    // at each site
	History  string // file for the recorded operations; empty: none
}

// check loads the cluster from every site while members are killed, wiped, restarted and replaced, then decides
// whether what the clients saw is what the protocol promises. It returns an error unless it is.
func (r running) check(ctx context.Context) (err error) {
	protocol := r.Options.Manifest.Spec.Protocol
	spec, err := checked.Spec(protocol)
	if err != nil {
		return err
	}
	connected, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connected.Close()) }()
	recorder := history.NewRecorder(nil)
	var ended atomic.Int64
	load := workload.Loop{
		Spec: spec, Sites: connected.Sites, Clients: r.Check.Clients, Seed: checkSeed,
		Duration: r.Check.Duration, Operations: checked.MaxOperations, Recorder: recorder,
		FenceEvery: checked.FenceEvery(protocol),
		Progress:   func(history.Operation) { ended.Add(1) },
	}
	r.screen.print(fmt.Sprintf("checking for %s: %d clients at each of %d sites\n", r.Check.Duration, r.Check.Clients,
		len(load.Sites)))
	report, err := r.load(ctx, load, &ended)
	if ctx.Err() != nil {
		return errors.New("interrupted: no verdict")
	}
	if err != nil {
		return err
	}
	present, err := r.dial(ctx) // to the members that there are now
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, present.Close()) }()
	if err := checked.ReadBack(ctx, present.Sites, recorder); err != nil {
		return err
	}
	r.screen.print(fmt.Sprintf("checking %d operations\n", recorder.Len()))
	verdict := checked.Conclude(ctx, protocol, recorder, report, r.Check.History)
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		return err
	}
	r.screen.print(table.String())
	return verdict
}

// load runs the workload and the faults side by side, and shows how they are doing: by the table, or by lines where it
// can't stay.
func (r running) load(ctx context.Context, load workload.Loop, ended *atomic.Int64) (*workload.Report, error) {
	var report *workload.Report
	group, within := errgroup.WithContext(ctx)
	stop := checked.Every(refreshEvery, func(elapsed time.Duration) {
		if r.screen.live() {
			r.screen.show(r.console.Table(ctx))
		} else {
			r.screen.print(fmt.Sprintf("%4.0f s: %d operations\n", elapsed.Seconds(), ended.Load()))
		}
	})
	group.Go(func() (err error) {
		defer stop()
		report, err = load.Run(within)
		return err
	})
	group.Go(func() error { return r.faults(within) })
	err := group.Wait()
	return report, err
}

// fault is a command that a check gives, at a share of its duration.
type fault struct {
	at   float64
	line string
}

// plan kills and restarts the last site and, where two members may be lost, wipes the second one meanwhile. Then it
// replaces the first one; or the wiped one, where a lost disk does not fill again by itself.
func plan(sites []string, faults int, partitioned bool) []fault {
	last, replaced := sites[len(sites)-1], sites[0]
	p := []fault{{0.25, "kill " + last}}
	if faults > 1 && len(sites) > 2 {
		p = append(p, fault{0.4, "wipe " + sites[1]})
		if partitioned {
			replaced = sites[1]
		}
	}
	return append(p, fault{0.6, "restart " + last}, fault{0.75, "replace " + replaced})
}

// faults carries out the plan, and waits until all members serve again. Before the members change, it waits too.
func (r running) faults(ctx context.Context) error {
	protocol, err := capability.Find(r.Options.Manifest.Spec.Protocol)
	if err != nil {
		return err
	}
	spec := r.Options.Manifest.Spec
	observations := r.cluster.Observe(ctx)
	faults := protocol.Faults(len(observations))
	if spec.Partitioned() {
		faults = min(faults, spec.Faults())
	}
	sites, members := sitesOf(observations), map[string]int{}
	for _, o := range observations {
		if members[o.Site]++; members[o.Site] > faults {
			return nil // killing them would stop the cluster
		}
	}
	start := time.Now()
	for _, f := range plan(sites, faults, spec.Partitioned()) {
		select {
		case <-time.After(time.Until(start.Add(time.Duration(f.at * float64(r.Check.Duration))))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if replaced, ok := strings.CutPrefix(f.line, "replace "); ok {
			others := slices.Clone(sites)
			if spec.Partitioned() { // it was wiped, and waits for that
				others = slices.DeleteFunc(others, func(site string) bool { return site == replaced })
			}
			if err := r.serveAgain(ctx, others...); err != nil {
				return err
			}
		}
		text, err := r.console.Execute(ctx, f.line)
		if err != nil {
			return fmt.Errorf("%s: %w", f.line, err)
		}
		r.screen.print(text + "\n")
		if err := r.console.Follow(ctx, f.line, func(string) {}); err != nil { // the screen has the lines already
			return fmt.Errorf("%s: %w", f.line, err)
		}
	}
	if err := r.serveAgain(ctx); err != nil {
		return err
	}
	r.screen.print("all members serve again\n")
	return nil
}

func (r running) serveAgain(ctx context.Context, sites ...string) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := r.cluster.WaitServing(within, sites...); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	return nil
}
