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

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
)

// readyWithin bounds the start of a cluster, and changeWithin a change of its members.
const (
	readyWithin  = time.Minute
	changeWithin = 10 * time.Minute
)

// changing are the flags of `bench change`.
type changing struct {
	binary, dir   string
	protocols     string
	durability    string
	clients, keys int
	valueBytes    int
	window        time.Duration
}

// measureChanges has members join, be replaced and leave, one change after the other, under load at every site, and
// prints what the clients of those that stay felt.
func measureChanges(ctx context.Context, args []string) error {
	var f changing
	set := flag.NewFlagSet("change", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	set.StringVar(&f.protocols, "protocols", "ABD,Gryff", "the protocols, comma separated")
	set.StringVar(&f.durability, "durability", "Sync", "of the members")
	set.IntVar(&f.clients, "clients", 16, "how many clients each site has")
	set.IntVar(&f.keys, "keys", 20000, "how many keys there are")
	set.IntVar(&f.valueBytes, "value-bytes", 1024, "how long values are")
	set.DurationVar(&f.window, "window", 10*time.Second, "how long to measure before and after each change")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("# Changes of members under load, on one machine: %s\n\n", machine())
	fmt.Printf("%d keys, values of %d bytes, durability %s, %d clients at each site.\n\n", f.keys, f.valueBytes,
		f.durability, f.clients)
	fmt.Println("| protocol | change | took s | site | operations/s | p50 ms | p99 ms | longest gap ms | failed |")
	fmt.Println("|---|---|---:|---|---:|---:|---:|---:|---:|")
	for _, protocol := range split(f.protocols) {
		if err := f.measure(ctx, protocol); err != nil {
			return fmt.Errorf("%s: %w", protocol, err)
		}
	}
	p, err := profile.Find("gryff")
	if err != nil {
		return err
	}
	farthest := time.Duration(0)
	for _, row := range p.RTT {
		farthest = max(farthest, slices.Max(row))
	}
	fmt.Printf("\nThe figures are those before / during / after. The bound for the gap: 2 x %s + 1 s.\n", farthest)
	return nil
}

// step is one change, and the sites whose clients it must not touch.
type step struct {
	name   string
	begin  func(context.Context, *dev.Cluster) (string, error)
	stay   []string
	newest []string // sites at which there are members after it, and were none
}

func steps() []step {
	return []step{
		{"3 to 5", func(ctx context.Context, c *dev.Cluster) (string, error) { return c.Add(ctx, "or", "jp") },
			[]string{"ca", "va", "ir"}, []string{"or", "jp"}},
		{"jp replaced", func(ctx context.Context, c *dev.Cluster) (string, error) { return c.Replace(ctx, "jp", "") },
			[]string{"ca", "va", "ir", "or"}, nil},
		{"5 to 3", func(ctx context.Context, c *dev.Cluster) (string, error) { return c.Remove(ctx, "or", "jp") },
			[]string{"ca", "va", "ir"}, nil},
	}
}

func (f changing) measure(ctx context.Context, protocol string) (err error) {
	mix := []register.Kind{register.Read, register.Write}
	if protocol == "Gryff" {
		mix = slices.Concat(slices.Repeat(mix, 5), []register.Kind{register.RMW})
	}
	c, remove, err := f.start(ctx, protocol)
	if err != nil {
		return err
	}
	l := newLoad(f.keys, f.valueBytes, mix)
	defer func() {
		l.end()
		err = errors.Join(err, c.Close(), remove())
	}()
	addresses := redisAddresses(ctx, c)
	if err := l.fill(ctx, []string{addresses["ca"]}); err != nil {
		return err
	}
	for _, site := range []string{"ca", "va", "ir"} {
		l.at(ctx, site, addresses[site], f.clients)
	}
	for _, s := range steps() {
		if err := f.step(ctx, c, l, protocol, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (f changing) step(ctx context.Context, c *dev.Cluster, l *load, protocol string, s step) error {
	if err := pause(ctx, f.window+time.Second); err != nil { // connections of the step before have settled
		return err
	}
	begun := time.Now()
	if err := change(ctx, c, s.begin); err != nil {
		return err
	}
	over := time.Now()
	if err := pause(ctx, f.window); err != nil {
		return err
	}
	for _, site := range s.stay {
		before := l.window(site, begun.Add(-f.window), begun)
		during := l.window(site, begun, over)
		after := l.window(site, over, over.Add(f.window))
		fmt.Fprintf(os.Stderr, "%s: the longest gap, %s, ended %s after the command\n", site, during.gap,
			during.gapEnd.Sub(begun))
		fmt.Printf("| %s | %s | %.1f | %s | %.0f / %.0f / %.0f | %.0f / %.0f / %.0f | %.0f / %.0f / %.0f | %.0f / "+
			"%.0f / %.0f | %d |\n",
			protocol, s.name, over.Sub(begun).Seconds(), site,
			before.throughput(), during.throughput(), after.throughput(),
			ms(before.p50), ms(during.p50), ms(after.p50), ms(before.p99), ms(during.p99), ms(after.p99),
			ms(before.gap), ms(during.gap), ms(after.gap), before.failed+during.failed+after.failed)
	}
	addresses := redisAddresses(ctx, c)
	for _, site := range s.newest {
		l.at(ctx, site, addresses[site], f.clients)
	}
	return nil
}

// change begins a change and waits until it is over.
func change(ctx context.Context, c *dev.Cluster, begin func(context.Context, *dev.Cluster) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	begun, err := begin(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, begun)
	return c.Follow(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start runs three members at the profile's distances, and returns what removes their data in the end.
func (f changing) start(ctx context.Context, protocol string) (*dev.Cluster, func() error, error) {
	return startDev(ctx, f.binary, f.dir, fmt.Sprintf(`{protocol: %s, sites: [{name: ca}, {name: va}, {name: ir}],
  wan: {profile: gryff}, storage: {durability: %s}}`, protocol, f.durability))
}

// startDev runs a new cluster of a spec and waits until all members serve.
func startDev(ctx context.Context, binary, dir, spec string) (_ *dev.Cluster, remove func() error, err error) {
	data, err := os.MkdirTemp(dir, "bench-change-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory for the data: %w", err)
	}
	remove = func() error { return os.RemoveAll(data) }
	c, err := openDev(ctx, binary, filepath.Join(data, "dev"), spec)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return c, remove, nil
}

// openDev runs the cluster of a directory, and waits until all members serve.
func openDev(ctx context.Context, binary, data, spec string) (*dev.Cluster, error) {
	return openDevAs(ctx, dev.Options{Data: data, Binary: binary}, spec)
}

func openDevAs(ctx context.Context, o dev.Options, spec string) (*dev.Cluster, error) {
	manifest, err := v1alpha1.Decode(
		[]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: bench}\nspec: " + spec))
	if err != nil {
		return nil, err
	}
	o.Manifest = manifest
	c, err := dev.Start(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := c.WaitServing(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// redisAddresses are by site; of several members, the one that was started last.
func redisAddresses(ctx context.Context, c *dev.Cluster) map[string]string {
	addresses := map[string]string{}
	for _, o := range c.Observe(ctx) {
		addresses[o.Site] = o.Redis
	}
	return addresses
}

func split(list string) []string { return strings.Split(list, ",") }
