package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// partsEvery is the least pause between two lines that say how far members are.
const partsEvery = time.Second

// progress is what is told of one change of members, in lines, until it is over.
type progress struct {
	mu     sync.Mutex
	lines  []string
	latest string    // of what it waits for
	said   time.Time // when a line said so
	over   bool
	err    error
	news   chan struct{} // closed when there is more
	report func(string)
}

func newProgress(report func(string)) *progress {
	return &progress{news: make(chan struct{}), report: report}
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(fmt.Sprintf(format, args...))
}

// waits says what the change waits for: if that is news, and not too often.
func (p *progress) waits(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == text || time.Since(p.said) < partsEvery {
		return
	}
	p.latest, p.said = text, time.Now()
	p.add(text)
}

func (p *progress) add(text string) {
	p.lines = append(p.lines, text)
	p.report(text)
	p.tell()
}

func (p *progress) tell() {
	close(p.news)
	p.news = make(chan struct{})
}

// last is the latest line.
func (p *progress) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "begun"
	}
	return p.lines[len(p.lines)-1]
}

// end says that the change is over; an error says that the members are those before it.
func (p *progress) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.err = true, err
	p.tell()
}

// follow writes all lines, those that were there before too, until the change is over or the context ends.
func (p *progress) follow(ctx context.Context, write func(string)) error {
	for written := 0; ; {
		p.mu.Lock()
		lines, over, err, news := p.lines[written:], p.over, p.err, p.news
		p.mu.Unlock()
		for _, line := range lines {
			write(line)
		}
		written += len(lines)
		if over {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("the change goes on; `status` shows it: %w", context.Cause(ctx))
		}
	}
}

// Follow writes how the latest change is going, in lines, until it is over or the context ends. It fails if the change
// was given up, or if there was none.
func (c *Cluster) Follow(ctx context.Context, write func(string)) error {
	c.mu.Lock()
	p := c.progress
	c.mu.Unlock()
	if p == nil {
		return errors.New("members have not changed since this cluster started")
	}
	return p.follow(ctx, write)
}

// changing is the latest of a change that is going on, in a line; empty: none is.
func (c *Cluster) changing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	if r.Change == nil {
		return ""
	}
	return fmt.Sprintf("change: %s: %s", r.Change.describe(r), c.progress.last())
}

// describe says what changes.
func (c *change) describe(r *record) string {
	var parts []string
	if len(c.Join) > 0 {
		parts = append(parts, verb(c.Join, "joins", "join", r))
	}
	if len(c.Leave) > 0 {
		parts = append(parts, verb(c.Leave, "leaves", "leave", r))
	}
	return strings.Join(parts, "; ")
}

func verb(ids []view.MemberID, one, several string, r *record) string {
	if len(ids) > 1 {
		one = several
	}
	return r.labels(ids) + " " + one
}

// parts says how far the members are in a joint view, or else what a change waits for.
func (r *record) parts(observations []Observation, waits string) string {
	switch {
	case r.View.Joint() && r.partitioned(): // nothing is settled or fetched by quorums
		return "waiting: " + waits
	case !r.View.Joint():
		return "waiting for " + waits
	}
	var parts []string
	for _, o := range observations {
		if r.View.After().Index(o.ID) >= 0 {
			parts = append(parts, o.Label+" "+o.part(r.View))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// part says how far a member is with its part in the change of a joint view.
func (o Observation) part(joint view.View) string {
	c := o.Status.GetChange()
	switch {
	case o.Status == nil:
		return "is " + string(o.State)
	case o.Status.Digest != joint.Digest():
		return "is to be told"
	case c.GetTransfers() && !c.GetFetched():
		return fmt.Sprintf("fetched %s, about %s to go", mebibytes(c.GetBytes()), mebibytes(c.GetRemainingBytes()))
	case !c.GetSettled():
		return "settles"
	case c.GetTransfers():
		return fmt.Sprintf("fetched all, %s", mebibytes(c.GetBytes()))
	}
	return "is settled"
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
