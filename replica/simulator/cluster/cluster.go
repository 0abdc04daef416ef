// Package cluster is the machines of a simulated run: nodes whose processes run members or witnesses on disks and clocks
// of their own, as the runtime does, and the messages between them. It knows neither what decides on members nor what
// goes wrong.
package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/clients"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/invariant"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/network"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/replica/view"
)

// Start starts a protocol over a journal, which may hold the state of an earlier run.
type Start func(protocol.Config, *protocol.Journal) (protocol.Protocol, error)

// Cluster is the nodes of a run, the network between them, and the clients that ask them.
type Cluster struct {
	*kernel.Kernel
	Archive
	Environment *schedule.Environment
	starts      Start
	functions   *register.Registry
	Network     *network.Network
	fetched     uint64           // records, by all nodes
	Diagram     *diagram.Diagram // nil: no diagram wanted
	Coverage    *coverage.Run    // nil: nobody asks for it

	Nodes      []*Node // member i+1 at i: one at each site, then those that may join
	FirstAsked []*Node // by site: the node that its clients ask first
	Clients    *clients.Population
	commits    check.Commits
	Batches    uint64 // that members handed to their disks
	logs       check.Logs
	Masters    check.Masters
	breach     error // the first of those that Breaches was told of
	invariants invariant.Run
	requests   check.Requests
	unsynced   int // the most entries that a master had which were not synced
	largest    int // operation that a shard was asked for, in bytes of values and arguments

	Stops map[uint64]schedule.Stop // at fsyncs, by their numbers
	Syncs uint64                   // fsyncs that ended while faults went on

	Draw    kernel.Stream // of what is decided about members
	Unheard int           // the node that no other says to hear at the moment, or none
}

// New makes a world whose members do not run yet, and its first view; spares are how many members may join.
func New(k *kernel.Kernel, env *schedule.Environment, start Start, traced bool, spares int) (*Cluster, view.View) {
	w := &Cluster{Kernel: k, Environment: env, starts: start, functions: register.NewRegistry(), Draw: k.Draws(kernel.ForManager, 0), Unheard: None}
	if traced {
		w.Diagram = diagram.New(k, w.lanes)
	}
	n := len(env.Network.Sites)
	v := view.View{Cluster: "simulated", Epoch: 1}
	for i, site := range env.Network.Sites {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1), Site: site, Address: site, Disk: diskName(view.MemberID(i+1), 1)})
	}
	if env.Partitioned != nil {
		spares = 0 // it has its own
	}
	for i := range n + spares {
		w.Nodes = append(w.Nodes, newNode(w, i, i%n))
	}
	if env.Partitioned != nil {
		v = w.addWitnesses(v)
	}
	var sites []int
	for _, nd := range w.Nodes {
		sites = append(sites, nd.Site)
	}
	w.Network = network.New(k, env, w.Diagram, w, sites)
	w.Clients = clients.New(k, env, w.Network, w, w.Diagram)
	w.FirstAsked = slices.Clone(w.Nodes[:n])
	if k.Observed {
		w.observe()
	}
	return w, v
}

// Start starts the members of the first view, and the witnesses that there are.
func (w *Cluster) Start() {
	for _, nd := range w.FirstAsked {
		nd.Enter(0)
		nd.Born = true
	}
	for _, nd := range w.Nodes {
		if nd.Born {
			nd.Boot()
		}
	}
}

// Serving implements clients.Store.
func (w *Cluster) Serving(site int) int { return w.FirstAsked[site].Index }

// Next implements clients.Store: members that may join are asked too, but in worlds with masters.
func (w *Cluster) Next(member int) int {
	for {
		member = (member + 1) % len(w.Nodes)
		if nd := w.Nodes[member]; nd.Witness == nil && (nd.Born || w.Environment.Partitioned == nil) {
			return member
		}
	}
}

// Request implements clients.Store.
func (w *Cluster) Request(member int, c *clients.Client, attempt uint32) {
	w.Nodes[member].requested(c, attempt)
}

// observe has what happens from now on be seen.
func (w *Cluster) observe() {
	r := coverage.New(func() (time.Duration, uint64) { return w.Now, w.Network.Sent })
	w.Coverage = r
	count := w.Count
	for _, nd := range w.Nodes {
		nd.Config.Count = func(path string) {
			r.Took(nd.Index, path)
			if count != nil {
				count(path)
			}
		}
	}
	w.Count = func(path string) {
		r.Took(coverage.Nowhere, path)
		if count != nil {
			count(path)
		}
	}
}

