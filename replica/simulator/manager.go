package simulator

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/replica/view"
)

// manager changes the members, one change at a time, as the operator of a cluster does: it starts newcomers, records
// the joint view once they have named their disks, tells it to the members again and again, hears how far they are, and
// records the view after the change, or the one before it again. It may crash at any point, and goes on from its
// record; if that is lost it is rebuilt from what members say.
type manager struct {
	world *world
	draw  kernel.Stream
	wrong schedule.ManagerMistakes
	views []made // all that were ever made: calls and nodes name them by position

	// What survives a crash of it.
	record, former int     // former: the last view that had taken hold when the record was written
	change         *change // in progress, or nil
	wanted         []*fault
	operatorPolicy bool // changes are judged as the operator does (judge)
	spare          int  // the first node that was never started
	losses         int  // how often the record was lost

	// What does not.
	answers map[view.MemberID]membership.MemberReport // of members; never ranged over
	disks   map[view.MemberID]string                  // of newcomers, as they named them; never ranged over
	away    time.Duration                             // until when it is down
	lost    bool                                      // there is no record
	reports map[view.MemberID]report                  // since it was lost; never ranged over
	known   uint64                                    // the epoch that had taken hold then
	quiet   time.Duration                             // from when on no call of before the loss is on its way any more

	begun bool   // its rounds
	pace  *fault // how often and how badly it calls

	// Of a world with masters.
	told      []partedReport // the latest answers, by node; lost with a crash
	forget    *fault         // the record is lost with the next view
	waits     []string       // what it can't decide yet
	cut       uint64         // a bit per node that it does not reach until cutUntil
	cutUntil  time.Duration
	homes     []string // of masters, as an administrator wants them: they survive everything
	ruined    bool     // a quorum was lost for good
	rescued   bool     // and given up since
	rescuedAt time.Duration
	splits    int          // that were asked for: they survive everything
	spoilt    map[int]bool // partitions that something was lost of; never ranged over
	whole     view.View    // that was given up with them
	slandered int          // the node that nobody says to hear in this round, or none
}

// made is a view that was made.
type made struct {
	view.View
	digest string
	held   bool // it took hold: a quorum of it held it at some time
	losses int  // of the record, before it was made
}

// report is what a node answers to the manager.
type report struct {
	held   int
	answer membership.MemberReport
	disk   string
	voter  bool
	at     time.Duration
	parted partedReport
}

// managerPaths are what happens in changes of the view.
func managerPaths() []string {
	paths := []string{
		"change.dead", "change.alive", "change.crash", "change.record-lost", "change.rebuilt", "change.rebuilt-joint",
		"change.view", "change.crash-in-switch", "change.resumed", "change.removed", "change.learned", "change.other-epoch",
		"change.hurried", "change.abandoned", "change.abandoned.meanwhile",
	}
	for _, kind := range changeKinds() {
		paths = append(paths, "change."+kind, "change."+kind+".meanwhile")
	}
	return paths
}

func newManager(w *world, first view.View, nodes int) *manager {
	m := &manager{world: w, draw: w.Draws(kernel.ForManager, 0), wrong: w.env.Mistakes, spare: nodes}
	policy := w.Draws(kernel.ForManager, 1)
	m.operatorPolicy = policy.Chance(500) || w.env.OperatorPolicy
	m.slandered = none
	m.forgetAnswers()
	m.add(first)
	if w.env.Partitioned != nil {
		m.spare = 2 * nodes
		m.begun, m.pace = true, &fault{Fault: w.env.Partitioned.Calls}
		m.homes = slices.Clone(w.env.Partitioned.Placement.Homes)
		w.After(0, m.round)
	}
	return m
}

func (m *manager) forgetAnswers() {
	m.told = make([]partedReport, len(m.world.nodes))
	m.answers, m.disks = map[view.MemberID]membership.MemberReport{}, map[view.MemberID]string{}
}

// add notes a view that was made, and returns its position. Of an epoch there is one, unless the record was lost
// before anybody heard enough of the first.
func (m *manager) add(v view.View) int {
	digest := v.Digest()
	for i := range m.views {
		switch other := &m.views[i]; {
		case other.digest == digest:
			return i
		case m.world.env.Partitioned != nil && m.world.env.Partitioned.Mistakes.TellsFirst:
		case other.Epoch == v.Epoch && other.losses == m.losses && m.wrong == schedule.ManagerMistakes{}:
			m.world.Fail("two views of epoch %d were recorded", v.Epoch)
		}
	}
	m.views = append(m.views, made{View: v, digest: digest, losses: m.losses})
	return len(m.views) - 1
}

