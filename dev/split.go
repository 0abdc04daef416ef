package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/georegister/georegister/api/v1alpha1"
)

// wanted is how many partitions there are to be: more than the cluster was founded with where some were split, or are
// to be.
func (r *record) wanted() int { return max(r.Shards, r.Wanted) }

// grow wants as many partitions as a later manifest does. Those that were split meanwhile stay so.
func (r *record) grow(shards int) {
	if r.partitioned() && shards > r.wanted() {
		r.Wanted = shards
	}
}

// fewer reports that a later manifest wants fewer partitions than an earlier one, or than `split` made. That which the
// directory was made with may stay as it is.
func (r *record) fewer(shards int) error {
	switch {
	case shards < r.Shards:
		return fmt.Errorf("it was made with shards %d, the manifest has %d: shards are split, and never made fewer", r.Shards, shards)
	case shards > r.Shards && shards < r.wanted():
		return fmt.Errorf("it has shards %d by now, the manifest has %d: shards are split, and never made fewer; ask for %d, or for the %d that it was made with",
			r.wanted(), shards, r.wanted(), r.Shards)
	}
	return nil
}

// count is how many partitions there are, or will be founded.
func (r *record) count() int { return max(r.Shards, len(r.View.Partitions)) }

// number reads the number of a partition.
func (r *record) number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= r.count() {
		return 0, fmt.Errorf("no partition %q; they are numbered from 0 to %d", text, r.count()-1)
	}
	return n, nil
}

// Split wants one partition more: the next one in turn gives it half of its keys. It says which; that goes on by
// itself.
func (c *Cluster) Split() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	if err := r.splittable(); err != nil {
		return "", err
	}
	former := r.Wanted
	parent, child := r.View.NextSplit()
	r.Wanted = child + 1
	if err := c.directory.save(); err != nil {
		r.Wanted = former
		return "", err
	}
	c.wake()
	return fmt.Sprintf("partition %d is split: half of its keys go to partition %d", parent, child), nil
}

// splittable reports what keeps a split from being begun.
func (r *record) splittable() error {
	switch {
	case !r.partitioned():
		return fmt.Errorf("protocol %s has no masters, and the number of its shards never changes", r.Protocol)
	case r.View.Epoch == 0:
		return errors.New("the cluster is being founded; wait until all members serve")
	}
	parent, child := r.View.NextSplit()
	if child < r.wanted() {
		return fmt.Errorf("partition %d is being split already, and there are %d of %d partitions; wait until all are there", parent, child, r.wanted())
	}
	if child >= v1alpha1.MaxShards {
		return fmt.Errorf("there are %d partitions, and can't be more", child)
	}
	return nil
}

// FollowSplit writes how the latest split is going, until the new partition is served or the context ends.
func (c *Cluster) FollowSplit(ctx context.Context, write func(string)) error {
	c.mu.Lock()
	r := &c.directory.record
	child := r.wanted() - 1
	c.mu.Unlock()
	return follow(ctx, write, func() (text string, done bool, err error) {
		observations := c.Observe(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		text, done = r.splitting(child, func(i int) bool { return r.served(i, observations) })
		return text, done, nil
	})
}

// dividing is how the splits are going, in a line; empty: there is none to come.
func (c *Cluster) dividing(observations []Observation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	if !r.partitioned() || r.View.Epoch == 0 || len(r.View.Partitions) >= r.wanted() {
		return ""
	}
	text, _ := r.splitting(r.wanted()-1, func(i int) bool { return r.served(i, observations) })
	return "split: " + text
}

// served reports whether the master of a partition of the recorded view says that it serves it.
func (r *record) served(i int, observations []Observation) bool {
	p := r.View.Partitions[i]
	at := slices.IndexFunc(observations, func(o Observation) bool { return o.ID == p.Master })
	return at >= 0 && serves(p, i, observations[at].Status.GetPartitions())
}

// splitting says how far the split is that makes the partition of a number, after those of lower ones.
func (r *record) splitting(child int, served func(int) bool) (text string, done bool) {
	if child >= len(r.View.Partitions) {
		parent, next := r.View.NextSplit()
		return fmt.Sprintf("partition %d: %s; then half of its keys go to partition %d", parent, r.hinders(parent, served(parent)), next), false
	}
	p, there := r.View.Partitions[child], r.sitesOf(r.View.After())
	master, home := r.label(p.Master), r.home(child, there)
	switch {
	case !served(child):
		return fmt.Sprintf("partition %d: %s to take it over with half of the keys", child, master), false
	case r.View.Members[r.View.Index(p.Master)].Site != home:
		return fmt.Sprintf("partition %d: %s serves it until a member at %s does", child, master, home), true
	}
	return fmt.Sprintf("partition %d: %s serves it", child, master), true
}

// hinders is what a partition waits for before it is split, as membership.Partitions sees it.
func (r *record) hinders(i int, served bool) string {
	p, master := r.View.Partitions[i], r.label(r.View.Partitions[i].Master)
	placement := r.placement(r.View.After())
	switch {
	case r.View.Joint():
		return "the change of members to be over"
	case len(p.Formers) > 0 && len(p.Witnesses) == 0:
		return fmt.Sprintf("its backups to hold all that %s has", master)
	case len(p.Formers) > 0:
		return master + " to recover it"
	case !served:
		return master + " to serve it"
	case len(p.Backups) < placement.Faults:
		return fmt.Sprintf("a member to be its backup, of which it has %d and should have %d", len(p.Backups), placement.Faults)
	case len(p.Witnesses) == 0:
		return fmt.Sprintf("the members to settle in the view of epoch %d", r.View.Epoch)
	case r.View.Members[r.View.Index(p.Master)].Site != placement.Homes[i]:
		return fmt.Sprintf("a member at %s to be its master in place of %s", placement.Homes[i], master)
	}
	return "the members to settle, and its witnesses to go"
}
