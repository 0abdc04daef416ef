// Package schedule draws what happens in a simulated run from one seed: the environment, the operations of clients, and the faults.
package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Schedule is everything about a run that is not the protocol: it replays exactly.
type Schedule struct {
	Seed    uint64
	Clients []Plan
	Faults  []faults.Fault
	Strikes []Strike // of single messages, while faults go on; by number
	Redraws []Redraw // of what the network draws, by time
	Stops   []Stop   // of processes at single fsyncs, while faults go on; by number
	// Settle is when the faults end; from then on everything must make progress.
	Settle time.Duration
	// Lost, if it is set, ends them before that.
	Lost *DiskLoss

	Outage *Outage // nil: there is none

	Environment Environment
	Abandon     int
	Check       time.Duration // bounds the check of the history, in real time; 0: checkTimeout
}

// Strike has one message be lost, late, or arrive twice.
type Strike struct {
	// Message is its number: of all that members send each other, but for those about disks only, from 1 on.
	Message uint64
	Lost    bool
	Late    time.Duration // how much later it arrives
	// Overtaken says that what is sent on its link afterwards does not wait for it.
	Overtaken bool
	Twice     bool // it arrives in its time, and once more so much later, overtaken
}

// Stop has a process crash at one of its fsyncs.
type Stop struct {
	// Sync is its number: of all that members and witnesses end, from 1 on.
	Sync    uint64
	Durable bool          // the batches are durable, and nothing that waited for that has left; else they are lost
	All     bool          // all other processes crash at the same time
	For     time.Duration // until they start again
}

// String describes the stop in a line.
func (s Stop) String() string {
	who, when := "its process crashes", "before its batches are durable"
	if s.All {
		who = "all processes crash"
	}
	if s.Durable {
		when = "as its batches are durable"
	}
	return fmt.Sprintf("fsync %d: %s for %v, %s", s.Sync, who, s.For, when)
}

// String describes the strike in a line.
func (s Strike) String() string {
	switch {
	case s.Lost:
		return fmt.Sprintf("message %d is lost", s.Message)
	case s.Twice:
		return fmt.Sprintf("message %d arrives once more, %v late", s.Message, s.Late)
	case s.Overtaken:
		return fmt.Sprintf("message %d is %v late, and overtaken", s.Message, s.Late)
	}
	return fmt.Sprintf("message %d, and what follows it on its link, is %v late", s.Message, s.Late)
}

// Redraw has the network draw delays and losses as another seed has it, from a moment on.
type Redraw struct {
	At   time.Duration
	Seed uint64
}

// Plan is what one client does.
type Plan struct {
	Home       int // the position of its site
	Operations []Planned
	Asides     []Aside // of a regular protocol, by time
}

// Planned is an operation and the time before which it does not start.
type Planned struct {
	At        time.Duration
	Operation register.Operation
}

// Options say what schedules are like.
type Options struct {
	Members []int         // sizes of clusters to draw from; the default is 3, 5 and 7
	Faults  []faults.Kind // kinds to draw from
	// RMWs is how many of 1000 operations are read-modify-writes.
	RMWs int
	// Idempotent has updates be those that may be applied more than once, and no writes.
	Idempotent bool
	// Operations is the least number of operations of a schedule; the default is 100.
	Operations int
	// Stale is how many of 1000 reads may be stale. They are drawn from a stream of their own, and everything else is as
	// without.
	Stale int
	// Large is how many bytes each second value that is written has; 0: all are short.
	Large int
	// Losses is how many members may have lost their disks at once; 0: any minority.
	Losses int
	// Tolerance is how many members may be lost at once, where quorums are counted by it (protocol.Config.Faults); 0: any
	// minority.
	Tolerance int
	// Data is how many fragments restore a value, if the protocol stores values as those: changes of members end
	// when enough of them are with those after the change.
	Data int
	// Keep has members that change never be fewer than before.
	Keep bool
	// Shards per member; the default is 1, and from 1 to 3 where clients are sessions.
	Shards int
	// Impatient members suspect a coordinator long before it could have answered: recoveries duel with it and
	// with each other.
	Impatient bool

	// Keys of each kind; 0: 1 or 2, with masters from 1 to 8.
	Keys int

	// Regular says that the protocol is regular sequentially consistent, and no more: clients are sessions, which carry
	// what they depend on, fence, and tell each other things, and histories are checked for that.
	Regular bool
	// Partitioned has the world be one of masters and witnesses that run this protocol; a search's Start counts for
	// nothing then.
	Partitioned *definition.Partitioned

	OperatorPolicy bool // members change by the operator's policy in every world, not only in some
	Dedicated      bool // every world's witnesses have pods of their own, not only some worlds'

	// Directed are those of which a schedule is one, if Faults lists that; each has one of the numbers of Members.
	Directed []Directed

	changes int // of members, beyond the few that a schedule has
}

