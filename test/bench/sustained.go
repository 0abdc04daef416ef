package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sustaining are the flags of `bench sustained`.
type sustaining struct {
	growing
	share, rate float64
	peak        time.Duration
	window      time.Duration
	memory      string
}

// measureSustained has a store with more data than memory answer a share of its peak for minutes, so that tables are
// written out and merged all the time, and then starts it again after all its processes were killed.
func measureSustained(ctx context.Context, args []string) error {
	f := sustaining{}
	var err error
	f.growing, err = parseStores("sustained", args, "5000000", func(set *flag.FlagSet) {
		set.Float64Var(&f.share, "share", 0.7, "how much of the peak the open loop offers")
		set.Float64Var(&f.rate, "rate", 0, "how many operations a second it offers instead, to compare versions "+
			"under one load; 0: the share of the peak")
		set.DurationVar(&f.peak, "peak", time.Minute, "how long the peak is measured: it is too high where the "+
			"tables that are written in that time are not merged in it")
		set.DurationVar(&f.window, "window", 5*time.Minute, "how long it does")
		set.StringVar(&f.memory, "memory", "2Gi", "the memory of a member: its cache and its heap are what they would "+
			"be in a container of that limit; the pages of its files are the machine's")
	})
	if err != nil {
		return err
	}
	quantity, err := resource.ParseQuantity(f.memory)
	if err != nil {
		return fmt.Errorf("-memory: %w", err)
	}
	f.limit, f.unread = quantity.Value(), true
	stores, stop, err := f.start(ctx)
	defer stop()
	if err != nil {
		return err
	}
	load := fmt.Sprintf("%.0f%% of the peak", 100*f.share)
	if f.rate > 0 {
		load = fmt.Sprintf("%.0f operations/s", f.rate)
	}
	fmt.Printf("# %s for %s, three members of %s and their clients on one machine: %s\n\n", load, f.window, f.memory,
		machine())
	fmt.Printf("%d clients, values of %d random bytes, durability %s. A latency counts from when its operation was "+
		"due.\n\n", f.clients[0], f.valueBytes, f.durabilities[0])
	fmt.Println("| workload | store | keys | peak, operations/s | offered | answered | p50 ms | p99 ms | p99.9 ms | " +
		"CPU µs/operation | largest resident memory, MiB | files, MiB a member |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, m := range f.chosen() {
		for _, s := range stores {
			if err := f.sustain(ctx, m, s); err != nil {
				return fmt.Errorf("%s, %s: %w", m.name, s.name, err)
			}
		}
	}
	fmt.Println("\n| store | keys | all processes killed; until every member answers, s |\n|---|---:|---:|")
	for _, s := range stores {
		took, err := s.cluster.restart(ctx, s.listener)
		if err != nil {
			return fmt.Errorf("start %s again: %w", s.name, err)
		}
		fmt.Printf("| %s | %d | %.1f |\n", s.name, s.keys, took.Seconds())
	}
	return nil
}

// sustain prints the row of a store.
func (f sustaining) sustain(ctx context.Context, m mix, s store) error {
	o := f.options(s, m)
	o.Duration = f.peak
	peak, err := f.data.run(ctx, "bench sustained", s.name, m.name, f.durabilities[0], o)
	if err != nil {
		return fmt.Errorf("peak: %w", err)
	}
	o.Rate, o.Duration = cmp.Or(f.rate, f.share*peak.Throughput()), f.window
	fmt.Fprintf(os.Stderr, "%s, %s: peak %.0f/s, CPU %s; %.0f/s for %s\n", m.name, s.name, peak.Throughput(),
		peak.CPUPerOperation(), o.Rate, o.Duration)
	r, err := f.data.run(ctx, "bench sustained", s.name, m.name, f.durabilities[0], o)
	if err != nil {
		return err
	}
	resident, err := s.cluster.resident()
	if err != nil {
		return err
	}
	files, err := sizeOf(s.cluster.dir)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %s | %d | %.0f | %.0f | %.0f | %.1f | %.1f | %.1f | %d | %d | %d |\n", m.name, s.name, s.keys,
		peak.Throughput(), o.Rate, r.Throughput(), ms(r.P50), ms(r.P99), ms(r.P999), r.CPUPerOperation().Microseconds(),
		resident>>20, files/members>>20)
	return nil
}

// resident is the most memory that any process had resident so far, in bytes.
func (c *cluster) resident() (most int64, err error) {
	for _, pid := range c.pids() {
		process, err := procfs.NewProc(pid)
		var status procfs.ProcStatus
		if err == nil {
			status, err = process.NewStatus()
		}
		if err != nil {
			return 0, fmt.Errorf("memory of a member: %w", err)
		}
		most = max(most, int64(status.VmHWM))
	}
	return most, nil
}

// restart kills all processes and starts them as before, and returns how long it takes until each answers.
func (c *cluster) restart(ctx context.Context, listener string) (time.Duration, error) {
	killed := c.processes
	for _, p := range killed {
		if err := p.Process.Kill(); err != nil {
			return 0, fmt.Errorf("kill a member: %w", err)
		}
		_ = p.Wait() // it says only that it was killed
	}
	c.processes = nil
	begun := time.Now()
	for _, p := range killed {
		again := exec.Command(p.Path, p.Args[1:]...)
		again.Env = p.Env
		if err := again.Start(); err != nil {
			return 0, fmt.Errorf("start a member: %w", err)
		}
		c.processes = append(c.processes, again)
	}
	err := c.answers(ctx, "a member", listener)
	return time.Since(begun), err
}

// sizeOf is how many bytes the files in a directory have. Files may come and go meanwhile.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreGone(err)
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return ignoreGone(err)
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	return size, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
