package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/view"
)

// Decision is what is to be done about a view.
type Decision struct {
	// Next is the view to record, then to tell; its epoch is 0 if there is nothing to change.
	Next    view.View
	Kind    Kind     // what it does with a change of members
	Cause   Cause    // why that is abandoned, or is to be
	Changes []Move   // what it changes where there are partitions
	Waits   []string // what can't be done yet with partitions, and what it waits for
	Wait    Wait     // what a change of members waits for
	// For are the members that it waits for: newcomers without disks, or those not done with their part. Rest are all
	// that are not done with their part in a joint view; a change that is finished leaves them behind.
	For, Rest []view.MemberID
	Err       error // why the change that is wanted can't be made; there is no next view then
	// Rebuild says that members hold a view that the record does not know: it was lost, or an old one came back. What
	// they hold decides (Rebuild), not what the record says.
	Rebuild bool
}

// Changed reports whether there is a view to record.
func (d *Decision) Changed() bool { return d.Next.Epoch > 0 }

// Lines are the changes, for people, a line each.
func (d *Decision) Lines() (lines []string) {
	for _, change := range d.Changes {
		lines = append(lines, change.String())
	}
	return lines
}

// change notes what the next view changes that is of no partition.
func (d *Decision) change(kind Kind, format string, args ...any) {
	d.Changes = append(d.Changes, Move{kind, -1, fmt.Sprintf(format, args...)})
}

// decidePartitions decides on the view that follows the recorded one: another master for one that a quorum of members
// does not hear, the end of a recovery, replacements of lost backups and witnesses, hand-overs. Each partition takes
// one step at most, with a term of its own unless only its recovery ended. The snapshot may be old or wrong in what it
// says of who is alive: terms fence those that live on.
func (s *Snapshot) decidePartitions(d *Decision) {
	next := s.View
	next.Epoch, next.Issued = s.View.Epoch+1, s.View.LastIssued()
	next.Partitions = slices.Clone(s.View.Partitions)
	for i := range s.View.Partitions {
		m := mover{s: s, i: i, p: s.View.Partitions[i], epoch: next.Epoch}
		m.chooser = chooser{view: &s.View, placement: &s.Placement, able: m.able}
		if m.step(); m.moved {
			next.Partitions[i] = m.next
			if m.child != nil {
				next.Founded = s.View.FoundedPartitions()
				next.Partitions = append(next.Partitions, *m.child)
			}
			d.Changes = append(d.Changes, Move{m.kind(), i, m.why})
		} else if m.why != "" {
			d.Waits = append(d.Waits, fmt.Sprintf("partition %d: %s", i, m.why))
		}
	}
	if len(d.Changes) == 0 {
		return
	}
	if err := next.Validate(); err != nil { // not reached: a last line of defence before what can't be taken back
		d.Changes, d.Waits = nil, append(d.Waits, fmt.Sprintf("the next view would be wrong: %v", err))
		return
	}
	d.Next = next
}

// mover decides on one partition.
type mover struct {
	chooser
	s     *Snapshot
	i     int
	p     view.Partition
	epoch uint64

	next  view.Partition
	child *view.Partition // that it is split into beside
	moved bool
	why   string
	given bool // a master that could go on is replaced
}

// kind is the kind of the step that was decided on.
func (m *mover) kind() Kind {
	replaced := func(before, after []view.MemberID) bool {
		return slices.ContainsFunc(before, func(id view.MemberID) bool {
			return !slices.Contains(after, id) && m.s.Suspected(id)
		})
	}
	switch {
	case m.child != nil:
		return PartitionSplit
	case m.given:
		return MasterHandedOver
	case m.next.Master != m.p.Master:
		return MasterReplaced
	case m.next.Term == m.p.Term:
		return MasterRecovered
	case replaced(m.p.Backups, m.next.Backups):
		return BackupReplaced
	case replaced(m.p.Witnesses, m.next.Witnesses):
		return WitnessReplaced
	}
	return PartitionMoved
}

// gone reports whether somebody is to be replaced.
func (m *mover) gone(id view.MemberID) bool {
	return m.s.lost(id) || m.s.part(id, m.i).Lost || m.s.Suspected(id)
}

// cut reports whether a master and another member say that they don't hear each other. A quorum may hear both still,
// but the master can't sync to that one, and an update that has to be synced would wait until the link is mended.
func (m *mover) cut(master, id view.MemberID) bool {
	there, told := m.s.hears(master, id)
	back, also := m.s.hears(id, master)
	return told && also && !there && !back
}

// able is who may get a new role beside a master.
func (m *mover) able(master, id view.MemberID) bool {
	return m.s.Alive(id) && !m.s.drained(id) && !m.cut(master, id)
}

