package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/georegister/georegister/dev/record"
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
	say    func(format string, args ...any)
}

func newProgress(say func(format string, args ...any)) *progress {
	return &progress{say: say}
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
	p.say("%s", text)
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
}

// follow writes all lines, those that were there before too, until the change is over or the context ends.
func (p *progress) follow(ctx context.Context, write func(string)) error {
	written := 0
	return poll(ctx, func() (bool, string, error) {
		p.mu.Lock()
		lines, over, err := p.lines[written:], p.over, p.err
		p.mu.Unlock()
		for _, line := range lines {
			write(line)
		}
		written += len(lines)
		return over, "the change goes on; `status` shows it", err
	})
}

// parts says how far the members are in a joint view, or else what a change waits for.
func parts(r *record.Record, observations []Observation, waits string) string {
	switch {
	case r.View.Joint() && r.Partitioned(): // nothing is settled or fetched by quorums
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
