package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/meter"
	"github.com/georegister/georegister/replica/view"
)

// State is how a member is, in a word.
type State string

// The states.
const (
	Starting State = "starting"  // its process runs but does not answer yet
	Waiting  State = "waiting"   // its disk is empty, and it is about to be told the view, or to join
	Joining  State = "joining"   // it lost its disk and fetches the others' state; it does not vote
	NoQuorum State = "no quorum" // it votes but reaches no majority
	Serving  State = "serving"
	Removed  State = "removed" // the view is without it; it is about to be stopped
	Down     State = "down"    // killed or stopped by the user
	Crashed  State = "crashed" // it ended by itself
	Running  State = "running" // a witness: its process runs
)

// Observation is how a member is at a moment.
type Observation struct {
	ID     view.MemberID
	Label  string // the site's name, numbered if it has several members
	Site   string
	State  State
	Reason string // Crashed: why
	PID    int    // of the latest process, running or not
	Redis  string // address
	GRPC   string
	HTTP   string
	Status *adminv1.StatusResponse // nil unless its process answers
	// Witness is the one beside it, or with the first member of a site the dedicated one there; nil: there is none.
	Witness *WitnessObservation
}

// WitnessObservation is how the process of a witness is at a moment.
type WitnessObservation struct {
	Label     string
	State     State  // Running, Down or Crashed
	Reason    string // Crashed: why
	PID       int
	Dedicated bool
}

// Observe asks all members how they are, and returns them by ID.
func (c *Cluster) Observe(ctx context.Context) []Observation {
	members := c.all()
	observations := make([]Observation, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() { observations[i] = c.observe(ctx, m) })
	}
	group.Wait()
	for _, w := range c.dedicated() { // of several at a site, the latest
		first := slices.IndexFunc(observations, func(o Observation) bool { return o.Site == w.alone.Site })
		if first >= 0 {
			observations[first].Witness = w.observe()
		}
	}
	return observations
}

func (c *Cluster) observe(ctx context.Context, m *member) Observation {
	p := m.current()
	o := Observation{
		ID: m.record.ID, Label: m.record.Label, Site: m.record.Site, State: Down, PID: p.pid(),
		Redis: loopback(m.record.Ports.Redis), GRPC: loopback(m.record.Ports.GRPC), HTTP: loopback(m.record.Ports.HTTP),
	}
	if m.witness != nil {
		o.Witness = m.witness.observe()
	}
	if reason := p.crashed(); reason != "" {
		o.State, o.Reason = Crashed, reason
	}
	if !p.running() {
		return o
	}
	within := adminTimeout
	if m.silent.Load() {
		within = silentTimeout
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	status, err := m.admin.Status(asking, &adminv1.StatusRequest{
		Cluster: c.directory.record.Cluster, Member: uint32(m.record.ID),
	})
	if ctx.Err() == nil { // else it had no time to answer
		m.silent.Store(err != nil)
	}
	switch {
	case err != nil:
		o.State = Starting
		return o
	case status.Role == adminv1.Role_WAITING:
		o.State = Waiting
	case status.Role == adminv1.Role_REMOVED:
		o.State = Removed
	case status.Role == adminv1.Role_LEARNER:
		o.State = Joining
	case !status.Quorum:
		o.State = NoQuorum
	default:
		o.State = Serving
	}
	o.Status = status
	return o
}

func (w *sidecar) observe() *WitnessObservation {
	p := w.current()
	o := &WitnessObservation{Label: w.name(), Dedicated: w.alone != nil, State: Down, PID: p.pid()}
	switch o.Reason = p.crashed(); {
	case o.Reason != "":
		o.State = Crashed
	case p.running():
		o.State = Running
	}
	return o
}

// reading sums up what the member's clients did.
func (o Observation) reading() meter.Reading {
	var sum meter.Reading
	for _, kind := range o.Status.GetOperations() {
		sum = sum.Plus(meter.Reading{
			Answered: kind.Answered, Refused: kind.Refused, Unanswered: kind.Unanswered,
			Fast: kind.Fast, RoundTrips: kind.RoundTrips, Latency: kind.LatencyBuckets,
		})
	}
	return sum
}

// WaitServing waits until each member of the sites has been seen to serve; of all sites, if none is named; and the
// master of each partition, where there are some. What a command does to a member after that, such as a kill from
// another shell, does not concern it; nor do members that join. It fails when a member crashes before, or when the
// context ends; then it says who did not serve.
func (c *Cluster) WaitServing(ctx context.Context, sites ...string) error {
	served, led := map[string]bool{}, map[int]bool{}
	for {
		var waiting []string
		v := c.view()
		observations := c.Observe(ctx)
		for _, o := range observations {
			if v.Epoch > 0 && v.Before().Index(o.ID) < 0 ||
				len(sites) > 0 && !slices.Contains(sites, o.Site) && !slices.Contains(sites, o.Label) {
				continue
			}
			if o.Witness != nil && o.Witness.State == Crashed {
				return fmt.Errorf("%s crashed: %s; its log is in %s", o.Witness.Label, o.Witness.Reason, c.directory.path)
			}
			if served[o.Label] = served[o.Label] || o.State == Serving; served[o.Label] {
				continue
			}
			if o.State == Crashed {
				return fmt.Errorf("site %s crashed: %s; its log is in %s", o.Label, o.Reason, c.directory.path)
			}
			waiting = append(waiting, fmt.Sprintf("%s is %s", o.Label, o.State))
		}
		for i, p := range v.Partitions {
			at := slices.IndexFunc(observations, func(o Observation) bool { return o.ID == p.Master })
			if at >= 0 && serves(p, i, observations[at].Status.GetPartitions()) {
				led[i] = true
			}
			if !led[i] {
				waiting = append(waiting, fmt.Sprintf("partition %d is not served yet", i))
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", strings.Join(waiting, ", "), ctx.Err())
		}
	}
}

// view is the one that is recorded.
func (c *Cluster) view() view.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.directory.record.View
}

// Sites are those that have members, in the order of these.
func (c *Cluster) Sites() (names []string) {
	for _, m := range c.all() {
		if !slices.Contains(names, m.record.Site) {
			names = append(names, m.record.Site)
		}
	}
	return names
}
