package dev

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
func (s Session) check(ctx context.Context, cluster *Cluster, console *Console, screen *screen) (err error) {
	protocol := s.Options.Manifest.Spec.Protocol
	spec, err := checked.Spec(protocol)
	if err != nil {
		return err
	}
	connected, err := cluster.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connected.close()) }()
	recorder := history.NewRecorder(nil)
	var ended atomic.Int64
	load := workload.Loop{
		Spec: spec, Sites: connected.sites, Clients: s.Check.Clients, Seed: checkSeed,
		Duration: s.Check.Duration, Operations: checked.MaxOperations, Recorder: recorder, FenceEvery: checked.FenceEvery(protocol),
		Progress: func(n int64) { ended.Store(n) },
	}
	screen.print(fmt.Sprintf("checking for %s: %d clients at each of %d sites\n", s.Check.Duration, s.Check.Clients, len(load.Sites)))
	report, err := s.load(ctx, cluster, console, screen, load, &ended)
	if ctx.Err() != nil {
		return errors.New("interrupted: no verdict")
	}
	if err != nil {
		return err
	}
	present, err := cluster.dial(ctx) // to the members that there are now
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, present.close()) }()
	if err := checked.ReadBack(ctx, present.sites, recorder); err != nil {
		return err
	}
	record := recorder.Record()
	if s.Check.History != "" {
		if err := history.WriteRecordFile(s.Check.History, record); err != nil {
			return err
		}
	}
	screen.print(fmt.Sprintf("checking %d operations\n", len(record.Operations)))
	verdict := checked.Judge(ctx, protocol, record, report)
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		return err
	}
	screen.print(table.String())
	return verdict
}

// load runs the workload and the faults side by side, and shows how they are doing.
func (s Session) load(ctx context.Context, cluster *Cluster, console *Console, screen *screen, load workload.Loop, ended *atomic.Int64) (*workload.Report, error) {
	var report *workload.Report
	group, running := errgroup.WithContext(ctx)
	over := make(chan struct{})
	group.Go(func() (err error) {
		defer close(over)
		report, err = load.Run(running)
		return err
	})
	group.Go(func() error { return s.faults(running, cluster, console, screen) })
	go s.progress(ctx, console, screen, ended, over)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return report, nil
}

// progress shows the table, or a line where it can't stay, until the load is over.
func (s Session) progress(ctx context.Context, console *Console, screen *screen, ended *atomic.Int64, over <-chan struct{}) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for start := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-over:
			return
		}
		if screen.live() {
			screen.show(console.Table(ctx))
		} else {
			screen.print(fmt.Sprintf("%4.0f s: %d operations\n", time.Since(start).Seconds(), ended.Load()))
		}
	}
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
func (s Session) faults(ctx context.Context, cluster *Cluster, console *Console, screen *screen) error {
	protocol, err := capability.Find(s.Options.Manifest.Spec.Protocol)
	if err != nil {
		return err
	}
	spec := s.Options.Manifest.Spec
	faults := protocol.Faults(len(cluster.all()))
	if spec.Partitioned() {
		faults = min(faults, spec.Faults())
	}
	sites := cluster.Sites()
	for _, site := range sites {
		if at, err := cluster.find(site); err != nil || len(at) > faults {
			return err // killing it would stop the cluster
		}
	}
	start := time.Now()
	for _, f := range plan(sites, faults, spec.Partitioned()) {
		timer := time.NewTimer(time.Until(start.Add(time.Duration(f.at * float64(s.Check.Duration)))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if replaced, ok := strings.CutPrefix(f.line, "replace "); ok {
			others := slices.Clone(sites)
			if spec.Partitioned() { // it was wiped, and waits for that
				others = slices.DeleteFunc(others, func(site string) bool { return site == replaced })
			}
			if err := serveAgain(ctx, cluster, others...); err != nil {
				return err
			}
		}
		text, err := console.Execute(ctx, f.line)
		if err != nil {
			return fmt.Errorf("%s: %w", f.line, err)
		}
		screen.print(text + "\n")
		if err := console.Follow(ctx, f.line, func(string) {}); err != nil { // the screen has the lines already
			return fmt.Errorf("%s: %w", f.line, err)
		}
	}
	if err := serveAgain(ctx, cluster); err != nil {
		return err
	}
	screen.print("all members serve again\n")
	return nil
}

func serveAgain(ctx context.Context, cluster *Cluster, sites ...string) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := cluster.WaitServing(within, sites...); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	return nil
}
