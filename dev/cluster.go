// Package dev is the embedded default: every member of a manifest as a child process on this machine, with
// the manifest's wide-area network emulated, and the faults that a user asks for.
//
// The embedded operator drives it: it observes the members, has the package decide say what the next step is, by what
// the package record keeps, and applies that. The processes of members and witnesses run by the package process, and
// the package console is what a person sees and types.
package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/proof"
)

const (
	// stopWithin bounds the orderly end of a member; then it is killed.
	stopWithin = 10 * time.Second
	// adminTimeout bounds the wait for a member's status.
	adminTimeout = 2 * time.Second
	// silentTimeout bounds it for one that did not answer the last time, so that a process that hangs holds up nobody.
	silentTimeout = adminTimeout / 8
	// linkTimeout bounds telling a member about a link; it may be starting.
	linkTimeout = 10 * time.Second
	// pollEvery is the pause between two looks at a condition.
	pollEvery = 50 * time.Millisecond
)

// Options say what to run.
type Options struct {
	Manifest *v1alpha1.GeoRegisterCluster // valid
	// Data keeps the cluster between runs; empty: a temporary directory, removed at the end.
	Data string
	// Binary is the georegister that members run as.
	Binary string
	// RedisBasePort is the first member's Redis port, the others follow; 0: free ports.
	RedisBasePort int
	// Report is called with each line on how a change of members is going; nil: nobody wants to know.
	Report func(string)
}

// Cluster is a running cluster. Its methods may be called by several goroutines at once; commands wait for each other.
type Cluster struct {
	*operator
	end func() // of the operator's loop
}

// Start starts every member. Close must be called.
func Start(o Options) (*Cluster, error) {
	d, err := record.Open(o.Data, o.Manifest)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	c := &Cluster{operator: newOperator(o, d), end: end}
	if err := c.start(o.RedisBasePort); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.processes.background.Go(func() { c.run(ctx) })
	return c, nil
}

func (c *Cluster) start(redisBase int) error {
	err := c.directory.Update(func(r *record.Record) error {
		r.Members, r.Witnesses = slices.Clone(r.Members), slices.Clone(r.Witnesses)
		return record.Assign(r.Members, r.Witnesses, nil, redisBase, r.View.Epoch > 0)
	})
	if err == nil && c.spec.Regular() {
		err = proof.Make(c.directory.TokenKeys())
	}
	if err != nil {
		return err
	}
	r := &c.directory.Record
	if r.Change != nil {
		c.progress = newProgress(c.say)
		c.progress.line("going on with the change: %s", r.Describe(r.Change))
	}
	if count := len(r.View.Partitions); r.Partitioned() && count > 0 && count < r.WantedShards() {
		c.say("%d partitions become %d, one split after the other", count, r.WantedShards())
	}
	for _, w := range r.Witnesses {
		if err := c.processes.addWitness(w); err != nil {
			return err
		}
	}
	for _, m := range r.Members {
		if err := c.processes.addMember(m); err != nil {
			return err
		}
	}
	return nil
}

// Close stops all members and removes a temporary data directory. It returns what did not go in order.
func (c *Cluster) Close() error {
	c.end()
	c.processes.background.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(stop(c.processes.units()), c.directory.Close())
}

// Data is the directory in which the cluster is kept.
func (c *Cluster) Data() string { return c.directory.Path }

// Partitioned reports whether shards are partitions with masters.
func (c *Cluster) Partitioned() bool { return c.directory.Record.Partitioned() }

// Members is how many there are, of the view, newcomers, and those that leave.
func (c *Cluster) Members() int { return len(c.processes.all()) }

// Kill ends the members of a site, each with its witness, as a crash would; or a witness alone, by its name.
func (c *Cluster) Kill(site string) error {
	return c.each(site, func(units []*unit) error {
		if !kill(units) {
			return fmt.Errorf("%s is not running", units[0].label)
		}
		return nil
	})
}

// Restart starts the members of a site again, or a witness alone, on their disks; those that run are stopped first.
func (c *Cluster) Restart(site string) error {
	return c.each(site, func(units []*unit) error {
		for _, u := range units {
			if u.running() {
				if err := u.current().Stop(stopWithin); err != nil {
					return fmt.Errorf("%s: %w", u.label, err)
				}
			}
		}
		return c.processes.run(units)
	})
}

// Wipe kills the members of a site, removes their disks, and those of their witnesses, and starts them on empty ones,
// which the view does not name; or that of a dedicated witness, by its name.
func (c *Cluster) Wipe(site string) error {
	member, alone := strings.CutSuffix(site, record.WitnessSuffix)
	if alone && !c.directory.Record.Dedicated { // never changes
		return fmt.Errorf("the disk of a witness is lost with that of its member; use `wipe %s`", member)
	}
	return c.each(site, func(units []*unit) error {
		kill(units)
		for _, u := range units {
			u.setEmptied(true)
			if err := os.RemoveAll(u.disk()); err != nil {
				return fmt.Errorf("%s: remove its disk: %w", u.label, err)
			}
		}
		return c.processes.run(units)
	})
}

// each changes what runs at a site, member by member, or a witness alone.
func (c *Cluster) each(site string, change func([]*unit) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	name, alone := strings.CutSuffix(site, record.WitnessSuffix)
	if found := c.processes.witnessesAt(name); alone && len(found) > 0 {
		return change(found[len(found)-1:])
	}
	members, err := c.processes.find(name)
	if err != nil {
		return err
	}
	for _, m := range members {
		units := m.units()
		switch r := &c.directory.Record; {
		case alone && m.witness != nil:
			units = units[1:]
		case alone && r.Dedicated:
			return fmt.Errorf("witnesses have sites of their own; name the site of %s", m.label)
		case alone:
			return fmt.Errorf("protocol %s has no witnesses", r.Protocol)
		}
		if err := change(units); err != nil {
			return err
		}
	}
	return nil
}

// DialOptions suit members on the same machine that come back within moments.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: pollEvery, Multiplier: 1.5, Jitter: 0.2,
				MaxDelay: 5 * pollEvery},
			MinConnectTimeout: time.Second,
		}),
	}
}