func (m *mover) move(next view.Partition, format string, args ...any) {
	next.Split = m.p.Split
	m.next, m.moved = next, true
	m.why = fmt.Sprintf(format, args...)
}

func (m *mover) wait(format string, args ...any) { m.why = fmt.Sprintf(format, args...) }

func (m *mover) step() {
	switch {
	case m.gone(m.p.Master):
		m.failOver()
	case m.s.part(m.p.Master, m.i).Restarted:
		m.reform(m.p.Master, "its master %d restarted, and has to recover from a witness", m.p.Master)
	case len(m.p.Formers) > 0:
		m.recover()
	case !m.s.Alive(m.p.Master):
		m.wait("too few members say whether they hear its master %d", m.p.Master)
	default:
		m.tend()
	}
}

// failOver has another member take the place of the master.
func (m *mover) failOver() {
	lost := "is not heard by a quorum of members"
	if m.s.lost(m.p.Master) || m.s.part(m.p.Master, m.i).Lost {
		lost = "has lost its disk"
	}
	best, hindrance := m.heir()
	if best == 0 {
		m.wait("its master %d %s, and nobody can take its place: %s", m.p.Master, lost, hindrance)
		return
	}
	m.reform(best, "its master %d %s; member %d takes its place", m.p.Master, lost, best)
}

// heir is the member that can take the place of the master: one that nothing hinders. Rather one that does not leave,
// a backup, and of several the one with the longest log. Zero: none, for what hinders the backups.
func (m *mover) heir() (best view.MemberID, hindrance string) {
	var hindrances []string
	worth := func(id view.MemberID) int {
		return 1 - 2*index(m.s.drained(id)) + index(slices.Contains(m.p.Backups, id))
	}
	for _, member := range m.view.Members {
		id := member.ID
		if id == m.p.Master {
			continue
		}
		if why := m.hindrance(id); why != "" {
			if slices.Contains(m.p.Backups, id) {
				hindrances = append(hindrances, fmt.Sprintf("member %d %s", id, why))
			}
			continue
		}
		longer := cmp.Compare(m.s.part(id, m.i).Length, m.s.part(best, m.i).Length)
		if best == 0 || cmp.Or(worth(id)-worth(best), longer) > 0 {
			best = id
		}
	}
	if len(hindrances) == 0 {
		hindrances = append(hindrances, "it had no backup")
	}
	return best, strings.Join(hindrances, ", ")
}

// hindrance says why a member can't recover what the present term and those before it have answered, to be read after
// its name, or is empty. It has to have had a part in each of these terms, or in a later one that had recovered them,
// unless a term never served; and unless it was the master it needs a witness of each.
func (m *mover) hindrance(id view.MemberID) string {
	if m.gone(id) || !m.s.Alive(id) {
		return "is not heard by a quorum of members"
	}
	own := m.s.part(id, m.i) // nothing, if the manager alone has not heard it
	if own.Copying {
		return "has no whole copy of its state"
	}
	for _, f := range append(slices.Clone(m.p.Formers), m.p.Former()) {
		switch {
		case m.s.misses(id, m.i, f):
			return fmt.Sprintf("had no part in term %d", f.Term)
		case m.s.neverServed(m.i, f), f.Term < own.WholeTerm:
		case f.Master == id && len(f.Backups) > 0: // it remembers what it answered for
		case len(f.Witnesses) > 0 && !slices.ContainsFunc(f.Witnesses, m.s.Alive):
			return fmt.Sprintf("hears none of the witnesses %v of term %d", f.Witnesses, f.Term)
		}
	}
	return ""
}

// yield has another member take the place of a master that is heard, but cut off from so many that it can't have its
// backups, if that one hears more members.
func (m *mover) yield() {
	if m.linked(m.p.Master) >= m.least() {
		return
	}
	if best, _ := m.heir(); best != 0 && m.linked(best) > m.linked(m.p.Master) {
		m.reform(best, "its master %d is cut off from its backups %v; member %d, which hears more members, takes its "+
			"place",
			m.p.Master, m.p.Backups, best)
	}
}

// linked is how many other members could be backups of a master.
func (m *mover) linked(master view.MemberID) (count int) {
	for _, member := range m.view.Members {
		if member.ID != master && !m.gone(member.ID) && m.s.Alive(member.ID) && !m.cut(master, member.ID) {
			count++
		}
	}
	return count
}

// least is how many backups the next term has to have: what is answered in it is to survive as many losses as before,
// and once there are members enough as many as is asked for.
func (m *mover) least() int { return min(len(m.p.Backups), m.s.Placement.Faults) }

