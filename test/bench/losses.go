package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

const (
	// lossesWithin bounds all that is done with one number of keys, and wholeWithin the time until a shard has all
	// copies.
	lossesWithin = 20 * time.Minute
	wholeWithin  = 5 * time.Minute
	// beforeLoss is how long clients work before it.
	beforeLoss = 3 * time.Second
	clock      = "15:04:05.000"
)

// losing are the flags of `bench losses`.
type losing struct {
	binary, dir, keys string
	valueBytes        int
	clients, rounds   int
	every             time.Duration
	window            time.Duration
	wipe              bool
}

// measureLosses takes a backup, then the master of a shard away with its disk, under load at every site, and prints
// how long clients waited for the next update.
func measureLosses(ctx context.Context, args []string) error {
	var f losing
	set := flag.NewFlagSet("losses", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	set.StringVar(&f.keys, "keys", "10000,1000000", "how many keys there are, comma separated")
	set.IntVar(&f.valueBytes, "value-bytes", 100, "how long values are")
	set.IntVar(&f.clients, "clients", 2, "how many clients each site has that write, and how many that read")
	set.DurationVar(&f.every, "every", 20*time.Millisecond, "the least time between two updates of a client")
	set.IntVar(&f.rounds, "rounds", 1, "how often a backup and the master are lost, in turn")
	set.DurationVar(&f.window, "window", 20*time.Second, "how long clients go on after a loss")
	set.BoolVar(&f.wipe, "wipe", false, "whether who is lost starts again at once, on an empty disk")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("# A backup or the master of a shard is lost with its disk, on one machine: %s\n\n", machine())
	fmt.Printf(
		"CURP, Sync, five members, faultTolerance 2, one shard; values of %d bytes; at each site %d clients write and "+
			"as many read, every %s at most.\n", f.valueBytes, f.clients, f.every)
	fmt.Print(
		"Figures are of updates: the longest time in ms from an answer to the next one, around the loss, by the " +
			"site of the clients.\n\n")
	fmt.Printf("| keys | lost | %s | failed |\n|---:|---|%s---:|\n",
		strings.Join(fiveSites, " | "), strings.Repeat("---:|", len(fiveSites)))
	for _, keys := range numbers("keys", f.keys) {
		if err := f.measure(ctx, keys); err != nil {
			return fmt.Errorf("%d keys: %w", keys, err)
		}
	}
	return nil
}

var fiveSites = []string{"a", "b", "c", "d", "e"}

func (f losing) measure(ctx context.Context, keys int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lossesWithin)
	defer cancel()
	data, err := os.MkdirTemp(f.dir, "bench-losses-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	options := dev.Options{Binary: f.binary, Data: filepath.Join(data, "dev"), Report: func(line string) {
		fmt.Fprintln(os.Stderr, time.Now().Format(clock), line)
	}}
	spec := fmt.Sprintf(`{protocol: CURP, faultTolerance: 2, shards: 1, storage: {durability: Sync},
  sites: [{name: %s}]}`, strings.Join(fiveSites, "}, {name: "))
	c, err := openDevAs(ctx, options, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	begun := time.Now()
	if err := newLoad(keys, f.valueBytes, nil).fill(ctx, []string{redisAddresses(ctx, c)[fiveSites[0]]}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d keys are written after %s\n", keys, time.Since(begun))
	for range f.rounds {
		for _, lost := range []string{"a backup", "the master"} {
			if err := f.lose(ctx, c, keys, lost); err != nil {
				return fmt.Errorf("%s is lost: %w", lost, err)
			}
		}
	}
	return nil
}

// lose takes one member away while clients write, prints a row, and puts a new member in its place.
func (f losing) lose(ctx context.Context, c *dev.Cluster, keys int, lost string) error {
	p, err := whole(ctx, c)
	if err != nil {
		return err
	}
	id := p.Master
	if lost == "a backup" {
		id = p.Backups[0]
	}
	site, addresses := "", map[string]string{}
	for _, o := range c.Observe(ctx) {
		if addresses[o.Site] = o.Redis; o.ID == id {
			site = o.Site
		}
	}
	delete(addresses, site)
	updates := newLoad(keys, f.valueBytes, []register.Kind{register.Write})
	// Reads have leases granted, which outlive who is lost.
	reads := newLoad(keys, f.valueBytes, []register.Kind{register.Read})
	for _, l := range []*load{updates, reads} {
		l.every = f.every
		defer l.end()
		for here, address := range addresses {
			l.at(ctx, here, address, f.clients)
		}
	}
	if err := pause(ctx, beforeLoss); err != nil {
		return err
	}
	at := time.Now()
	fmt.Fprintf(os.Stderr, "%s %s, at site %s, is lost\n", at.Format(clock), lost, site)
	take := c.Kill // it never comes back, and so neither does its disk
	if f.wipe {
		take = c.Wipe
	}
	if err := take(site); err != nil {
		return err
	}
	if err := pause(ctx, time.Until(at.Add(f.window))); err != nil {
		return err
	}
	updates.end()
	reads.end()
	row, err := f.row(updates, at, site)
	if err != nil {
		return err
	}
	fmt.Printf("| %d | %s | %s |\n", keys, lost, row)
	return change(ctx, c, func(ctx context.Context, c *dev.Cluster) (string, error) { return c.Replace(ctx, site, "") })
}

// row tells what the clients at each site saw around a loss.
func (f losing) row(updates *load, at time.Time, lost string) (string, error) {
	var cells []string
	failed := 0
	for _, site := range fiveSites {
		if site == lost {
			cells = append(cells, "-")
			continue
		}
		from, to := at.Add(-beforeLoss/2), at.Add(f.window)
		w := updates.window(site, from, to)
		if w.done == 0 || updates.window(site, to.Add(-f.window/2), to).done == 0 {
			return "", fmt.Errorf("updates are not answered at site %s %s after the loss", site, f.window)
		}
		failed += w.failed
		cells = append(cells, fmt.Sprintf("%.0f", ms(w.gap)))
		fmt.Fprintf(os.Stderr, "site %s: the longest gap, %s, ended %s after the loss\n", site, w.gap, w.gapEnd.Sub(at))
	}
	return strings.Join(append(cells, fmt.Sprint(failed)), " | "), nil
}

// whole waits until the shard is served from its home, and every other member has a copy of its state.
func whole(ctx context.Context, c *dev.Cluster) (p view.Partition, err error) {
	ctx, cancel := context.WithTimeout(ctx, wholeWithin)
	defer cancel()
	for {
		observations := c.Observe(ctx)
		for _, o := range observations {
			if o.Site != fiveSites[0] || o.Status.GetView() == nil || len(o.Status.Partitions) == 0 {
				continue
			}
			p = wire.FromProto(o.Status.View).Partitions[0]
			said := o.Status.Partitions[0]
			leads := p.Master == o.ID && said.Term == p.Term && said.Serving && len(p.Formers) == 0
			copies := 1 + len(p.Backups) + len(said.CaughtUp)
			if leads && copies == len(fiveSites) && len(p.Witnesses) == 2 && len(observations) == len(fiveSites) &&
				!slices.ContainsFunc(observations, func(o dev.Observation) bool { return o.State != dev.Serving }) {
				return p, nil
			}
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return p, fmt.Errorf("the shard has not all its copies: %w", err)
		}
	}
}
