// Package simulator runs replication protocols in a fake world: virtual time, a network, disks and clocks that
// misbehave as a seed says, and clients whose history is checked.
//
// A run is single-threaded and draws everything from its seed, so it replays exactly on any machine. Schedule
// is one run with explicit operations and faults, Search tries many, Shrink makes a failing one short, Explain
// prints it as a message diagram, and Measure reproduces the experiments of papers in virtual time.
package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Start starts a protocol over a journal, which may hold the state of an earlier run.
type Start func(protocol.Config, *protocol.Journal) (protocol.Protocol, error)

// Member starts a member.Member around a protocol, as the runtime does.
func Member(inner member.Factory) Start { return MemberWith(inner, member.Mistakes{}) }

// MemberWith is Member with mistakes, for tests.
func MemberWith(inner member.Factory, mistakes member.Mistakes) Start {
	return func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
		return member.StartWith(config, journal, inner, mistakes)
	}
}

// environment is what a world is like when no fault is in force.
type environment struct {
	network   profile.Profile
	shards    int
	jitter    int           // a message's extra delay, in thousandths of its one-way delay, at most
	disks     []window      // how long an fsync takes, by node
	gather    time.Duration // a node may let inputs gather for so long before a turn; 0: one turn per input
	sealed    bool          // messages go through their wire format, and must not be changed once sent
	retry     time.Duration
	suspect   time.Duration
	clientRTT time.Duration // between a client and the replica at its site
	patience  time.Duration // how long clients wait for an attempt; 0: for ever
	deadline  time.Duration // what clients give the protocol; 0: none
	shuffled  bool          // each process has a random opinion of which members are near
	skewed    bool          // clocks of nodes start at different readings and drift
	named     bool          // clients give their writes IDs too, and repeat them as they do rmws
	regular   bool          // clients are sessions of a regular protocol
	doubtful  bool          // disks may be older copies: a process that starts has to ask the others
	losses    int           // how many members may have lost their disks at once; 0: any minority
	data      int           // how many fragments restore a value; 0: values are stored whole
	careless  sessionMistakes
	wrong     managerMistakes
	operator  bool    // members change by the operator's policy; else only in some worlds
	standing  bool    // the mistake that a clock stands still with its machine (Pause)
	parted    *parted // what there is in a world with masters; nil: there are none
}

// window is a range of durations, both ends included.
type window struct{ low, high time.Duration }

// pauses is after how many events a run looks whether it is to end, and tells how far it is.
const pauses = 1024

// epochStart is the wall-clock reading, in Unix milliseconds, at which virtual time starts.
const epochStart = 1_700_000_000_000

// world is one run.
type world struct {
	ctx       context.Context // when it ends, so does the run
	progress  func()          // told now and then; nil: nobody asks
	env       environment
	seed      uint64
	start     Start
	functions *register.Registry
	count     func(path string)

	now      time.Duration
	sequence uint64
	queue    eventQueue
	events   uint64
	limit    uint64 // of events; 0: none

	nodes     []*node // member i+1 at i: one at each site, then those that may join
	serving   []*node // by site: whom its clients ask first
	manager   *manager
	links     []link // from a to b at a*n+b
	clients   []*client
	faults    []*fault
	settled   bool          // the faults are over: from now on everything must make progress
	calm      time.Duration // since when
	busy      int           // operations in progress
	answered  int           // those that were answered for good
	faultless bool          // disks were lost for good: no other fault comes any more
	answers   []answer
	free      []uint32 // of answers
	recorder  *history.Recorder
	tellings  []telling // that were sent
	messages  []history.Message
	fences    []history.Fence
	trace     *trace                  // nil: no diagram wanted
	decided   map[instanceName]string // never ranged over; what each instance was first committed with
	// Something was lost, by more losses than there may be at once: nothing is read at the end.
	hopeless bool
	err      error  // the first thing that must not happen
	scratch  []byte // of unchanged
}

