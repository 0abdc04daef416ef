package simulator

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/view"
	decide "github.com/georegister/georegister/replica/view/manager"
)

// manager replaces members that are given up, one at a time, as the operator of a cluster does: it records the
// next view, gives it to all members of it that it reaches, again and again, and starts the newcomer once a
// majority of both views holds the next one. It may crash at any point, and goes on from its record.
type manager struct {
	world *world
	draw  stream
	wrong managerMistakes

	// What survives a crash of it.
	record, former view.View

	// What does not.
	holds map[view.MemberID]string // digests of the views that members said they hold; never ranged over
	away  time.Duration            // until when it is down

	// The replacement in progress.
	given    *node  // who is given up
	newcomer *node  // nil: none is in progress
	hasty    bool   // it starts the newcomer too early: no rule of the protocol rests on when it does
	rounds   uint64 // the number of the last replacement; rounds of earlier ones are void
	pace     *fault // how often and how badly it calls

	views []view.View // that were ever made: calls name them by position
}

// managerMistakes put known bugs back, for tests that show that the simulator finds them.
type managerMistakes struct {
	anyEpoch bool // messages of one view are delivered in another
	sameID   bool // the newcomer takes the ID of the member that it replaces, and votes with its empty disk
	early    bool // it starts the newcomer as soon as anyone may hold the view
	sameBoot bool // a member that is given a view starts its protocols under the boot that they had
	forgets  bool // it gives a view to members before it is recorded, and makes another one of that epoch
}

// managerPaths are what happens in a replacement.
func managerPaths() []string {
	return []string{
		"replace.begin", "replace.alive", "replace.crash", "replace.view", "replace.early",
		"replace.other-epoch", "replace.behind", "replaced", "replaced.meanwhile",
	}
}

func newManager(w *world, first view.View) *manager {
	return &manager{
		world: w, draw: newStream(w.seed, forManager, 0), wrong: w.env.wrong, record: first, former: first,
		holds: map[view.MemberID]string{},
	}
}

// replacements is how many members the faults may replace.
func replacements(faults []Fault) int {
	count := 0
	for _, f := range faults {
		if f.Kind == Replace {
			count++
		}
	}
	return count
}

// replace gives a member up, once no other replacement is in progress and enough members are left.
func (f *fault) replace(w *world, nd *node) {
	if w.manager.newcomer != nil || !w.tolerates(nd) {
		if f.waited < 100 {
			f.waited++
			w.schedule(f.For, event{kind: faultBegin, aux: uint64(slices.Index(w.faults, f))})
		}
		return
	}
	f.hit = w.working(nd)
	w.manager.replace(nd, f)
}

func (m *manager) replace(nd *node, f *fault) {
	w := m.world
	w.took("replace.begin")
	m.given, m.pace = nd, f
	nd.lost, nd.replaced = true, true
	if m.hasty = m.draw.chance(250) || m.wrong.early; m.hasty {
		w.took("replace.early")
	}
	if f.Alive && !m.wrong.sameID {
		w.took("replace.alive")
		w.trace.note(nd, "is given up, and goes on")
	} else {
		nd.giveUp()
	}
	next := m.successor(nd)
	w.trace.remark("view of epoch %d: member %d in the place of %d", next.Epoch, m.newcomer.index+1, nd.index+1)
	m.views = append(m.views, next)
	m.rounds++
	if m.wrong.forgets && f.Alive {
		m.callAll(next.Members)
		m.newcomer, nd.lost, nd.replaced = nil, false, false
		return
	}
	m.former, m.record = m.record, next
	if m.draw.chance(300) {
		m.crash()
	}
	w.schedule(0, event{kind: manage, aux: m.rounds})
}

// successor is the view with a new member, whose node it prepares. Positions in the view mean nothing: the new
// member is in the old one's or at the end.
func (m *manager) successor(nd *node) view.View {
	w := m.world
	if m.wrong.sameID {
		m.newcomer = nd
		next := m.record
		next.Epoch++
		return next
	}
	site := w.env.network.Sites[nd.site]
	next, err := decide.Replace(m.record, nd.config.Self, site, func(view.MemberID) string { return site })
	if err != nil {
		w.fail("replace member %d: %w", nd.index+1, err)
		return m.record
	}
	m.newcomer = w.nodes[next.Issued-1]
	w.place(m.newcomer, nd.site)
	if m.draw.chance(500) {
		at := next.Index(next.Issued)
		newcomer := next.Members[at]
		next.Members = append(slices.Delete(next.Members, at, at+1), newcomer)
	}
	return next
}

