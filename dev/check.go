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
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

const (
	// operationWithin bounds one operation of a check.
	operationWithin = 10 * time.Second
	// checkWithin bounds the search for a violation.
	checkWithin = 2 * time.Minute
	// maxOperations bounds what a check keeps in memory.
	maxOperations = 1_000_000
	// checkSeed makes the operations of a check; their interleaving is as real as the time.
	checkSeed = 1
)

// CheckOptions say how a check loads a cluster, and for how long.
type CheckOptions struct {
	Duration time.Duration
	Clients  int    // at each site
	History  string // file for the recorded operations; empty: none
}

// checkSpec is the workload of a check: few keys, so that clients of different sites meet, and all kinds of
// operations that the protocol has.
func checkSpec(protocol string) (workload.Spec, error) {
	p, err := capability.Find(protocol)
	if err != nil {
		return workload.Spec{}, err
	}
	spec := workload.Default()
	spec.Keys, spec.KeyCount, spec.RMWs = workload.Zipf, 200, workload.RMWMixed
	spec.Mix = workload.Mix{Read: 50, Write: 50}
	if p.CheckOperation(register.RMW) == nil {
		spec.Mix = workload.Mix{Read: 45, Write: 45, RMW: 10}
	}
	return spec, nil
}

// check loads the cluster from every site while members are killed, wiped and restarted, then decides whether
// what the clients saw is linearizable. It returns an error unless it is.
func (s Session) check(ctx context.Context, cluster *Cluster, console *Console, screen *screen) (err error) {
	protocol := s.Options.Manifest.Spec.Protocol
	spec, err := checkSpec(protocol)
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
		Duration: s.Check.Duration, Operations: maxOperations, Recorder: recorder,
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
	if err := readBack(ctx, connected.sites, recorder); err != nil {
		return err
	}
	operations := recorder.Operations()
	if s.Check.History != "" {
		if err := history.WriteFile(s.Check.History, operations); err != nil {
			return err
		}
	}
	screen.print(fmt.Sprintf("checking %d operations\n", len(operations)))
	verdict := history.Check(operations, history.Options{Timeout: checkWithin})
	report.Verdict = verdict.Outcome
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		return err
	}
	screen.print(table.String())
	if !verdict.OK() {
		return fmt.Errorf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	return nil
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

// plan kills and restarts the last site and, where two members may be lost, wipes the second one meanwhile.
func plan(sites []string, faults int) []fault {
	last := sites[len(sites)-1]
	p := []fault{{0.25, "kill " + last}}
	if faults > 1 && len(sites) > 2 {
		p = append(p, fault{0.4, "wipe " + sites[1]})
	}
	return append(p, fault{0.6, "restart " + last})
}

// faults carries out the plan, and waits until all members serve again.
func (s Session) faults(ctx context.Context, cluster *Cluster, console *Console, screen *screen) error {
	spec := s.Options.Manifest.Spec
	protocol, err := capability.Find(spec.Protocol)
	if err != nil {
		return err
	}
	var sites []string
	for _, site := range spec.Sites {
		if site.MemberCount() > protocol.Faults(spec.MemberCount()) {
			return nil // killing it would stop the cluster
		}
		sites = append(sites, site.Name)
	}
	start := time.Now()
	for _, f := range plan(sites, protocol.Faults(spec.MemberCount())) {
		timer := time.NewTimer(time.Until(start.Add(time.Duration(f.at * float64(s.Check.Duration)))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		text, err := console.Execute(ctx, f.line)
		if err != nil {
			return fmt.Errorf("%s: %w", f.line, err)
		}
		screen.print(text + "\n")
	}
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := cluster.WaitServing(within); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	screen.print("all members serve again\n")
	return nil
}

// readBack reads every key of the history at every site, and records that: whatever was acknowledged and is
// lost shows at the latest here.
func readBack(ctx context.Context, sites []workload.Site, recorder *history.Recorder) error {
	var keys []string
	for _, o := range recorder.Operations() {
		keys = append(keys, o.Request.Key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	group, ctx := errgroup.WithContext(ctx)
	for i, site := range sites {
		group.Go(func() error {
			doer, err := site.Connect(ctx, i)
			if err != nil {
				return fmt.Errorf("read back at site %s: %w", site.Name, err)
			}
			for _, key := range keys {
				op := register.Operation{Kind: register.Read, Key: key}
				invocation := recorder.Invoke("read-back-"+site.Name, site.Name, op)
				result := doer.Do(ctx, op)
				invocation.Return(result)
				if result.Status != register.OK {
					return fmt.Errorf("read back key %q at site %s: %s: %s", key, site.Name, result.Status, result.Message)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