// Place puts a node at a site.
func (w *Cluster) Place(nd *Node, site int) {
	nd.Site = site
	w.Network.Place(nd.Index, site)
}

// Transferring reports whether members of the last view keep records of transfers that are over.
func (w *Cluster) Transferring() bool {
	return slices.ContainsFunc(w.Nodes, func(nd *Node) bool { return nd.Acts && nd.Held == w.Record && !nd.Gone && nd.transferring() })
}

// Pending is how many operations and instances the protocols still hold.
func (w *Cluster) Pending() int {
	total := 0
	for _, nd := range w.Nodes {
		total += nd.pending()
	}
	return total
}

// Mishap draws whether something goes wrong by chance, in so many of 1000 cases; in steady worlds it never does.
func (w *Cluster) Mishap(draw kernel.Stream, perMille int) bool {
	return draw.Chance(perMille) && !w.Environment.Steady
}

// lanes is how the nodes are, for a diagram.
func (w *Cluster) lanes() []diagram.Lane {
	marks := make([]diagram.Lane, len(w.Nodes))
	for i, nd := range w.Nodes {
		switch {
		case nd.Witness != nil && nd.Born && !nd.Down && !nd.Paused:
			marks[i] = diagram.Witnesses
		case !nd.Born || nd.Gone || !nd.Acts && !nd.Down:
			marks[i] = diagram.InNoView
		case nd.Down:
			marks[i] = diagram.Down
		case nd.Paused:
			marks[i] = diagram.StandsStill
		case nd.Lost:
			marks[i] = diagram.DoesNot
		default:
			marks[i] = diagram.Votes
		}
	}
	return marks
}

// At is a node at a site: one of its members, or who may become one.
func (w *Cluster) At(site int) *Node {
	var there []*Node
	for _, nd := range w.Nodes {
		if nd.Site == site && nd.Born && !nd.Gone && (nd.Acts || nd.Held == None) {
			there = append(there, nd)
		}
	}
	switch len(there) {
	case 0:
		return nil
	case 1:
		return there[0]
	}
	return there[w.Draw.Below(len(there))]
}

// Employ makes a node a witness, beside a member or alone, and starts it.
func (w *Cluster) Employ(nd *Node, site int, beside view.MemberID) {
	nd.Shards, nd.Witness = nil, newWitness(nd, beside)
	w.Place(nd, site)
	nd.Born = true
	nd.Boot()
}

// LoseBeside loses the disk of the witness beside a member, which is on the same volume.
func (w *Cluster) LoseBeside(nd *Node, back time.Duration) {
	for _, other := range w.Nodes {
		if other.Witness == nil || other.Witness.Beside != nd.Config.Self || !other.Born || other.Gone {
			continue
		}
		other.Crash(0, 500)
		other.Witness.Lose()
		if nd.Gone {
			other.Gone = true
			continue
		}
		other.After(back, other.Restart)
	}
}

// GiveUp ends the process of a member for ever.
func (nd *Node) GiveUp() {
	nd.Crash(0, 500)
	nd.Gone, nd.Lost = true, true
	if nd.World.Environment.Partitioned != nil {
		nd.World.LoseBeside(nd, 0)
	}
}

// Breaches notes what the protocol forbids, if err is not nil. The run goes on: what clients see of it tells more.
func (w *Cluster) Breaches(err error) {
	if w.breach == nil && err != nil {
		w.breach = err
		w.Diagram.Remark("%v", err)
	}
}

// Breach is the failure of a run in which something was done that the protocol forbids.
func (w *Cluster) Breach() (check.Class, string) {
	w.Breaches(w.invariants.Broken)
	if w.breach == nil {
		return "", ""
	}
	return check.Breach, w.breach.Error()
}

// Trusted is the failure of a member that has voted on an older copy of its disk, where nobody saw any harm of that:
// all others had noted what the disk lacked.
func (w *Cluster) Trusted() (check.Class, string) {
	for _, nd := range w.Nodes {
		if nd.trusted {
			return check.Believed, fmt.Sprintf("member %d voted on a disk that was put back from an older copy", nd.Index+1)
		}
	}
	return "", ""
}