// backups are those of a master that is to be: as many as is asked for, if there are members enough. Those that
// follow are taken rather than those that need a copy of the state, then those away from the master and from each
// other, then those that are backups now, and those where distances say; the latter first if the master is another one.
// Any other than these has to pass.
func (m *mover) backups(master view.MemberID, passes func(id view.MemberID) bool) []view.MemberID {
	var candidates []view.MemberID
	n, at := m.view.Size(), m.view.Index(master)
	for i := range n {
		id := m.view.Members[(at+i)%n].ID
		if id == master || m.gone(id) || m.cut(master, id) {
			continue
		}
		if slices.Contains(m.p.Backups, id) || m.able(master, id) && passes(id) {
			candidates = append(candidates, id)
		}
	}
	picked := m.pick(candidates, m.s.Placement.Faults, func(id view.MemberID, picked []view.MemberID) int {
		cost := 4*m.clashes(id, master, picked) + 1<<20*index(m.s.drained(id))
		if own, told := m.s.said(id, m.i); own.Copying || !told && !slices.Contains(m.p.Backups, id) {
			cost += 1 << 16
		}
		comes, far := index(!slices.Contains(m.p.Backups, id)), m.far(id, master, false)
		if master != m.p.Master {
			return cost + comes + 2*far
		}
		return cost + 2*comes + far
	})
	// In the order of the present ones, so that those who stay don't seem to change.
	stay := slices.DeleteFunc(slices.Clone(m.p.Backups), func(id view.MemberID) bool {
		return !slices.Contains(picked, id)
	})
	come := slices.DeleteFunc(picked, func(id view.MemberID) bool { return slices.Contains(stay, id) })
	return append(stay, come...)
}

func anyMember(view.MemberID) bool { return true }

// index is 1 for what is so, to be counted in a cost.
func index(is bool) int {
	if is {
		return 1
	}
	return 0
}

// reform makes the configuration in which a master recovers from the present one and those before it.
func (m *mover) reform(master view.MemberID, format string, args ...any) {
	next := view.Partition{Term: m.epoch, Master: master, Formers: m.s.needed(m.i)}
	next.Backups = m.backups(master, anyMember)
	if len(next.Backups) < m.least() {
		m.wait("%s once it can have %d backups: of the members that it hears, %v can be", fmt.Sprintf(format, args...),
			m.least(), next.Backups)
		return
	}
	m.move(m.saved(next, m.p.Witnesses), format, args...)
}

// recover ends a recovery that is done, or has it begin again: with another master if this one can't recover, or
// without a backup that was lost meanwhile, or needs a copy of the state where another member does not. It needs all.
func (m *mover) recover() {
	if m.s.part(m.p.Master, m.i).Recovered {
		next := m.p
		next.Formers = nil
		m.move(next, "its master %d has recovered term %d", next.Master, next.Term)
		return
	}
	if m.yield(); m.moved {
		return
	}
	if why := m.stuck(); why != "" {
		if best, _ := m.heir(); best != 0 {
			m.reform(best, "its master %d can't recover it: it %s; member %d takes its place", m.p.Master, why, best)
			return
		}
		m.wait("member %d recovers it, and %s", m.p.Master, why)
		return
	}
	if better := m.backups(m.p.Master, anyMember); len(better) >= m.least() && m.slow(m.p.Master,
		better) < m.slow(m.p.Master, m.p.Backups) {
		m.reform(m.p.Master, "its backups %v become %v while member %d recovers it: one was lost, is cut off, or has "+
			"to copy its state",
			m.p.Backups, better, m.p.Master)
		return
	}
	m.wait("member %d recovers it", m.p.Master)
}

// stuck says why the master of this term can't recover the former ones, or is empty. That the present term has not
// served is no reason.
func (m *mover) stuck() string {
	former := *m
	former.p.Formers = slices.Clone(m.p.Formers)
	if _, told := m.s.said(m.p.Master, m.i); !told {
		return ""
	}
	last := len(former.p.Formers) - 1
	f := former.p.Formers[last]
	former.p.Formers = former.p.Formers[:last]
	former.p.Term, former.p.Master, former.p.Backups, former.p.Witnesses = f.Term, f.Master, f.Backups, f.Witnesses
	return former.hindrance(m.p.Master)
}

// slow counts backups that a master has to wait for.
func (m *mover) slow(master view.MemberID, backups []view.MemberID) (count int) {
	for _, id := range backups {
		own, told := m.s.said(id, m.i)
		switch {
		case m.gone(id) || m.cut(master, id):
			count += 2
		case told && own.Copying:
			count++
		}
	}
	return count
}

