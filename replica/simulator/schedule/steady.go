package schedule

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Plain is a run in which little happens, and nothing by chance: one operation after the other and some at once, and at
// most one thing that befalls the members. What one fault more does to it can be told from what it is without.
type Plain struct {
	Name     string
	Schedule Schedule
}

// The steady environment: members on a line, one step of a round trip apart, whose fsyncs all take as long.
const (
	nearest    = 22 * time.Millisecond // the round trip between neighbours
	step       = 12 * time.Millisecond // how much longer it is with each member between
	steadySync = 2 * time.Millisecond
)

// Rounds of operations, one of each client in each: in every second round one after the other, else nearly at once.
const (
	plainRounds = 4
	apart       = time.Millisecond // of those that come nearly at once
)

// Plains are the plain runs of a protocol, with so many members. Their operations are drawn by the seed, and what
// members draw by themselves.
func Plains(seed uint64, n int, options Options) []Plain {
	if options.Partitioned != nil {
		return partitionedPlains(seed, n, options)
	}
	all := []Plain{{"operations", plain(seed, n, options)}}
	add := func(name string, f faults.Fault, change func(*Schedule)) {
		if !slices.Contains(options.Faults, f.Kind) {
			return
		}
		s := plain(seed, n, options)
		if f.Kind != faults.Limits {
			f.At, f.Node = s.Clients[0].Operations[1].At, n-2
			s.Faults = append(s.Faults, f)
		}
		if change != nil {
			change(&s)
		}
		all = append(all, Plain{name, s})
	}
	retry := all[0].Schedule.Environment.Retry
	change := func(join, leave int, alive bool) faults.Fault {
		return faults.Fault{Kind: faults.Change, For: retry / 8, Join: join, Leave: leave, Alive: alive}
	}
	add("small limits", faults.Fault{Kind: faults.Limits}, func(s *Schedule) {
		s.Environment.Tuning = protocol.Tuning{
			Sessions: 2, Answers: 1, AnswerBytes: 8, Batch: 1, Carried: 8, PageBytes: 32, Resting: 1, LogEntries: 2,
			LogBytes: 256, Writes: 2, Versions: 1,
		}
		s.growValues(kernel.NewStream(s.Seed, kernel.ForLimits, 0))
	})
	behind := func(s *Schedule) { // the log is short, and the state has many pages
		s.Environment.Tuning = protocol.Tuning{LogEntries: 2, PageBytes: 1}
		s.spread()
		s.growValues(kernel.NewStream(s.Seed, kernel.ForLimits, 0))
	}
	add("a member was away", faults.Fault{Kind: faults.Crash, For: 8 * retry}, behind)
	add("a member is back soon", faults.Fault{Kind: faults.Crash, For: retry / 4}, func(s *Schedule) {
		s.Environment.Doubtful = true
	})
	add("a disk is lost", faults.Fault{Kind: faults.Wipe, For: retry}, nil)
	add("a disk is lost with large values", faults.Fault{Kind: faults.Wipe, For: retry}, func(s *Schedule) {
		s.Faults[0].At = s.Clients[0].Operations[plainRounds-1].At // most of the state is there
		s.fill()
	})
	add("one member is replaced", change(1, 1, true), nil)
	add("a lost member is replaced", change(1, 1, false), behind)
	add("many members are replaced", change(3, 3, true), nil)
	add("two members join", change(2, 0, true), nil)
	if !options.Keep && n > 3 {
		add("two members leave", change(0, 2, true), nil)
	}
	return all
}

// filled is by how many bytes each value that is written gets larger, so that what is sent of a state counts.
const filled = 512

func (s *Schedule) fill() {
	for _, plan := range s.Clients {
		for i := range plan.Operations {
			if op := &plan.Operations[i].Operation; op.Kind == register.Write && op.Value.Present() {
				op.Value = grown(op.Value, filled)
			}
		}
	}
}

// spread gives each client but the first two keys of its own, so that the state has more records.
func (s *Schedule) spread() {
	for i := 2; i < len(s.Clients); i++ {
		for j := range s.Clients[i].Operations {
			s.Clients[i].Operations[j].Operation.Key += "-" + strconv.Itoa(i)
		}
	}
}

