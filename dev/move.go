package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// homeDefault is what takes a home away that was given.
const homeDefault = "default"

// home is the site where the master of a partition is at rest, of those that have members: where it was moved to, or
// what the manifest says, or the one whose turn it is.
func (r *record) home(partition int, there []string) string {
	for _, given := range [][]string{r.Moved, r.Given} {
		if partition < len(given) && slices.Contains(there, given[partition]) {
			return given[partition]
		}
	}
	return there[partition%len(there)]
}

// Move gives the master of a partition another home, or takes that away again. The partition goes there once a member
// there has its state.
func (c *Cluster) Move(number, site string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	partition, err := r.movable(number)
	if err != nil {
		return "", err
	}
	there := r.sitesOf(r.View.After())
	if site != homeDefault && !slices.Contains(there, site) {
		return "", fmt.Errorf("no member is at site %q; there are %s, or `%s`", site, strings.Join(there, ", "), homeDefault)
	}
	former := r.Moved
	r.Moved = slices.Clone(former)
	for len(r.Moved) <= partition {
		r.Moved = append(r.Moved, "")
	}
	if r.Moved[partition] = site; site == homeDefault {
		r.Moved[partition] = ""
	}
	if err := c.directory.save(); err != nil {
		r.Moved = former
		return "", err
	}
	c.wake()
	return fmt.Sprintf("partition %d moves to %s", partition, r.home(partition, there)), nil
}

// movable reads the number of a partition.
func (r *record) movable(number string) (int, error) {
	if !r.partitioned() {
		return 0, fmt.Errorf("protocol %s has no masters that could move", r.Protocol)
	}
	partition, err := r.number(number)
	if err != nil {
		return 0, err
	}
	if r.View.Epoch == 0 {
		return 0, errors.New("the cluster is being founded; wait until all members serve")
	}
	return partition, nil
}

// FollowMove writes how the move of a partition is going, until its home serves it or the context ends.
func (c *Cluster) FollowMove(ctx context.Context, number string, write func(string)) error {
	return follow(ctx, write, func() (string, bool, error) { return c.moving(ctx, number) })
}

// follow writes how something is going, whenever that is news, until it is done or the context ends.
func follow(ctx context.Context, write func(string), look func() (text string, done bool, err error)) error {
	said := ""
	for {
		text, done, err := look()
		if err != nil {
			return err
		}
		if text != said {
			said = text
			write(text)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// moving says how far a partition is on the way to its home.
func (c *Cluster) moving(ctx context.Context, number string) (text string, done bool, err error) {
	observations := c.Observe(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	i, err := r.movable(number)
	if err != nil {
		return "", false, err
	}
	text, done = r.moving(i, r.served(i, observations))
	return text, done, nil
}

// moving says how far a partition is on the way to its home, if it is known whether its master serves.
func (r *record) moving(i int, serving bool) (text string, done bool) {
	p, there := r.View.Partitions[i], r.sitesOf(r.View.After())
	home := r.home(i, there)
	here := func(id view.MemberID) bool { return r.View.Members[r.View.Index(id)].Site == home }
	switch {
	case here(p.Master) && serving:
		return fmt.Sprintf("partition %d: %s serves it", i, r.label(p.Master)), true
	case here(p.Master):
		return fmt.Sprintf("partition %d: %s takes over", i, r.label(p.Master)), false
	case slices.ContainsFunc(p.Backups, here):
		return fmt.Sprintf("partition %d: a backup at %s has its state; %s serves it still", i, home, r.label(p.Master)), false
	}
	return fmt.Sprintf("partition %d: it waits for a member at %s to have its state; %s serves it meanwhile", i, home, r.label(p.Master)), false
}

// sitesOf are the sites of a plain view, in the order of turns.
func (r *record) sitesOf(v view.View) (there []string) {
	for _, m := range v.Members {
		if !slices.Contains(there, m.Site) {
			there = append(there, m.Site)
		}
	}
	place := func(site string) int {
		if i := slices.Index(r.Homes, site); i >= 0 {
			return i
		}
		return len(r.Homes)
	}
	slices.SortStableFunc(there, func(a, b string) int { return place(a) - place(b) })
	return there
}