// tend sees to a partition that serves: backups and witnesses are replaced if they are lost, and then the master is
// changed if another one is wanted. The master goes on in its new term, once it has synced all that it had.
func (m *mover) tend() {
	if m.yield(); m.moved {
		return
	}
	target := m.target()
	next := view.Partition{Term: m.epoch, Master: m.p.Master, Formers: []view.Former{m.p.Former()}}
	next.Backups = m.backups(m.p.Master, func(id view.MemberID) bool {
		return slices.Contains(m.s.part(m.p.Master, m.i).CaughtUp, id)
	})
	ready := slices.Contains(m.p.Backups, target) || slices.Contains(m.s.part(m.p.Master, m.i).CaughtUp, target)
	if target != 0 && ready && !slices.Contains(next.Backups, target) {
		if len(next.Backups) >= max(1, m.s.Placement.Faults) {
			next.Backups = next.Backups[:len(next.Backups)-1]
		}
		next.Backups = append(next.Backups, target)
	}
	if len(next.Backups) < m.least() {
		m.wait("its backups %v are not all heard, or are cut off from its master %d, and nobody else has its whole "+
			"state: wait for them, or for a learner to copy it",
			m.p.Backups, m.p.Master)
		return
	}
	// Else it hands over or is split next: what completes until then is to be held by all backups.
	if !slices.Contains(next.Backups, target) && !m.splits(next, target) {
		next.Witnesses = all(m.keepWitnesses(next, m.placement.witnesses(len(next.Backups))), next)
	}
	switch faults := m.s.Placement.Faults; {
	case !slices.Equal(next.Backups, m.p.Backups):
		m.move(next, "its backups %v become %v", m.p.Backups, next.Backups)
	case !slices.Equal(next.Witnesses, m.p.Witnesses):
		m.move(next, "its witnesses %v become %v", m.p.Witnesses, next.Witnesses)
	case slices.Contains(m.p.Backups, target):
		m.handOver(target)
	case m.splits(next, target):
		m.split(next)
	case target != 0:
		m.wait("member %d, which is to be its master, is fetching its state", target)
	case len(m.p.Backups) < faults || len(m.p.Witnesses) < faults:
		m.wait("it has %d backups and %d witnesses and should have %d of each: nobody is left who could be one, or "+
			"has its whole state yet",
			len(m.p.Backups), len(m.p.Witnesses), faults)
	}
}

// keepWitnesses are the witnesses that a partition has, without those that are lost; those beside members that leave go
// once others can take their place.
func (m *mover) keepWitnesses(next view.Partition, wanted int) []view.MemberID {
	kept := slices.DeleteFunc(slices.Clone(m.p.Witnesses), m.gone)
	if len(kept) == wanted && !slices.ContainsFunc(kept, m.s.drained) {
		return m.spread(next, kept)
	}
	next.Witnesses = kept // whom to prefer
	if picked := m.witnesses(next, wanted); len(picked) >= min(wanted, len(kept)) {
		return picked
	}
	return kept[:min(wanted, len(kept))]
}

// target is the member that is to be master in place of the present one: at the home site, or anywhere if the present
// one is drained. Zero: none.
func (m *mover) target() view.MemberID {
	home := m.placement.Home(m.view, m.i)
	leaves := m.s.drained(m.p.Master)
	at := m.view.Members[m.view.Index(m.p.Master)].Site
	if at == home && !leaves {
		return 0
	}
	var best view.MemberID
	worth := func(id view.MemberID) (w int) {
		if id == 0 {
			return -1
		}
		if m.view.Members[m.view.Index(id)].Site == home {
			w += 4
		}
		if slices.Contains(m.p.Backups, id) {
			w += 2
		}
		return w
	}
	for _, member := range m.view.Members {
		id := member.ID
		if id == m.p.Master || !m.able(m.p.Master, id) || !leaves && (member.Joining || member.Site != home) {
			continue // who joins takes a part from those who leave only, since the change may be abandoned
		}
		if worth(id) > worth(best) {
			best = id
		}
	}
	if slices.Contains(m.p.Backups, best) { // it is to serve at once
		if after := m.backups(best, anyMember); len(after) < m.least() || m.slow(best, after) > 0 {
			return 0
		}
	}
	return best
}

// handOver makes a backup the master. The term has no witnesses, so all that completes until the master hears of it is
// held by all backups: the new one replays nothing, and one loss at this time is no more than at any other.
func (m *mover) handOver(target view.MemberID) {
	m.reform(target, "its master %d hands over to member %d", m.p.Master, target)
	m.given = m.moved
}