// partitionedPlains are those of worlds with masters.
func partitionedPlains(seed uint64, n int, options Options) []Plain {
	all := []Plain{{"operations", plain(seed, n, options)}}
	retry := all[0].Schedule.Environment.Retry
	add := func(name string, f faults.Fault, change func(*Schedule)) {
		if !slices.Contains(options.Faults, f.Kind) {
			return
		}
		s := plain(seed, n, options)
		f.At = s.Clients[0].Operations[1].At
		s.Faults = append(s.Faults, f)
		if change != nil {
			change(&s)
		}
		all = append(all, Plain{name, s})
	}
	gone := faults.Fault{Kind: faults.Crash, For: math.MaxInt64 / 4}
	add("a master is lost", gone, nil)
	add("a master is lost, with witnesses of its own", gone, func(s *Schedule) {
		s.Environment.Partitioned.Placement.Dedicated = true
	})
	add("a master is back soon", faults.Fault{Kind: faults.Crash, For: retry / 4}, func(s *Schedule) {
		s.Environment.Doubtful = true
	})
	add("a witness is back soon", faults.Fault{Kind: faults.Crash, Node: n + 1, For: retry / 4}, func(s *Schedule) {
		s.Environment.Doubtful = true
		s.Faults[0].At = s.Clients[0].Operations[plainRounds-1].At - retry/8 // before operations that come at once
	})
	behind := func(s *Schedule) { // the log is short, and the state has many pages
		s.Faults[0].At = s.Clients[0].Operations[plainRounds-1].At
		s.Environment.Partitioned.Sync.Kept, s.Environment.Tuning.PageBytes = 1, 48
		s.Environment.Tuning.Recorded = 64
		s.growValues(kernel.NewStream(s.Seed, kernel.ForLimits, 0))
	}
	add("a disk is lost", faults.Fault{Kind: faults.Wipe, Node: 1, For: retry}, nil)
	add("a disk is lost, and the log is short", faults.Fault{Kind: faults.Wipe, Node: 1, For: retry}, behind)
	add("a witness is lost", faults.Fault{Kind: faults.Lose, Node: 1, For: retry}, nil)
	add("a master moves", faults.Fault{Kind: faults.Move, Node: n - 1}, nil)
	add("a partition is split", faults.Fault{Kind: faults.Split}, nil)
	change := faults.Fault{Kind: faults.Change, Node: 1, Join: 1, Leave: 1, Alive: true}
	add("one member is replaced", change, nil)
	change.Alive = false
	add("a lost member is replaced, and the log is short", change, behind)
	return all
}

// plain is a run of so many members without anything that befalls them.
func plain(seed uint64, n int, options Options) Schedule {
	env := Environment{
		Network: line(n), Shards: 1, Disks: slices.Repeat([]Window{{steadySync, steadySync}}, n), Sealed: true, Steady: true,
		ClientRTT: profile.Local, Regular: options.Regular, Losses: options.Losses, Data: options.Data, OperatorPolicy: true,
		Tolerance: options.Tolerance,
	}
	trip := env.Network.Largest()
	env.Retry = 2 * trip
	env.Suspect = 3 * env.Retry
	env.Patience = 20 * env.Retry
	s := Schedule{Seed: seed, Environment: env}
	script := NewScript(kernel.NewStream(s.Seed, kernel.ForSchedule, 0), options.RMWs)
	script.Keys, script.Reads = 2, 500
	script.Idempotent, script.Large = options.Idempotent, options.Large
	for i := range n {
		s.Clients = append(s.Clients, Plan{Home: i})
	}
	pace := time.Duration(n+1) * 2 * trip
	for round := range plainRounds {
		between := apart
		if round%2 == 0 {
			between = 2 * trip
		}
		for i := range n {
			op := script.Operation()
			op.Regular = options.Regular && op.Kind == register.Read
			at := time.Duration(round)*pace + trip + time.Duration(i)*between
			s.Clients[i].Operations = append(s.Clients[i].Operations, Planned{at, op})
		}
	}
	s.Settle = plainRounds*pace + 40*env.Retry
	if options.Partitioned != nil {
		s.Environment.Shards = 2
		s.Environment.Partitioned = &Partitioned{
			Protocol: options.Partitioned, Slots: 64, Spares: 12, Suspect: env.Retry,
			Sync:      protocol.Sync{After: 4, Delay: env.Retry / 4, Lease: 2 * env.Retry},
			Placement: membership.Placement{Partitions: 2, Faults: (n - 1) / 2},
			Calls:     faults.Fault{Kind: faults.Change, For: env.Retry / 8},
		}
	}
	return s
}

// line is the network of members on a line.
func line(n int) profile.Profile {
	network := profile.Profile{Name: "line", RTT: make([][]time.Duration, n)}
	for a := range n {
		network.Sites = append(network.Sites, "site-"+strconv.Itoa(a+1))
		network.RTT[a] = make([]time.Duration, n)
		for b := range n {
			network.RTT[a][b] = nearest + step*time.Duration(max(a-b, b-a)-1)
		}
		network.RTT[a][a] = profile.Local
	}
	return network
}