// newWorld makes a world and starts its members; spares are how many members may join.
func newWorld(seed uint64, env environment, start Start, count func(string), traced bool, spares int) *world {
	w := &world{ctx: context.Background(), env: env, seed: seed, start: start, functions: register.NewRegistry(), count: count, decided: map[instanceName]string{}}
	w.recorder = history.NewRecorder(func() time.Duration { return w.now })
	if traced {
		w.trace = &trace{world: w}
	}
	n := len(env.network.Sites)
	if env.parted != nil {
		spares = 0 // it has its own
	}
	v := view.View{Cluster: "simulated", Epoch: 1}
	for i, site := range env.network.Sites {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1), Site: site, Address: site, Disk: diskName(view.MemberID(i+1), 1)})
	}
	for i := range n + spares {
		w.nodes = append(w.nodes, newNode(w, i, i%n))
	}
	if env.parted != nil {
		v = w.addWitnesses(v)
	}
	w.manager = newManager(w, v, n)
	w.connect()
	w.serving = slices.Clone(w.nodes[:n])
	for _, nd := range w.serving {
		nd.enter(0)
		nd.born = true
	}
	for _, nd := range w.serving {
		nd.boot()
	}
	for _, nd := range w.nodes[n+spares:] {
		nd.held = none
		if nd.born {
			nd.boot()
		}
	}
	return w
}

// connect makes a link from each node to each.
func (w *world) connect() {
	for a, from := range w.nodes {
		for b, to := range w.nodes {
			w.links = append(w.links, newLink(w.seed, a, b, w.env.network.RTT[from.site][to.site]/2))
		}
	}
}

// took counts a path that the world took.
func (w *world) took(path string) {
	if w.count != nil {
		w.count(path)
	}
}

func (w *world) schedule(after time.Duration, e event) {
	e.at = w.now + after
	w.sequence++
	e.sequence = w.sequence
	w.queue.push(e)
}

// fail notes the first thing that must not happen; the run ends there.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// run handles events until done says so, time is up, or something must not have happened. It reports whether
// done said so.
func (w *world) run(until time.Duration, done func() bool) bool {
	for w.err == nil {
		if done() {
			return true
		}
		if len(w.queue) == 0 || w.queue[0].at > until {
			w.now = max(w.now, until)
			return false
		}
		e := w.queue.pop()
		w.now = e.at
		if w.events++; w.limit > 0 && w.events > w.limit {
			w.fail("there is no end to what members send each other: %d events are waiting after %d", len(w.queue), w.limit)
			return false
		}
		if w.events%pauses == 0 {
			if w.err = context.Cause(w.ctx); w.err != nil {
				return false
			}
			if w.progress != nil {
				w.progress()
			}
		}
		w.handle(&e)
	}
	return false
}

func (w *world) handle(e *event) {
	switch e.kind {
	case deliver:
		w.arrive(e)
	case turn:
		w.nodes[e.a].turn(uint32(e.aux))
	case tick:
		w.nodes[e.a].ticked(uint32(e.aux))
	case synced:
		w.nodes[e.a].synced(uint32(e.aux))
	case request:
		w.nodes[e.a].requested(w.clients[e.b], uint32(e.aux))
	case response:
		w.clients[e.b].answered(uint32(e.aux))
	case timeout:
		w.clients[e.b].timedOut(uint32(e.aux))
	case issue:
		w.clients[e.b].issue()
	case faultBegin:
		if !w.faultless {
			w.faults[e.aux].begin(w)
		}
	case faultEnd:
		w.faults[e.aux].end(w)
	case restart:
		w.nodes[e.a].restart(uint32(e.aux))
	case resume:
		w.nodes[e.a].resume(uint32(e.aux))
	case manage:
		w.manager.round()
	case configure:
		w.manager.tell(w.nodes[e.a], int(e.aux))
	case configured:
		w.manager.hear(w.nodes[e.a], int(e.aux))
	case learned:
		if w.nodes[e.a].learn(int(e.aux)) {
			w.took("change.learned")
		}
	case order:
		w.obey(e)
	case told:
		w.clients[e.b].told(w.tellings[e.aux])
	}
}

// transferring reports whether members of the last view keep records of transfers that are over.
func (w *world) transferring() bool {
	return slices.ContainsFunc(w.nodes, func(nd *node) bool { return nd.acts && nd.held == w.manager.record && !nd.gone && nd.transferring() })
}

// pending is how many operations and instances the protocols still hold.
func (w *world) pending() int {
	total := 0
	for _, nd := range w.nodes {
		total += nd.pending()
	}
	return total
}
