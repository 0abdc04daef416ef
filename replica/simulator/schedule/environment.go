package schedule

import (
	"slices"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Environment is what a world is like when no fault is in force.
type Environment struct {
	Network        profile.Profile
	Shards         int
	Jitter         int           // a message's extra delay, in thousandths of its one-way delay, at most
	Disks          []Window      // how long an fsync takes, by node
	Fetches        Window        // how long it takes to read a record; zero: all are in memory
	Gather         time.Duration // a node may let inputs gather for so long before a turn; 0: one turn per input
	Sealed         bool          // messages go through their wire format, and must not be changed once sent
	Retry          time.Duration
	Suspect        time.Duration
	Paced          bool          // members learn Retry and Suspect as they run (Pace), now shorter and now longer
	Coarse         time.Duration // clients' clocks go on in steps of so much; 0: they don't
	ClientRTT      time.Duration // between a client and the replica at its site
	Patience       time.Duration // how long clients wait for an attempt; 0: for ever
	Deadline       time.Duration // what clients give the protocol; 0: none
	Shuffled       bool          // each process has a random opinion of which members are near
	Skewed         bool          // clocks of nodes start at different readings and drift
	InFlight       int           // how many clients of a site are one session; 0: each is one
	Named          bool          // clients give their writes IDs too, and repeat them as they do rmws
	Regular        bool          // clients are sessions of a regular protocol
	Doubtful       bool          // disks may be older copies: a process that starts has to ask the others
	Losses         int           // how many members may have lost their disks at once; 0: any minority
	Tolerance      int           // how many members may be lost at once, where quorums are counted by it; 0: any minority
	Data           int           // how many fragments restore a value; 0: values are stored whole
	OperatorPolicy bool          // members change by the operator's policy; else only in some worlds
	Steady         bool          // nothing goes wrong by chance but what the schedule says, such as a crash of the manager
	ClockStops     bool          // a clock stands still while its machine is suspended (faults.Pause)
	// Mixed has the network deliver what comes from another view, of which nobody learns by that: members have to
	// refuse it themselves.
	Mixed       bool
	Tuning      protocol.Tuning // of all members; its zero fields are the defaults of their protocols
	Starts      uint32          // how many starts each disk counts in the beginning
	Partitioned *Partitioned    // what there is in a world with masters; nil: there are none
}

// Window is a range of durations, both ends included.
type Window struct{ Low, High time.Duration }

// StaleBound is how old a read that may be stale can be.
func (e *Environment) StaleBound() time.Duration {
	if e.Partitioned == nil {
		return 0 // only masters have more than one answer
	}
	return e.Partitioned.Sync.WithDefaults().Lease
}

// DrawNetwork makes a network of so many sites, with round trips in a range.
func DrawNetwork(draw kernel.Stream, name string, n int, least, most time.Duration) profile.Profile {
	network := profile.Profile{Name: name, RTT: make([][]time.Duration, n)}
	for a := range n {
		network.Sites = append(network.Sites, "site-"+strconv.Itoa(a+1))
		network.RTT[a] = make([]time.Duration, n)
		network.RTT[a][a] = profile.Local
		for b := range a {
			rtt := draw.Between(least, most)
			network.RTT[a][b], network.RTT[b][a] = rtt, rtt
		}
	}
	return network
}

func drawEnvironment(draw kernel.Stream, n, shards int) Environment {
	network := DrawNetwork(draw, "random", n, 4*time.Millisecond, 60*time.Millisecond)
	env := Environment{
		Network: network, Shards: shards, Sealed: true, Skewed: true, Shuffled: draw.Chance(500),
		ClientRTT: profile.Local,
	}
	env.Jitter = draw.Below(400)
	env.Disks = DrawDisks(draw, n)
	if draw.Chance(500) {
		env.Gather = 3 * time.Millisecond
	}
	// A round trip takes two messages and, at both ends, an fsync behind another one.
	trip := network.Largest()*time.Duration(1000+env.Jitter)/1000 + 2*env.Gather
	trip += 4 * env.Slowest()
	env.Retry = trip * time.Duration(105+draw.Below(200)) / 100
	env.Suspect = 3 * env.Retry
	env.Patience = env.Retry * time.Duration(2+draw.Below(5))
	if draw.Chance(500) {
		env.Deadline = env.Patience * 3 / 4
	}
	return env
}

// Slowest is how long an fsync takes at most.
func (e *Environment) Slowest() time.Duration {
	return slices.MaxFunc(e.Disks, func(a, b Window) int { return int(a.High - b.High) }).High
}

// DrawDisks gives the members disks from fast ones to some that take longer than a round trip: the same kind
// for all, or each its own.
func DrawDisks(draw kernel.Stream, n int) []Window {
	same := draw.Chance(500)
	var disks []Window
	for len(disks) < n {
		slowest := []time.Duration{time.Millisecond, 12 * time.Millisecond, 150 * time.Millisecond}[draw.Below(3)]
		disk := Window{slowest / 10, draw.Between(slowest/10, slowest)}
		disks = append(disks, disk)
		for same && len(disks) < n {
			disks = append(disks, disk)
		}
	}
	return disks
}

// drawHasty has members ask again, in one of eight schedules, up to eight times before they could have been answered.
// Nobody is suspected sooner for that. In one of eight of the others their pace changes. It draws from streams of its
// own.
func (s *Schedule) drawHasty(options Options) {
	draw, env := kernel.NewStream(s.Seed, kernel.ForHasty, 0), &s.Environment
	switch {
	case !slices.Contains(options.Faults, faults.Hasty) || env.Suspect < 2*env.Retry:
	case draw.Chance(125):
		env.Retry = draw.Between(env.Retry/8, env.Retry)
	default:
		env.Paced = kernel.NewStream(s.Seed, kernel.ForHasty, 1).Chance(125)
	}
}

// Bounds on the paces of members that learn them, in hundredths of what the environment says; and how many times as long
// they wait before they have.
const (
	leastPace = 12
	mostPace  = 200
	unpaced   = 32
)

// Pace is for how long a member waits at a moment by its clock: it changes now and then.
func (e *Environment) Pace(
	draws func(purpose, index uint64) kernel.Stream, member int, at time.Duration,
) (retry, suspect time.Duration) {
	since := uint64(at / (2 * e.Suspect))
	share := time.Duration(leastPace + draws(kernel.ForHasty, uint64(member+1)<<24|since).Below(mostPace-leastPace+1))
	return e.Retry * share / 100, e.Suspect * share / 100
}

// Unpaced is for how long members wait that have not learnt their pace.
func (e *Environment) Unpaced() (retry, suspect time.Duration) {
	if !e.Paced {
		return e.Retry, e.Suspect
	}
	return unpaced * e.Retry, unpaced * e.Suspect
}

// LeastRetry is the shortest Retry that a member has.
func (e *Environment) LeastRetry() time.Duration { return e.least(e.Retry) }

// LeastSuspect is the shortest Suspect that a member has.
func (e *Environment) LeastSuspect() time.Duration { return e.least(e.Suspect) }

func (e *Environment) least(wait time.Duration) time.Duration {
	if !e.Paced {
		return wait
	}
	return wait * leastPace / 100
}

// drawFetches has records not be in memory, in one of eight schedules, and reading one take up to half of Retry. It
// draws from a stream of its own.
func (s *Schedule) drawFetches(options Options) {
	draw, env := kernel.NewStream(s.Seed, kernel.ForFetches, 1<<63), &s.Environment
	if slices.Contains(options.Faults, faults.Fetches) && draw.Chance(125) {
		env.Fetches = Window{0, draw.Between(env.Retry/100, env.Retry/2)}
	}
}

// drawSlowDisk has the disks of one site, or of all, in one of eight schedules, take up to longer than Retry: an answer
// that rests on one of them comes when its question was asked again. With masters none takes longer than half of a
// lease, since who leads by leases has to be faster than that. It draws from a stream of its own.
func (s *Schedule) drawSlowDisk(options Options) {
	draw, env := kernel.NewStream(s.Seed, kernel.ForSlowDisk, 0), &s.Environment
	if !slices.Contains(options.Faults, faults.SlowDisk) || !draw.Chance(125) {
		return
	}
	slowest := env.Retry * time.Duration(80+draw.Below(60)) / 100
	first, sites := draw.Below(len(env.Disks)), 1
	if env.Partitioned != nil {
		slowest = min(slowest, env.Partitioned.Sync.WithDefaults().Lease/2)
	}
	if draw.Chance(500) {
		sites = len(env.Disks)
	}
	for i := range sites {
		env.Disks[(first+i)%len(env.Disks)] = Window{slowest / 2, slowest}
	}
}
