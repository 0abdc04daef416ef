package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// link is an unordered pair of members, or of a member and a witness.
type link struct{ low, high view.MemberID }

func between(a, b view.MemberID) link { return link{min(a, b), max(a, b)} }

// links are those that are cut.
type links map[link]bool

// of are the others that somebody is cut from, by ID.
func (l links) of(id view.MemberID) (others []view.MemberID) {
	for cut := range l { // sorted below
		switch id {
		case cut.low:
			others = append(others, cut.high)
		case cut.high:
			others = append(others, cut.low)
		}
	}
	slices.Sort(others)
	return others
}

// Partition cuts all links between two sites, in both directions. A witness is on the side of its site.
func (c *Cluster) Partition(a, b string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, err := c.processes.find(a)
	if err != nil {
		return err
	}
	right, err := c.processes.find(b)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(left, func(m *member) bool { return slices.Contains(right, m) }) {
		return fmt.Errorf("%s and %s share a member; name two different sites", a, b)
	}
	return errors.Join(c.cut(left, right, b), c.cut(right, left, a))
}

// cut cuts members from others, and from the witnesses at their site.
func (c *Cluster) cut(members, others []*member, site string) error {
	units := c.processes.witnessesAt(site)
	for _, o := range others {
		units = append(units, o.units()...)
	}
	var errs []error
	for _, m := range members {
		for _, u := range units {
			c.processes.links[between(m.id, u.id)] = true
			errs = append(errs, c.setLink(m, u, true))
		}
	}
	return errors.Join(errs...)
}

// Heal mends all links that were cut. Others are left alone: a newcomer without a view knows none.
func (c *Cluster) Heal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := c.processes.links
	c.processes.links = links{}
	var errs []error
	for _, m := range c.processes.all() {
		for _, u := range c.processes.units() {
			if cut[between(m.id, u.id)] {
				errs = append(errs, c.setLink(m, u, false))
			}
		}
	}
	return errors.Join(errs...)
}

// setLink tells a member of its link to another unit, if it runs; else it will be told when it starts.
func (c *Cluster) setLink(m *member, to *unit, blocked bool) error {
	if !m.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTimeout)
	defer cancel()
	_, err := m.admin.SetLink(ctx, &adminv1.SetLinkRequest{
		Cluster: c.cluster, Member: uint32(m.id), Peer: uint32(to.id), Blocked: blocked,
	}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("%s: set the link to %s: %w", m.label, to.label, err)
	}
	return nil
}
