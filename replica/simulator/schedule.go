package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Schedule is everything about a run that is not the protocol: it replays exactly.
type Schedule struct {
	Seed    uint64
	Clients []Plan
	Faults  []Fault
	// Settle is when the faults end; from then on everything must make progress.
	Settle time.Duration
	// Lost, if it is set, ends them before that.
	Lost *DiskLoss

	env     environment
	abandon int
	check   time.Duration // bounds the check of the history, in real time; 0: checkTimeout
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
	Members []int       // sizes of clusters to draw from; the default is 3, 5 and 7
	Faults  []FaultKind // kinds to draw from
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

	// Regular says that the protocol is regular sequentially consistent, and no more: clients are sessions, which carry
	// what they depend on, fence, and tell each other things, and histories are checked for that.
	Regular bool
	// Partitioned has the world be one of masters and witnesses that run this protocol; a search's Start counts for
	// nothing then.
	Partitioned *definition.Partitioned

	wrong     managerMistakes
	governor  governorMistakes
	careless  sessionMistakes
	operator  bool // members change by the operator's policy in every world, not only in some
	dedicated bool // every world's witnesses have pods of their own, not only some worlds'
}

// Shares of read-modify-writes for Options.RMWs: of a protocol that has them, and of one that refuses them.
const (
	ManyRMWs = 350
	FewRMWs  = 20
)

// SomeStale is what Options.Stale is where reads that may be stale differ from others.
const SomeStale = 250

func (o Options) withDefaults() Options {
	if len(o.Members) == 0 {
		o.Members = []int{3, 5, 7}
	}
	if o.Operations == 0 {
		o.Operations = 100
	}
	if o.Shards == 0 && !o.Regular {
		o.Shards = 1
	}
	return o
}

// Draw makes the schedule of a seed. Schedules differ in what they are made of, not just in order: each has its
// own few kinds of faults, speeds of disks, places of clients and mix of operations, since a bug may need much
// of one thing and little of the others.
func Draw(seed uint64, options Options) Schedule {
	options = options.withDefaults()
	draw := kernel.NewStream(seed, kernel.ForSchedule, 0)
	n := options.Members[draw.Below(len(options.Members))]
	s := Schedule{Seed: seed, abandon: 100}
	s.env = drawEnvironment(draw, n, max(options.Shards, 1))
	s.env.wrong, s.env.operator, s.env.losses, s.env.data = options.wrong, options.operator, options.Losses, options.Data
	if options.Impatient {
		s.env.suspect = s.env.retry / 8
	}

	clients := 6 + draw.Below(6)
	pace := (s.env.network.Largest() + s.env.slowest()) * time.Duration(40+draw.Below(150)) / 100
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
	script := newScript(draw, options.RMWs)
	script.idempotent, script.large = options.Idempotent, options.Large
	if options.Partitioned != nil {
		script.keys = 1 + kernel.NewStream(seed, kernel.ForPartitions, 1).Below(8)
	}
	if options.Regular {
		pace = script.contend(kernel.NewStream(seed, kernel.ForSessions, 1), pace)
		s.Settle = time.Duration(each) * pace
	}
	for round := range each {
		for i := range clients {
			at := time.Duration(round)*pace + draw.Between(0, pace)
			if calm {
				script.reads = 50 + 900*min(i, 1) // a writer and some readers
			}
			s.Clients[i].Operations = append(s.Clients[i].Operations, Planned{at, script.operation()})
		}
	}
	kinds := ofParts(without(options.Faults, Change, OldCopy, Rot))
	if options.Partitioned != nil {
		kinds = anywhere(kinds)
	}
	if len(kinds) > 0 {
		s.drawFaults(draw, n, drawKinds(draw, kinds), 6+draw.Below(10))
	}
	if slices.Contains(options.Faults, Change) && options.Partitioned == nil {
		s.stretch(2)
		s.drawChanges(seed, n, options)
	}
	if options.Partitioned != nil {
		s.drawParted(seed, n, options)
	} else {
		s.env.doubtful = slices.Contains(options.Faults, OldCopy)
	}
	s.drawCopies(seed, n, options.Faults)
	s.drawStale(options.Stale)
	if options.Regular {
		s.drawSessions(options)
	}
	return s
}

// drawStale lets some of the reads be stale.
func (s *Schedule) drawStale(perMille int) {
	draw := kernel.NewStream(s.Seed, kernel.ForStale, 0)
	for _, plan := range s.Clients {
		for i := range plan.Operations {
			if op := &plan.Operations[i].Operation; op.Kind == register.Read && draw.Chance(perMille) {
				op.Stale = true
			}
		}
	}
}

