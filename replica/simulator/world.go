// Package simulator runs replication protocols in a fake world: virtual time, a network, disks and clocks that
// misbehave as a seed says, and clients whose history is checked.
//
// A run is single-threaded and draws everything from its seed, so it replays exactly on any machine. Schedule
// is one run with explicit operations and faults, Search tries many, Shrink makes a failing one short, Explain
// prints it as a message diagram, and Measure reproduces the experiments of papers in virtual time.
package simulator

import (
	"context"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
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

// epochStart is the wall-clock reading, in Unix milliseconds, at which virtual time starts.
const epochStart = 1_700_000_000_000

// world is one run.
type world struct {
	*kernel.Kernel
	env       environment
	start     Start
	functions *register.Registry

	nodes     []*node // member i+1 at i: one at each site, then those that may join
	serving   []*node // by site: whom its clients ask first
	manager   *manager
	links     []link // from a to b at a*n+b
	clients   []*client
	faults    []*fault
	answered  int  // those that were answered for good
	faultless bool // disks were lost for good: no other fault comes any more
	recorder  *history.Recorder
	messages  []history.Message
	fences    []history.Fence
	trace     *trace                  // nil: no diagram wanted
	decided   map[instanceName]string // never ranged over; what each instance was first committed with
	// Something was lost, by more losses than there may be at once: nothing is read at the end.
	hopeless bool
	scratch  []byte // of unchanged
}

// newWorld makes a world and starts its members; spares are how many members may join.
func newWorld(seed uint64, env environment, start Start, count func(string), traced bool, spares int) *world {
	w := &world{
		Kernel: &kernel.Kernel{Context: context.Background(), Seed: seed, Count: count},
		env:    env, start: start, functions: register.NewRegistry(), decided: map[instanceName]string{},
	}
	w.recorder = history.NewRecorder(func() time.Duration { return w.Now })
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
			w.links = append(w.links, newLink(w.Seed, a, b, w.env.network.RTT[from.site][to.site]/2))
		}
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