// Shares of read-modify-writes for Options.RMWs: of a protocol that has them, and of one that refuses them.
const (
	ManyRMWs = 350
	FewRMWs  = 20
)

// SomeStale is what Options.Stale is where reads that may be stale differ from others.
const SomeStale = 250

// plainKinds are those of its kinds of faults that may come at any time and as often as one likes.
func (o *Options) plainKinds() []faults.Kind {
	kinds := faults.Without(o.Faults, faults.Change, faults.OldCopy, faults.Rot, faults.Lose, faults.Move, faults.LostQuorum, faults.Split,
		faults.Outage)
	kinds = faults.Without(kinds, faults.Variations()...)
	if o.Partitioned != nil {
		kinds = faults.WithStableMembers(kinds)
	}
	return kinds
}

// Draw makes the schedule of a seed. Schedules differ in what they are made of, not just in order: each has its
// own few kinds of faults, speeds of disks, places of clients and mix of operations, since a bug may need much
// of one thing and little of the others.
func Draw(seed uint64, options Options) Schedule {
	if len(options.Members) == 0 {
		options.Members = []int{3, 5, 7}
	}
	options.Operations = cmp.Or(options.Operations, 100)
	if s, is := directed(seed, options); is {
		return s
	}
	if slices.Contains(options.Faults, faults.Plain) {
		return drawPlain(seed, options)
	}
	options, mix := mixed(seed, options)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 0)
	n := options.Members[draw.Below(len(options.Members))]
	s := Schedule{Seed: seed, Abandon: 100}
	s.Environment = drawEnvironment(draw, n, max(options.Shards, 1))
	s.Environment.OperatorPolicy, s.Environment.Losses, s.Environment.Data = options.OperatorPolicy, options.Losses, options.Data
	s.Environment.Tolerance = options.Tolerance
	if options.Impatient {
		s.Environment.Suspect = s.Environment.Retry / 8
	}

	clients := 6 + draw.Below(6)
	pace := (s.Environment.Network.Largest() + s.Environment.Slowest()) * time.Duration(40+draw.Below(150)) / 100
	calm := draw.Chance(350) // what one operation left behind, others do not clear away at once
	if calm {
		clients = 2 + draw.Below(3)
		pace = pace * 3 / 2
	}
	total := options.Operations + draw.Below(options.Operations/2+1)
	each := total/clients + 1
	s.Settle = time.Duration(each) * pace
	homes := n
	if draw.Chance(300) {
		homes = 1 + draw.Below(2) // coordinators with many clients of their own
	}
	first := draw.Below(n)
	for i := range clients {
		s.Clients = append(s.Clients, Plan{Home: (first + i%homes) % n})
	}
	script := NewScript(draw, options.RMWs)
	script.Keys = cmp.Or(options.Keys, script.Keys)
	script.Idempotent, script.Large = options.Idempotent, options.Large
	if options.Partitioned != nil {
		script.Keys = cmp.Or(options.Keys, 1+kernel.NewStream(seed, kernel.ForPartitions, 1).Below(8))
	}
	if options.Regular {
		pace = script.contend(kernel.NewStream(seed, kernel.ForSessions, 1), pace)
		s.Settle = time.Duration(each) * pace
	}
	for round := range each {
		for i := range clients {
			at := time.Duration(round)*pace + draw.Between(0, pace)
			if calm {
				script.Reads = 50 + 900*min(i, 1) // a writer and some readers
			}
			s.Clients[i].Operations = append(s.Clients[i].Operations, Planned{at, script.Operation()})
		}
	}
	if kinds := options.plainKinds(); len(kinds) > 0 {
		s.drawFaults(draw, n, drawKinds(draw, kinds), 6+draw.Below(10))
	}
	if slices.Contains(options.Faults, faults.Change) && options.Partitioned == nil {
		s.stretch(2 + time.Duration(options.changes)/3)
		s.drawChanges(seed, n, options)
	}
	if options.Partitioned != nil {
		s.drawPartitioned(seed, n, options)
	} else {
		s.Environment.Doubtful = slices.Contains(options.Faults, faults.OldCopy)
	}
	s.drawCopies(seed, n, options.Faults)
	mix(&s)
	s.drawLimits(options)
	s.drawOutage(total, options)
	s.drawSlowDisk(options)
	s.drawFetches(options)
	s.drawHasty(options)
	s.drawApart(n, options)
	s.drawInFlight(options)
	s.DrawStale(options.Stale)
	if options.Regular {
		s.drawSessions(options)
	}
	s.SortFaults()
	return s
}

// DrawStale lets some of the reads be stale.
func (s *Schedule) DrawStale(perMille int) {
	draw := kernel.NewStream(s.Seed, kernel.ForStale, 0)
	for _, plan := range s.Clients {
		for i := range plan.Operations {
			if op := &plan.Operations[i].Operation; op.Kind == register.Read && draw.Chance(perMille) {
				op.Stale = true
			}
		}
	}
}