// noteHeld sees whether a view took hold, now that one more node holds it.
func (m *manager) noteHeld(position int) {
	if position == none || m.views[position].held {
		return
	}
	v := &m.views[position]
	v.held = v.Quorum(func(id view.MemberID) bool { // a disk that went back may have held another one
		nd := m.world.nodes[id-1]
		return nd.held == position && !nd.lost
	})
	for i := range m.views {
		if m.world.env.Partitioned != nil && m.world.env.Partitioned.Mistakes.TellsFirst {
			return
		}
		if other := &m.views[i]; v.held && i != position && other.held && other.Epoch == v.Epoch && m.wrong == (schedule.ManagerMistakes{}) {
			m.world.Fail("two views of epoch %d took hold", v.Epoch)
		}
	}
}

// want has members changed once it is this change's turn.
func (m *manager) want(f *fault) {
	m.wanted = append(m.wanted, f)
	if !m.begun {
		m.begun, m.pace = true, f
		m.world.After(0, m.round)
	}
}

// crash takes the manager away for some rounds, with all that it did not record, and sometimes with the record.
func (m *manager) crash() {
	w := m.world
	if w.Settled && w.env.Partitioned != nil {
		return
	}
	w.Took("change.crash")
	w.trace.Remark("the manager crashes")
	m.forgetAnswers()
	m.recall()
	m.away = w.Now + m.draw.Between(0, 6*m.pace.For)
	if len(m.views) > 1 && m.losses == 0 && w.env.Partitioned == nil && m.draw.Chance(150) {
		w.Took("change.record-lost")
		w.trace.Remark("its record is lost")
		m.losses++
		m.quiet = w.Now + m.pace.Size
		m.loseRecord()
	}
}

// loseRecord has the record be rebuilt.
func (m *manager) loseRecord() {
	m.lost, m.reports, m.known = true, map[view.MemberID]report{}, 0
	m.quiet = max(m.quiet, m.world.Now) // what was said before is too old
	for i := range m.views {
		if m.views[i].held {
			m.known = max(m.known, m.views[i].Epoch)
		}
	}
}

// round is one turn of the manager.
func (m *manager) round() {
	w := m.world
	w.After(max(m.pace.For, time.Millisecond), m.round)
	if w.Now < m.away && (!w.Settled || m.lost) {
		return
	}
	if !w.Settled && m.draw.Chance(50) {
		m.crash()
		return
	}
	if m.lost {
		m.rebuild()
		return
	}
	if w.env.Partitioned != nil {
		m.govern()
		return
	}
	m.callAll()
	m.step()
}

// callAll tells the record to its members, also to those that hold it: one that lost its disk may have lost the view
// with it. Those who left it are told now and then.
func (m *manager) callAll() {
	record := &m.views[m.record]
	for _, nd := range m.world.nodes {
		switch {
		case !nd.born || nd.gone:
		case record.Index(nd.config.Self) >= 0, m.world.Settled, m.draw.Chance(200):
			m.callWith(nd, m.record)
		case m.change != nil && nd.held == none:
			m.callWith(nd, none)
		}
	}
}

// callWith calls a node with a view, or with a question if there is none.
func (m *manager) callWith(nd *node, position int) { m.call(nd, func() { m.tell(nd, position) }) }

// call sends a call to a node, or its answer back: lost, late or twice, as the fault has it.
func (m *manager) call(nd *node, arrive func()) {
	if m.world.Settled {
		m.world.After(0, arrive)
		return
	}
	if m.draw.Chance(m.pace.Rate) || m.pace.Side&(1<<nd.index) != 0 || m.cut&(1<<nd.index) != 0 && m.world.Now < m.cutUntil {
		return
	}
	m.world.After(m.draw.Between(0, m.pace.Size), arrive)
	if m.draw.Chance(m.pace.Rate / 4) {
		m.world.After(m.draw.Between(0, m.pace.Size), arrive)
	}
}

// tell is the arrival of a view at a node, or of a question if there is none; a newer view may have come before.
func (m *manager) tell(nd *node, position int) {
	if nd.down || nd.paused {
		return
	}
	if position != none {
		nd.learn(position)
	}
	if !nd.down {
		r := report{held: nd.held, answer: nd.answer(), disk: nd.disk(), voter: nd.voter(), at: m.world.Now, parted: nd.report()}
		m.call(nd, func() { m.hear(nd, r) })
	}
}

// hear is the arrival of a node's answer.
func (m *manager) hear(nd *node, r report) {
	if m.world.Now < m.away && !m.world.Settled {
		return
	}
	if m.world.env.Partitioned != nil {
		if told := &m.told[nd.index]; r.at >= told.at {
			*told = r.parted
		}
		if nd.witness != nil {
			return
		}
	}
	m.answers[nd.config.Self], m.disks[nd.config.Self] = r.answer, r.disk
	if !m.lost && m.losses > 0 && r.held != none && m.views[r.held].Epoch > m.views[m.record].Epoch {
		m.world.Took("change.record-behind") // of a view that did not take hold, and that nobody else had heard of
		m.world.trace.Remark("the record is behind")
		m.loseRecord()
	}
	if m.lost && r.at >= m.quiet { // it may have been given a later view since, by a call of before the loss
		m.reports[nd.config.Self] = r
	}
}

