package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
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
func (o *operator) Observe(ctx context.Context) []Observation {
	members := o.processes.all()
	observations := make([]Observation, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() { observations[i] = m.observe(ctx, o.cluster) })
	}
	group.Wait()
	for _, w := range o.processes.alone() { // of several at a site, the latest
		first := slices.IndexFunc(observations, func(o Observation) bool { return o.Site == w.site })
		if first >= 0 {
			observations[first].Witness = w.observe()
		}
	}
	return observations
}

// state is what the process of a unit is by itself: Running, Down or Crashed, and why.
func (u *unit) state() (state State, reason string, pid int) {
	p := u.current()
	switch reason = p.Crashed(); {
	case reason != "":
		return Crashed, reason, p.PID()
	case p.Running():
		return Running, "", p.PID()
	}
	return Down, "", p.PID()
}

func (m *member) observe(ctx context.Context, cluster string) Observation {
	ports := m.record.Ports
	o := Observation{
		ID: m.id, Label: m.label, Site: m.record.Site,
		Redis: record.Loopback(ports.Redis), GRPC: record.Loopback(ports.GRPC), HTTP: record.Loopback(ports.HTTP),
	}
	if m.witness != nil {
		o.Witness = m.witness.observe()
	}
	if o.State, o.Reason, o.PID = m.state(); o.State != Running {
		return o
	}
	within := adminTimeout
	if m.silent.Load() {
		within = silentTimeout
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	status, err := m.admin.Status(asking, &adminv1.StatusRequest{Cluster: cluster, Member: uint32(m.id)})
	if ctx.Err() == nil { // else it had no time to answer
		m.silent.Store(err != nil)
	}
	o.State = Starting
	if err == nil {
		o.State, o.Status = stateOf(status), status
	}
	return o
}

// withoutVote are the states of members that answer and don't vote.
var withoutVote = map[adminv1.Role]State{
	adminv1.Role_WAITING: Waiting, adminv1.Role_REMOVED: Removed, adminv1.Role_LEARNER: Joining,
}

// stateOf is the state of a member that answers.
func stateOf(s *adminv1.StatusResponse) State {
	state, known := withoutVote[s.Role]
	switch {
	case known:
		return state
	case !s.Quorum:
		return NoQuorum
	}
	return Serving
}

func (w *witnessUnit) observe() *WitnessObservation {
	o := &WitnessObservation{Label: w.label, Dedicated: w.member == 0}
	o.State, o.Reason, o.PID = w.state()
	return o
}

// report is what decisions go by: what is observed of the member, what it says of itself, and whom it hears.
func (o Observation) report() decide.Report {
	r := decide.Report{Running: o.State != Down && o.State != Crashed, Crashed: o.Reason}
	if o.Witness != nil && !o.Witness.Dedicated && r.Crashed == "" {
		r.Crashed = o.Witness.Reason // a newcomer is no good without it
	}
	s := o.Status
	if s == nil {
		return r
	}
	r.Disk, r.Waiting, r.Serves = s.Disk, s.Role == adminv1.Role_WAITING, o.State == Serving
	r.Answer = membership.MemberReport{Digest: s.Digest, Settled: s.GetChange().GetSettled(),
		Fetched: s.GetChange().GetFetched()}
	if s.View != nil {
		r.View = wire.FromProto(s.View)
	}
	r.Member = &membership.MemberReport{Member: o.ID, Disk: s.Disk, Digest: s.Digest, Epoch: s.GetView().GetEpoch()}
	for _, p := range slices.Concat(s.Peers, s.Witnesses) {
		if p.Reachable {
			r.Member.Hears = append(r.Member.Hears, view.MemberID(p.Member))
		}
	}
	for _, p := range s.Partitions {
		r.Member.Partitions = append(r.Member.Partitions, membership.Part{
			Term: p.Term, Lost: p.Lost, Recovered: p.Recovered, Restarted: p.Restarted, CaughtUp: wire.IDs(p.CaughtUp),
			Copying: p.Copying, WholeTerm: p.WholeTerm, NotedTerm: p.NotedTerm, Length: p.Length,
		})
	}
	return r
}

// Serves reports whether the master of a partition, as the view has it, says that it serves it.
func (o Observation) Serves(i int, p view.Partition) bool {
	said := o.Status.GetPartitions()
	return o.ID == p.Master && i < len(said) && said[i].Term == p.Term && said[i].Serving
}

// served reports whether the master of a partition of the view says that it serves it.
func served(v view.View, i int, observations []Observation) bool {
	return slices.ContainsFunc(observations, func(o Observation) bool { return o.Serves(i, v.Partitions[i]) })
}

// WaitServing waits until each member of the sites has been seen to serve; of all sites, if none is named; and the
// master of each partition, where there are some. What a command does to a member after that, such as a kill from
// another shell, does not concern it; nor do members that join. It fails when a member crashes before, or when the
// context ends; then it says who did not serve.
func (o *operator) WaitServing(ctx context.Context, sites ...string) error {
	seen, led := map[string]bool{}, map[int]bool{}
	return poll(ctx, func() (bool, string, error) {
		var waiting []string
		v := o.view()
		observations := o.Observe(ctx)
		for _, m := range observations {
			if v.Epoch > 0 && v.Before().Index(m.ID) < 0 ||
				len(sites) > 0 && !slices.Contains(sites, m.Site) && !slices.Contains(sites, m.Label) {
				continue
			}
			if m.Witness != nil && m.Witness.State == Crashed {
				return false, "", fmt.Errorf("%s crashed: %s; its log is in %s", m.Witness.Label, m.Witness.Reason,
					o.directory.Path)
			}
			if seen[m.Label] = seen[m.Label] || m.State == Serving; seen[m.Label] {
				continue
			}
			if m.State == Crashed {
				return false, "", fmt.Errorf("site %s crashed: %s; its log is in %s", m.Label, m.Reason,
					o.directory.Path)
			}
			waiting = append(waiting, fmt.Sprintf("%s is %s", m.Label, m.State))
		}
		for i := range v.Partitions {
			if led[i] = led[i] || served(v, i, observations); !led[i] {
				waiting = append(waiting, fmt.Sprintf("partition %d is not served yet", i))
			}
		}
		return len(waiting) == 0, strings.Join(waiting, ", "), nil
	})
}

// poll looks every now and then until it is done or the context ends. What it waits for is in the error then.
func poll(ctx context.Context, look func() (done bool, waits string, err error)) error {
	for {
		done, waits, err := look()
		if err != nil || done {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", waits, context.Cause(ctx))
		}
	}
}