// drawKinds picks a few kinds of faults, or all.
func drawKinds(draw kernel.Stream, kinds []FaultKind) []FaultKind {
	if draw.Chance(400) {
		return kinds
	}
	var some []FaultKind
	for range 1 + draw.Below(4) {
		some = append(some, kinds[draw.Below(len(kinds))])
	}
	return some
}

func drawEnvironment(draw kernel.Stream, n, shards int) environment {
	network := profile.Profile{Name: "random", RTT: make([][]time.Duration, n)}
	for a := range n {
		network.Sites = append(network.Sites, "site-"+strconv.Itoa(a+1))
		network.RTT[a] = make([]time.Duration, n)
		network.RTT[a][a] = profile.Local
		for b := range a {
			rtt := draw.Between(4*time.Millisecond, 60*time.Millisecond)
			network.RTT[a][b], network.RTT[b][a] = rtt, rtt
		}
	}
	env := environment{network: network, shards: shards, sealed: true, skewed: true, shuffled: draw.Chance(500), clientRTT: profile.Local}
	env.jitter = draw.Below(400)
	env.disks = drawDisks(draw, n)
	if draw.Chance(500) {
		env.gather = 3 * time.Millisecond
	}
	// A round trip takes two messages and, at both ends, an fsync behind another one.
	trip := network.Largest()*time.Duration(1000+env.jitter)/1000 + 2*env.gather
	trip += 4 * env.slowest()
	env.retry = trip * time.Duration(105+draw.Below(200)) / 100
	env.suspect = 3 * env.retry
	env.patience = env.retry * time.Duration(2+draw.Below(5))
	if draw.Chance(500) {
		env.deadline = env.patience * 3 / 4
	}
	return env
}

// slowest is how long an fsync takes at most.
func (e *environment) slowest() time.Duration {
	return slices.MaxFunc(e.disks, func(a, b window) int { return int(a.high - b.high) }).high
}

// drawDisks gives the members disks from fast ones to some that take longer than a round trip: the same kind
// for all, or each its own.
func drawDisks(draw kernel.Stream, n int) []window {
	same := draw.Chance(500)
	var disks []window
	for len(disks) < n {
		slowest := []time.Duration{time.Millisecond, 12 * time.Millisecond, 150 * time.Millisecond}[draw.Below(3)]
		disk := window{slowest / 10, draw.Between(slowest/10, slowest)}
		disks = append(disks, disk)
		for same && len(disks) < n {
			disks = append(disks, disk)
		}
	}
	return disks
}

