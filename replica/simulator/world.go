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
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
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

// epochStart is the wall-clock reading, in Unix milliseconds, at which virtual time starts.
const epochStart = 1_700_000_000_000

// world is one run.
type world struct {
	*kernel.Kernel
	env       schedule.Environment
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
	trace     *diagram.Diagram        // nil: no diagram wanted
	decided   map[instanceName]string // never ranged over; what each instance was first committed with
	// Something was lost, by more losses than there may be at once: nothing is read at the end.
	hopeless bool
	scratch  []byte // of unchanged
}

// newWorld makes a world and starts its members; spares are how many members may join.
func newWorld(seed uint64, env schedule.Environment, start Start, count func(string), traced bool, spares int) *world {
	w := &world{
		Kernel: &kernel.Kernel{Context: context.Background(), Seed: seed, Count: count},
		env:    env, start: start, functions: register.NewRegistry(), decided: map[instanceName]string{},
	}
	w.recorder = history.NewRecorder(func() time.Duration { return w.Now })
	if traced {
		w.trace = diagram.New(w.Kernel, w.lanes)
	}
	n := len(env.Network.Sites)
	if env.Partitioned != nil {
		spares = 0 // it has its own
	}
	v := view.View{Cluster: "simulated", Epoch: 1}
	for i, site := range env.Network.Sites {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1), Site: site, Address: site, Disk: diskName(view.MemberID(i+1), 1)})
	}
	for i := range n + spares {
		w.nodes = append(w.nodes, newNode(w, i, i%n))
	}
	if env.Partitioned != nil {
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
			w.links = append(w.links, newLink(w.Seed, a, b, w.env.Network.RTT[from.site][to.site]/2))
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

// lanes is how the nodes are, for a diagram.
func (w *world) lanes() []diagram.Lane {
	marks := make([]diagram.Lane, len(w.nodes))
	for i, nd := range w.nodes {
		switch {
		case nd.witness != nil && nd.born && !nd.down && !nd.paused:
			marks[i] = diagram.Witnesses
		case !nd.born || nd.gone || !nd.acts && !nd.down:
			marks[i] = diagram.InNoView
		case nd.down:
			marks[i] = diagram.Down
		case nd.paused:
			marks[i] = diagram.StandsStill
		case nd.lost:
			marks[i] = diagram.DoesNot
		default:
			marks[i] = diagram.Votes
		}
	}
	return marks
}