// write makes a view the record.
func (m *manager) write(v view.View) {
	if m.views[m.record].held {
		m.former = m.record
	}
	m.record = m.add(v)
	m.world.trace.Remark("the record is the view of epoch %d: %s", v.Epoch, diagram.MembersText(v)+diagram.KeepersText(v))
	if m.forget != nil && m.losses == 0 && !m.world.Settled {
		m.forgetAfter(m.forget, m.record)
		return
	}
	often := 300
	if m.world.env.Partitioned != nil {
		often = 100 // views are many
	}
	if m.draw.Chance(often) {
		m.crash() // before anybody is told
	}
}

// rebuild finds the record again. Voters are believed, and newcomers on the disk that the view names and that was told
// nothing yet: another empty disk may stand in for one that held a later view.
func (m *manager) rebuild() {
	w := m.world
	highest := none
	for _, nd := range w.nodes {
		if nd.born && !nd.gone {
			m.callWith(nd, none)
		}
		if r, ok := m.reports[nd.config.Self]; ok && r.held != none && (highest == none || m.views[r.held].Epoch > m.views[highest].Epoch) {
			highest = r.held
		}
	}
	if highest == none {
		return
	}
	v := &m.views[highest]
	// Whoever holds it is a witness, also one that is not in it.
	reports := []membership.Report{{View: v.View}}
	for _, nd := range w.nodes { // of another view of this epoch, which may have taken hold
		if r, ok := m.reports[nd.config.Self]; ok && r.voter && v.Index(nd.config.Self) < 0 && r.held != none {
			reports = append(reports, membership.Report{Member: nd.config.Self, View: m.views[r.held].View})
		}
	}
	for _, member := range v.Members {
		r, ok := m.reports[member.ID]
		switch {
		case !ok && v.Joint() && !w.nodes[member.ID-1].gone:
			return // it may hold the view after the change, or the one before it again: only all of them know that nobody does
		case !ok:
		case r.voter:
			reports = append(reports, membership.Report{Member: member.ID, View: m.views[r.held].View})
		case r.held == none && r.disk == member.Disk:
			reports = append(reports, membership.Report{Member: member.ID, View: v.View})
		}
	}
	found, known, err := membership.Rebuild(reports)
	if err != nil && m.wrong == (schedule.ManagerMistakes{}) && w.env.Partitioned == nil {
		w.Fail("rebuild the record: %w", err)
	}
	if err != nil && w.Settled && w.env.Partitioned != nil {
		m.intervene(highest)
	}
	if err != nil || !known || found.Epoch != v.Epoch {
		return
	}
	if found.Epoch < m.known {
		w.Fail("the record was rebuilt with the view of epoch %d, and that of epoch %d had taken hold", found.Epoch, m.known)
	}
	w.Took("change.rebuilt")
	if found.Joint() {
		w.Took("change.rebuilt-joint")
	}
	w.trace.Remark("the record is rebuilt: the view of epoch %d", found.Epoch)
	m.lost, m.record = false, m.add(found)
	if c := m.change; c != nil {
		c.resume(found)
	}
}

// hopeless reports whether more is lost than any decision can make good: what is left can only wait for a person.
func (m *manager) hopeless() bool {
	if m.world.env.Partitioned != nil {
		return m.partitionLost()
	}
	return m.unknowable()
}

// unknowable reports whether the record is lost for good: so many members of the newest view that anybody holds have
// lost their disks, on one side of a change at least, that they may have been the quorum of a later one. It comes of
// losses that were bearable in the view that was recorded, such as of newcomers whose change was given up, when that
// record is lost before anybody who is left was told of it. Those who are left can't tell this from a change that was
// finished with those who are lost, so to go on as before it could forget what these acknowledged.
func (m *manager) unknowable() bool {
	newest := none
	for _, nd := range m.world.nodes {
		if nd.born && !nd.gone && nd.held != none && (newest == none || m.views[nd.held].Epoch > m.views[newest].Epoch) {
			newest = nd.held
		}
	}
	return m.lost && newest != none && !m.views[newest].Quorum(func(id view.MemberID) bool { return !m.world.nodes[id-1].lost })
}

// missing says what is not in order though the faults are over, or nothing.
func (m *manager) missing() string {
	if !m.begun {
		return ""
	}
	if m.world.env.Partitioned != nil {
		return m.missingParts()
	}
	record := &m.views[m.record]
	if m.lost || m.change != nil || record.Joint() {
		return "a change of members is still in progress"
	}
	for _, member := range record.Members {
		nd := m.world.nodes[member.ID-1]
		switch {
		case nd.gone:
		case nd.held != m.record:
			return nd.name() + " does not hold the last view"
		case !nd.voter():
			return nd.name() + " does not vote"
		}
	}
	return ""
}