// drawFaults spreads faults over the time in which operations run.
func (s *Schedule) drawFaults(draw kernel.Stream, n int, kinds []FaultKind, count int) {
	for range count {
		f := Fault{
			Kind: kinds[draw.Below(len(kinds))],
			At:   draw.Between(s.Settle/20, s.Settle*9/10),
			For:  draw.Between(s.env.retry/4, s.env.retry*3),
			Node: draw.Below(n),
		}
		switch f.Kind {
		case Crash, Torn, Wipe:
			f.Rate = []int{0, 500, 1000}[draw.Below(3)]
			f.Intact = draw.Below(3)
			if draw.Chance(400) {
				f.For = draw.Between(time.Millisecond, s.env.network.Largest()) // back before its old messages have arrived
			}
		case Partition:
			p := drawPartition(draw, n)
			p.At, p.For = f.At, f.For
			f = p
		case Loss, Duplicate, Reorder:
			f.Rate = 100 + draw.Below(600)
			f.Size = draw.Between(time.Millisecond, s.env.retry*3)
			if draw.Chance(500) {
				f.Everywhere = true
			}
		case OldCopy:
			f.Size = draw.Between(s.env.retry, 6*s.env.retry)
		case Slow:
			f.Size = draw.Between(time.Millisecond, s.env.retry)
		case Skew:
			f.Size = draw.Between(0, 6*s.env.retry)
			f.Drift = draw.Below(200_001) - 100_000
		case Pause:
			f.For = draw.Between(s.env.retry/4, 6*s.env.retry)
		}
		s.Faults = append(s.Faults, f)
		if f.Kind == Crash || f.Kind == Torn || f.Kind == Wipe {
			s.drawCompany(draw, n, f, slices.Contains(kinds, Partition))
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// drawCompany adds what makes the stop of a process worse: others stop with it, as in a power failure; it stops
// again; or the network is cut one way before it stops, and another way once it is back, which is how quorums of
// different times come to miss each other.
func (s *Schedule) drawCompany(draw kernel.Stream, n int, f Fault, cut bool) {
	if f.Kind != Wipe && draw.Chance(250) {
		for other := range n {
			if other != f.Node && draw.Chance(700) {
				also := f
				also.Node = other
				s.Faults = append(s.Faults, also)
			}
		}
	}
	if draw.Chance(250) { // it stops again soon after it is back
		again := f
		again.At += f.For + draw.Between(0, s.env.retry)
		s.Faults = append(s.Faults, again)
	}
	if !cut || draw.Chance(400) {
		return
	}
	retry := s.env.retry
	before, after := drawPartition(draw, n), drawPartition(draw, n)
	early := draw.Between(0, retry/2)
	before.At = max(0, f.At-early)
	before.For = early + f.For + draw.Between(0, retry*2)
	after.At = before.At + before.For
	after.For = draw.Between(retry, retry*5)
	s.Faults = append(s.Faults, before, after)
}

func drawPartition(draw kernel.Stream, n int) Fault {
	return Fault{
		Kind: Partition, Everywhere: true, Side: drawSide(draw, n), OneWay: draw.Chance(300),
		Rate: []int{0, 500, 1000}[draw.Below(3)],
	}
}

// drawSide picks at least one and not all of n nodes, one node alone more often than the others together.
func drawSide(draw kernel.Stream, n int) uint64 {
	if draw.Chance(300) {
		return 1 << draw.Below(n)
	}
	for {
		if side := draw.Uint64() & (1<<n - 1); side != 0 && side != 1<<n-1 {
			return side
		}
	}
}

// script makes operations whose answers tell as much as possible: written values are unique, counters and logs
// show each execution, and compare-and-swap expects values that may well be there.
type script struct {
	draw  kernel.Stream
	rmws  int
	reads int // of 1000 operations that are no rmws
	keys  int
	count int
	last  map[string]register.Value // of each key; never ranged over

	large      int  // bytes of each second value that is written; 0: all are short
	idempotent bool // updates are those that may be applied more than once
}

func newScript(draw kernel.Stream, rmws int) *script {
	reads := 200 + draw.Below(600)
	return &script{draw: draw, rmws: rmws, reads: reads, keys: 1 + draw.Below(10)/7, last: map[string]register.Value{}}
}

// Prefixes of keys tell which operations touch them.
const (
	counterPrefix = "counter-" // add and read
	logPrefix     = "log-"     // append and read
	mixedPrefix   = "mixed-"   // everything
)

func (s *script) operation() register.Operation {
	s.count++
	if s.idempotent {
		return s.repeatable()
	}
	prefix := mixedPrefix
	if s.rmws >= 100 {
		prefix = []string{mixedPrefix, mixedPrefix, mixedPrefix, counterPrefix, logPrefix}[s.draw.Below(5)]
	}
	key := prefix + strconv.Itoa(s.draw.Below(s.keys))
	if prefix == mixedPrefix {
		return s.mixed(key)
	}
	switch {
	case s.draw.Chance(s.reads):
		return register.Operation{Kind: register.Read, Key: key}
	case prefix == counterPrefix:
		return call(key, register.Add, "1")
	default:
		return call(key, register.Append, fmt.Sprintf("<%d>", s.count))
	}
}

func (s *script) mixed(key string) register.Operation {
	unique := strconv.Itoa(s.count * 1000) // an integer, so that add applies to it
	switch {
	case s.draw.Chance(s.rmws):
		return s.rmw(key, unique)
	case !s.draw.Chance(s.reads):
		if s.draw.Chance(40) {
			return register.Operation{Kind: register.Write, Key: key} // deletes
		}
		if short := s.large - len(unique); short > 0 && s.count%2 == 0 {
			unique = strings.Repeat("0", short) + unique // the same integer
		}
		s.last[key] = register.Value(unique)
		return register.Operation{Kind: register.Write, Key: key, Value: register.Value(unique)}
	}
	return register.Operation{Kind: register.Read, Key: key}
}

func (s *script) rmw(key, unique string) register.Operation {
	switch s.draw.Below(8) {
	case 0, 1:
		expected := string(s.last[key])
		s.last[key] = register.Value(unique)
		return call(key, register.CompareAndSwap, expected, unique)
	case 2, 3:
		s.last[key] = register.Value(unique)
		return call(key, register.GetAndSet, unique)
	case 4:
		return call(key, register.Append, fmt.Sprintf("<%d>", s.count))
	case 5:
		return call(key, register.SetIfAbsent, unique)
	case 6:
		return call(key, []string{register.Delete, register.GetAndDelete}[s.draw.Below(2)])
	}
	return call(key, register.Add, "1")
}

func call(key, function string, args ...string) register.Operation {
	op := register.Operation{Kind: register.RMW, Key: key, Call: register.Call{Function: function}}
	for _, a := range args {
		op.Call.Args = append(op.Call.Args, []byte(a))
	}
	return op
}
