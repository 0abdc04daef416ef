package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/workload"
)

// Experiment is a closed loop of clients in virtual time, as the evaluations of papers have it.
type Experiment struct {
	Start      Start
	Network    profile.Profile // a member at each site
	Shards     int             // per member; the default is 1
	Clients    int             // at each site
	Workload   workload.Spec
	Think      time.Duration // how long a client rests between two operations
	Roam       time.Duration // how long a client stays at a site before it goes to the next one; 0: for ever
	Sync       time.Duration // that an fsync takes; 0: little
	Duration   time.Duration // virtual; the first and the last twelfth are left out of the figures
	Seed       uint64
	Faults     []faults.Kind // injected all the time, except in the end; none for figures
	Losses     int           // how many members may have lost their disks at once; 0: any minority
	Data       int           // how many fragments restore a value; 0: values are stored whole
	Keep       bool          // members that change are never fewer than before
	Partitions *Partitions   // nil: the protocol is what Start says
	// The protocol is regular sequentially consistent: clients are sessions, and their reads are regular.
	Regular bool

	// Progress, which may be nil, is told now and then how far virtual time is, and how many operations there were.
	Progress func(now time.Duration, operations int)

	judgeFor time.Duration // how long the history may take to be judged, of real time; 0 stands for measureCheck
}

// Partitions has an experiment be one of masters and witnesses.
type Partitions struct {
	Protocol *definition.Partitioned
	Sync     protocol.Sync
	Backups  int             // f: of a partition; the default is as many as a majority can lose
	Homes    []string        // sites of masters, by partition; by default distances say where they are
	Moves    []Moved         // of masters
	Splits   []time.Duration // when there is to be one partition more
}

// Moved is a move of a master in an experiment.
type Moved struct {
	At        time.Duration
	Partition int
	To        string // the site
}

// planned are the moves and splits of an experiment, as faults.
func (c *Partitions) planned(sites []string) (all []faults.Fault) {
	for _, m := range c.Moves {
		all = append(all, faults.Fault{Kind: faults.Move, Node: slices.Index(sites, m.To), Partition: m.Partition, At: m.At})
	}
	for _, at := range c.Splits {
		all = append(all, faults.Fault{Kind: faults.Split, At: at})
	}
	return all
}

// Measured is what came of an experiment.
type Measured struct {
	Report     *workload.Report    // its verdict is linearizable, or a Class
	Reason     string              // what went wrong, for people; empty if nothing did
	Operations int                 // started, warm-up and final reads included
	History    []history.Operation // all of them
	Events     uint64              // of the simulator
	Cost       Cost                // of all of it
	Faults     int                 // injected
}

// OK reports whether the history was linearizable, or regular sequential where the protocol promises no more, and
// nothing got stuck.
func (m Measured) OK() bool {
	return m.Report.Verdict == history.Linearizable || m.Report.Verdict == history.RegularSequential
}

// The parts of the world that papers don't state: a disk with power-loss protection, and links that vary little.
const (
	fastSync     = 100 * time.Microsecond
	slowSync     = 300 * time.Microsecond
	quietJitter  = 2           // of 1000
	faultyJitter = 50          // of 1000
	measureCheck = time.Minute // of real time
)

// Measure runs an experiment and checks its history. It ends soon after the context does, with the cause as the error.
func Measure(ctx context.Context, x Experiment) (Measured, error) {
	if err := x.validate(); err != nil {
		return Measured{}, err
	}
	env := x.environment()
	s := schedule.Schedule{Seed: x.Seed, Settle: x.Duration, Environment: env}
	s.DrawSteadily(schedule.Options{Faults: x.Faults, Keep: x.Keep})
	w := newRun(&kernel.Kernel{Context: ctx, Seed: x.Seed}, env, x.Start, false, faults.Newcomers(s.Faults))
	if x.Progress != nil {
		w.Progress = func() { x.Progress(w.Now, w.Clients.Recorder.Len()) }
	}
	w.Network.Weighed = true
	m := Measured{Report: workload.NewReport()}
	edge := x.Duration / 12
	for i := range len(env.Network.Sites) * x.Clients {
		generator, err := x.Workload.Generator(i)
		if err != nil {
			return Measured{}, err
		}
		loop := &closedLoop{
			generator: generator,
			rng:       rand.New(rand.NewPCG(x.Seed, uint64(i))),
			end:       x.Duration,
			regular:   x.Regular,
			think:     x.Think,
		}
		loop.begin = time.Duration(loop.rng.Uint64() % uint64(100*time.Millisecond))
		client := w.Clients.Add(i/x.Clients, loop, 0)
		for n := 1; x.Roam > 0 && time.Duration(n)*x.Roam < x.Duration; n++ {
			to := (i/x.Clients + n) % len(env.Network.Sites)
			client.Asides = append(client.Asides,
				schedule.Aside{At: time.Duration(n) * x.Roam, Kind: schedule.AsideMove, Whom: to})
		}
		client.Finished = func(o history.Operation) {
			generator.Observe(o.Request, o.Result)
			if o.Invoked >= edge && o.Returned <= x.Duration-edge {
				m.Report.Record(o)
			}
		}
	}
	if x.Partitions != nil {
		s.Faults = append(s.Faults, x.Partitions.planned(x.Network.Sites)...)
	}
	w.Inject(s.Faults)
	class, reason := w.live(x.Duration)
	operations := w.Clients.Recorder.Operations()
	m.History = operations
	m.Operations, m.Events, m.Faults = len(operations), w.Events, len(s.Faults)
	m.Cost = w.cost(x.Seed, operations, &course{})
	if class == "" {
		class, reason = w.judge(operations, cmp.Or(x.judgeFor, measureCheck))
	}
	if err := context.Cause(ctx); err != nil {
		return Measured{}, fmt.Errorf("stopped after %v of virtual time, with %d operations: %w", w.Now.Round(time.Second), len(operations), err)
	}
	m.Report.Verdict, m.Reason = history.Linearizable, reason
	if x.Regular {
		m.Report.Verdict = history.RegularSequential
	}
	if class != "" {
		m.Report.Verdict = history.Outcome(class)
	}
	return m, nil
}

