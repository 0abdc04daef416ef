// Package members decides on the members of a simulated cluster by the package membership, as the operator does: it
// observes nodes by calls that are lost and late, decides, records a view and makes it known, and may crash at any point.
package members

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// Manager changes the members, one change at a time, as the operator of a cluster does: it starts newcomers, records
// the joint view once they have named their disks, tells it to the members again and again, hears how far they are, and
// records the view after the change, or the one before it again. It may crash at any point, and goes on from its
// record; if that is lost it is rebuilt from what members say.
type Manager struct {
	*cluster.Cluster

	// What survives a crash of it, with the record.
	Change         *change // in progress, or nil
	wanted         []*faults.Injected
	operatorPolicy bool // changes are judged as the operator does (judge)
	spare          int  // the first node that was never started
	Losses         int  // how often the record was lost

	// What does not.
	answers []cluster.Report // the latest, by node
	away    time.Duration    // until when it is down
	Lost    bool             // there is no record
	known   uint64           // the epoch that had taken hold then
	quiet   time.Duration    // from when on no call of before the loss is on its way any more

	begun bool         // its rounds
	pace  faults.Fault // how often and how badly it calls

	// Of a world with masters.
	Forget        *faults.Injected // the record is lost with the next view
	orders        uint64           // to witnesses, so far
	waits         []string         // what it can't decide yet
	decided       *decision        // the last one; nil: none
	cut           uint64           // a bit per node that it does not reach until cutUntil
	cutUntil      time.Duration
	Administrator Administrator
	QuorumLoss    QuorumLoss
	supposes      kernel.Stream // of losses that are supposed
	tears         kernel.Stream // of views that members are supposed to hold
	cuts          kernel.Stream // of links that are supposed to be broken
	unaccompanied bool          // newcomers come before any witness does, after a lost quorum
}

// New makes a manager of a cluster with its first view; nodes are how many members that has.
func New(w *cluster.Cluster, first view.View, nodes int) *Manager {
	m := &Manager{Cluster: w, Administrator: Administrator{Cluster: w}, spare: nodes}
	policy := w.Draws(kernel.ForManager, 1)
	m.operatorPolicy = policy.Chance(500) || w.Environment.OperatorPolicy
	m.supposes, m.tears, m.cuts = w.Draws(kernel.ForManager, 2), w.Draws(kernel.ForManager, 4), w.Draws(kernel.ForManager, 5)
	m.ForgetAnswers()
	m.Add(first)
	if w.Environment.Partitioned != nil {
		m.spare = 2 * nodes
		m.begun, m.pace = true, w.Environment.Partitioned.Calls
		m.Administrator.homes = slices.Clone(w.Environment.Partitioned.Placement.Homes)
		w.After(0, m.round)
	}
	return m
}

// ForgetAnswers drops what members and witnesses said so far.
func (m *Manager) ForgetAnswers() { m.answers = make([]cluster.Report, len(m.Nodes)) }

// Want has members changed once it is this change's turn.
func (m *Manager) Want(f *faults.Injected) {
	m.wanted = append(m.wanted, f)
	if !m.begun {
		m.begun, m.pace = true, f.Fault
		m.After(0, m.round)
	}
}

// crash takes the manager away for some rounds, with all that it did not record, and sometimes with the record.
func (m *Manager) crash() {
	if m.Settled && m.Environment.Partitioned != nil {
		return
	}
	m.Took("change.crash")
	m.Diagram.Remark("the manager crashes")
	m.ForgetAnswers()
	m.away = m.Now + m.Draw.Between(0, 6*m.pace.For)
	if len(m.Made) > 1 && m.Losses == 0 && m.Environment.Partitioned == nil && m.Draw.Chance(150) {
		m.Took("change.record-lost")
		m.Diagram.Remark("its record is lost")
		m.Losses++
		m.quiet = m.Now + m.pace.Size
		m.LoseRecord()
	}
}

// round is one turn of the manager.
func (m *Manager) round() {
	m.After(max(m.pace.For, time.Millisecond), m.round)
	if m.Now < m.away && (!m.Settled || m.Lost) {
		return
	}
	if !m.Settled && m.Mishap(m.Draw, 50) {
		m.crash()
		return
	}
	if m.Lost {
		m.rebuild()
		return
	}
	if p := m.Environment.Partitioned; p != nil {
		m.alarm(p.FalseAlarms)
	}
	m.callAll()
	m.step()
}

// callAll tells the record to its members, also to those that hold it: one that lost its disk may have lost the view
// with it. Those who left it are told now and then, and where there are masters always.
func (m *Manager) callAll() {
	record := &m.Made[m.Record]
	for _, nd := range m.Nodes {
		switch {
		case !nd.Born || nd.Gone:
		case nd.Witness != nil:
			m.callWith(nd, cluster.None)
		case m.Environment.Partitioned != nil, record.Index(nd.Config.Self) >= 0, m.Settled, m.Draw.Chance(200):
			m.callWith(nd, m.Record)
		case m.Change != nil && nd.Held == cluster.None:
			m.callWith(nd, cluster.None)
		}
	}
}

// callWith calls a node with a view, or with a question if there is none.
func (m *Manager) callWith(nd *cluster.Node, position int) {
	m.call(nd, func() { m.tell(nd, position) })
}

// call sends a call to a node, or its answer back: lost, late or twice, as the fault has it.
func (m *Manager) call(nd *cluster.Node, arrive func()) {
	if m.Settled {
		m.After(0, arrive)
		return
	}
	if m.Draw.Chance(m.pace.Rate) || m.pace.Side&(1<<nd.Index) != 0 || m.cut&(1<<nd.Index) != 0 && m.Now < m.cutUntil {
		return
	}
	m.After(m.Draw.Between(0, m.pace.Size), arrive)
	if m.Draw.Chance(m.pace.Rate / 4) {
		m.After(m.Draw.Between(0, m.pace.Size), arrive)
	}
}

// tell is the arrival of a view at a node, or of a question if there is none; a newer view may have come before.
func (m *Manager) tell(nd *cluster.Node, position int) {
	if nd.Down || nd.Paused {
		return
	}
	if position != cluster.None {
		nd.Learn(position)
	}
	if !nd.Down {
		r := nd.Report()
		m.call(nd, func() { m.hear(nd, r) })
	}
}

// hear is the arrival of a node's answer.
func (m *Manager) hear(nd *cluster.Node, r cluster.Report) {
	if m.Now < m.away && !m.Settled || r.At < m.answers[nd.Index].At {
		return
	}
	m.answers[nd.Index] = r
	if !m.Lost && m.Losses > 0 && r.Held != cluster.None && m.Made[r.Held].Epoch > m.Made[m.Record].Epoch {
		m.Took("change.record-behind") // of a view that did not take hold, and that nobody else had heard of
		m.Diagram.Remark("the record is behind")
		m.LoseRecord()
	}
}
