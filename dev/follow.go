package dev

import (
	"context"
	"errors"
	"fmt"

	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/view"
)

// Move gives the master of a partition another home, or takes that away again. It says what was begun; the partition
// goes there once a member there has its state.
func (o *operator) Move(number, site string) (string, error) {
	return o.command(func(r *record.Record) (string, error) { return r.Move(number, site) })
}

// Split wants one partition more: the next one in turn gives it half of its keys. It says which; that goes on by
// itself.
func (o *operator) Split() (string, error) { return o.command((*record.Record).Split) }

// Follow writes how the latest change is going, in lines, until it is over or the context ends. It fails if the change
// was given up, or if there was none.
func (o *operator) Follow(ctx context.Context, write func(string)) error {
	o.mu.Lock()
	p := o.progress
	o.mu.Unlock()
	if p == nil {
		return errors.New("members have not changed since this cluster started")
	}
	return p.follow(ctx, write)
}

// FollowMove writes how the move of a partition is going, until its home serves it or the context ends.
func (o *operator) FollowMove(ctx context.Context, number string, write func(string)) error {
	return o.follow(ctx, write, func(observations []Observation) (text string, done bool, err error) {
		r := &o.directory.Record
		i, err := r.Movable(number)
		if err == nil {
			text, done = o.situation(nil).Moving(i, served(r.View, i, observations))
		}
		return text, done, err
	})
}

// FollowSplit writes how the latest split is going, until the new partition is served or the context ends.
func (o *operator) FollowSplit(ctx context.Context, write func(string)) error {
	o.mu.Lock()
	child := o.directory.Record.WantedShards() - 1
	o.mu.Unlock()
	return o.follow(ctx, write, func(observations []Observation) (text string, done bool, err error) {
		text, done = o.splitting(child, observations)
		return text, done, nil
	})
}

// splitting says how far a split is. The lock is held.
func (o *operator) splitting(child int, observations []Observation) (text string, done bool) {
	return o.situation(nil).Splitting(child, func(i int) bool {
		return served(o.directory.Record.View, i, observations)
	})
}

// follow writes how something is going, whenever that is news, until it is done or the context ends.
func (o *operator) follow(
	ctx context.Context, write func(string), look func([]Observation) (text string, done bool, err error),
) error {
	said := ""
	return poll(ctx, func() (bool, string, error) {
		observations := o.Observe(ctx)
		o.mu.Lock()
		text, done, err := look(observations)
		o.mu.Unlock()
		if err == nil && text != said {
			said = text
			write(text)
		}
		return done, text, err
	})
}

// Going is what goes on in a cluster.
type Going struct {
	View  view.View                  // that is recorded
	Label func(view.MemberID) string // names those in it to people
	Lines []string                   // what the partitions wait for, and how a change and a split are going
}

// Going says what goes on, where members were observed as given.
func (o *operator) Going(observations []Observation) Going {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.directory.Record // a copy, which stays as it is
	g := Going{View: r.View, Label: r.Label}
	if o.waiting != "" {
		g.Lines = append(g.Lines, "waiting: "+o.waiting)
	}
	if r.Change != nil {
		g.Lines = append(g.Lines, fmt.Sprintf("change: %s: %s", r.Describe(r.Change), o.progress.last()))
	}
	if r.Partitioned() && r.View.Epoch > 0 && len(r.View.Partitions) < r.WantedShards() {
		text, _ := o.splitting(r.WantedShards()-1, observations)
		g.Lines = append(g.Lines, "split: "+text)
	}
	return g
}