func (x Experiment) validate() error {
	switch {
	case x.Start == nil && x.Partitions == nil:
		return errors.New("experiment: no protocol")
	case len(x.Network.Sites) == 0:
		return errors.New("experiment: no sites")
	case x.Clients < 1:
		return fmt.Errorf("experiment: %d clients at each site; give at least 1", x.Clients)
	case x.Duration <= 0:
		return fmt.Errorf("experiment: a duration of %v; it must be positive", x.Duration)
	}
	return x.Workload.Validate()
}

func (x Experiment) environment() schedule.Environment {
	env := schedule.Environment{
		Network:   x.Network,
		Shards:    max(x.Shards, 1),
		Jitter:    quietJitter,
		Disks:     slices.Repeat([]schedule.Window{{Low: fastSync, High: slowSync}}, len(x.Network.Sites)),
		Retry:     2 * x.Network.Largest(),
		ClientRTT: profile.Local,
		Regular:   x.Regular,
		Losses:    x.Losses,
		Data:      x.Data,
	}
	if x.Sync > 0 {
		env.Disks = slices.Repeat([]schedule.Window{{Low: x.Sync, High: x.Sync}}, len(env.Disks))
		env.Retry += 4 * x.Sync
	}
	env.Suspect = 3 * env.Retry
	if x.Partitions != nil {
		env.Partitioned = x.Partitions.partitioned(&env, len(x.Faults) > 0)
	}
	env.Doubtful = slices.Contains(x.Faults, faults.OldCopy)
	if len(x.Faults) > 0 {
		env.Jitter, env.Sealed, env.Skewed = faultyJitter, true, true
		env.Patience = 4 * env.Retry
	}
	return env
}

// closedLoop is a source whose client begins its next operation when the last one has ended, or when it has rested.
type closedLoop struct {
	generator  *workload.Generator
	rng        *rand.Rand
	begin, end time.Duration
	regular    bool
	think      time.Duration
}

// Next implements clients.Source.
func (l *closedLoop) Next(now time.Duration) (register.Operation, time.Duration, bool) {
	if now >= l.end {
		return register.Operation{}, 0, false
	}
	op := l.generator.Next(l.rng)
	op.Regular = l.regular && op.Kind == register.Read
	if now < l.begin {
		return op, l.begin, true
	}
	return op, now + l.think, true
}

// distances are those between the sites of a network.
func distances(network profile.Profile) membership.Distances {
	d := membership.Distances{}
	for i, a := range network.Sites {
		d[a] = map[string]time.Duration{}
		for j, b := range network.Sites {
			d[a][b] = network.RTT[i][j]
		}
	}
	return d
}

// partitioned is what the world of an experiment has.
func (c *Partitions) partitioned(env *schedule.Environment, faulty bool) *schedule.Partitioned {
	p := &schedule.Partitioned{Protocol: c.Protocol, Sync: c.Sync, Slots: 4096, Suspect: env.Retry, Calls: faults.Fault{Kind: faults.Change, For: env.Retry / 2}}
	p.Placement = membership.Placement{
		Partitions: env.Shards, Faults: c.Backups, Homes: c.Homes, Distances: distances(env.Network),
	}
	if c.Backups == 0 {
		p.Placement.Faults = (len(env.Network.Sites) - 1) / 2
	}
	if faulty {
		p.FalseAlarms, p.Calls.Rate, p.Calls.Size = 5, 100, env.Retry/4
	}
	return p
}