// place puts a node at a site.
func (w *world) place(nd *node, site int) {
	nd.site = site
	n := len(w.nodes)
	for i, other := range w.nodes {
		w.links[nd.index*n+i].oneWay = w.env.network.RTT[site][other.site] / 2
		w.links[i*n+nd.index].oneWay = w.env.network.RTT[other.site][site] / 2
	}
}

// giveUp ends the process of a member that is replaced, for ever.
func (nd *node) giveUp() {
	if !nd.down {
		nd.crash(0, 500)
	}
	nd.gone = true
}

// crash takes the manager away for some rounds, and all that it did not record.
func (m *manager) crash() {
	m.world.took("replace.crash")
	m.world.trace.remark("the manager crashes")
	m.holds = map[view.MemberID]string{}
	m.away = m.world.now + m.draw.between(0, 6*m.pace.For)
}

// round calls every member of the recorded view that is there, also those that hold it: one that lost its disk
// may have lost the view with it.
func (m *manager) round(number uint64) {
	w := m.world
	if number != m.rounds {
		return
	}
	w.schedule(max(m.pace.For, time.Millisecond), event{kind: manage, aux: number})
	if !w.settled {
		if w.now < m.away {
			return
		}
		if m.draw.chance(50) {
			m.crash()
			return
		}
	}
	m.callAll(m.record.Members)
	if nd := m.newcomer; nd != nil && (!nd.born || nd.gone) && (m.hasty || decide.Committed(m.former, m.record, m.holds)) {
		m.start(nd)
	}
}

func (m *manager) callAll(members []view.Member) {
	for _, member := range members {
		if nd := m.world.nodes[member.ID-1]; nd.born && !nd.replaced {
			m.call(configure, nd, len(m.views)-1)
		}
	}
}

// call sends a call to a node, or its answer back: lost or late as the fault has it.
func (m *manager) call(kind eventKind, nd *node, about int) {
	late := time.Duration(0)
	if !m.world.settled {
		if m.draw.chance(m.pace.Rate) {
			return
		}
		late = m.draw.between(0, m.pace.Size)
	}
	m.world.schedule(late, event{kind: kind, a: int16(nd.index), aux: uint64(about)})
}

// tell is the arrival of a view at a node, late perhaps: a newer one may have come before.
func (m *manager) tell(nd *node, about int) {
	if nd.down || nd.paused || nd.replaced {
		return
	}
	nd.configure(m.views[about])
	m.call(configured, nd, int(nd.config.View.Epoch))
}

func (m *manager) hear(nd *node, epoch int) {
	if uint64(epoch) == m.record.Epoch && (m.world.settled || m.world.now >= m.away) {
		m.holds[nd.config.Self] = m.record.Digest()
	}
}

// start starts the newcomer, on an empty disk.
func (m *manager) start(nd *node) {
	w := m.world
	if slices.ContainsFunc(m.record.Members, func(other view.Member) bool {
		return other.ID != nd.config.Self && w.nodes[other.ID-1].config.View.Epoch < m.record.Epoch
	}) {
		w.took("replace.behind") // it joins while some others are in the former view yet
	}
	m.given.lost = false
	if m.wrong.sameID {
		nd.wipe()
		nd.gone, nd.replaced = false, false
	}
	nd.first = view.View{}
	nd.enter(m.record)
	nd.born, nd.lost, nd.later = true, true, !m.wrong.sameID
	w.present[nd.site] = nd
	nd.boot()
}

// voted ends a replacement when the newcomer votes.
func (m *manager) voted(nd *node) {
	if nd != m.newcomer {
		return
	}
	m.world.took("replaced")
	if !m.world.settled {
		m.world.took("replaced.meanwhile")
	}
	m.newcomer = nil
	m.world.serving[nd.site] = nd
}

// forgotten is called when a node lost its disk. It starts again in the view that its boot file has: the recorded
// one, or the one that it was made with.
func (m *manager) forgotten(nd *node) {
	if len(m.views) > 0 && nd.first.Epoch > 0 {
		v := nd.first
		if !nd.replaced && m.draw.chance(500) {
			v = m.record
		}
		nd.enter(v)
	}
}
