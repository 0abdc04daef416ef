package manager

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Decision is what is to be done about partitions.
type Decision struct {
	// Next is the view to record, then to tell; its epoch is 0 if there is nothing to change.
	Next    view.View
	Changes []string // why, for people: a line for each partition that changes
	Waits   []string // what can't be done yet, and what it waits for
	// Rebuild says that members hold a view that the record does not know: it was lost, or an old one came back. What they hold
	// decides (Rebuild), not what the record says.
	Rebuild bool
}

// Changed reports whether there is a view to record.
func (d *Decision) Changed() bool { return d.Next.Epoch > 0 }

// Partitions decides on the view that follows the recorded one: another master for one that a quorum of members does not
// hear, the end of a recovery, replacements of lost backups and witnesses, hand-overs. Each partition takes one step at most, with a
// term of its own unless only its recovery ended. The snapshot may be old or wrong in what it says of who is alive:
// terms fence those that live on.
func Partitions(s Snapshot) (d Decision) {
	if len(s.View.Partitions) == 0 {
		return d
	}
	if d, unsettled := s.unsettled(); unsettled {
		return d
	}
	if id := s.torn(); id != 0 {
		d.Next = s.View
		d.Next.Epoch++
		d.Next.Issued = s.View.LastIssued()
		d.Changes = append(d.Changes, fmt.Sprintf("member %d holds another view of epoch %d, from before the record was lost; the next one is for all", id, s.View.Epoch))
		return d
	}
	next := s.View
	next.Epoch++
	next.Issued = s.View.LastIssued()
	next.Partitions = slices.Clone(s.View.Partitions)
	for i := range s.View.Partitions {
		m := mover{s: &s, i: i, p: s.View.Partitions[i], epoch: next.Epoch}
		m.chooser = chooser{view: &s.View, placement: &s.Placement, able: m.able}
		if m.step(); m.moved {
			next.Partitions[i] = m.next
			if m.child != nil {
				next.Founded = s.View.FoundedPartitions()
				next.Partitions = append(next.Partitions, *m.child)
			}
			d.Changes = append(d.Changes, fmt.Sprintf("partition %d: %s", i, m.why))
		} else if m.why != "" {
			d.Waits = append(d.Waits, fmt.Sprintf("partition %d: %s", i, m.why))
		}
	}
	if len(d.Changes) == 0 {
		return d
	}
	if err := next.Validate(); err != nil { // not reached: a last line of defence before what can't be taken back
		return Decision{Waits: append(d.Waits, fmt.Sprintf("the next view would be wrong: %v", err))}
	}
	d.Next = next
	return d
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
}

// gone reports whether somebody is to be replaced.
func (m *mover) gone(id view.MemberID) bool {
	return m.s.lost(id) || m.s.part(id, m.i).Lost || m.s.Suspected(id)
}

// cut reports whether a master and another member say that they don't hear each other. A quorum may hear both still, but the
// master can't sync to that one, and an update that has to be synced would wait until the link is mended.
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
		m.reform(m.p.Master, m.p.Backups, "its master %d restarted, and has to recover from a witness", m.p.Master)
	case len(m.p.Formers) > 0:
		m.recover()
	case !m.s.Alive(m.p.Master):
		m.wait("too few members say whether they hear its master %d", m.p.Master)
	default:
		m.tend()
	}
}

// failOver has a backup take the place of the master.
func (m *mover) failOver() {
	best := m.heir()
	lost := "is not heard by a quorum of members"
	if m.s.lost(m.p.Master) || m.s.part(m.p.Master, m.i).Lost {
		lost = "has lost its disk"
	}
	if best == 0 {
		m.wait("its master %d %s, and none of its backups %v, of those that have been one since term %d, is heard: wait for one of them, or for the master",
			m.p.Master, lost, m.p.Backups, m.oldest())
		return
	}
	m.reform(best, m.p.Backups, "its master %d %s; member %d takes its place", m.p.Master, lost, best)
}

// heir is the backup that can take the place of the master: one that was a backup, or the master, in all terms that are not
// recovered, since it has all that was synced in them. Of several, the one with the longest log. Zero: none.
func (m *mover) heir() (best view.MemberID) {
	for _, id := range m.p.Backups {
		if m.gone(id) || !m.s.Alive(id) || !m.knewAll(id) {
			continue
		}
		if best == 0 || cmp.Or(leaving(m.s, id)-leaving(m.s, best), cmp.Compare(m.s.part(best, m.i).Length, m.s.part(id, m.i).Length)) < 0 {
			best = id
		}
	}
	return best
}

// yield has a backup take the place of a master that is heard, but cut off from all of its backups, if the backup hears more
// members: the master would have to go on alone, and links that break one after the other would leave nobody else to recover from.
func (m *mover) yield() {
	if slices.ContainsFunc(m.p.Backups, func(id view.MemberID) bool { return !m.gone(id) && !m.cut(m.p.Master, id) }) {
		return
	}
	if best := m.heir(); best != 0 && m.reach(best) > m.reach(m.p.Master) {
		m.reform(best, m.p.Backups, "its master %d is cut off from its backups %v; member %d, which hears more members, takes its place",
			m.p.Master, m.p.Backups, best)
	}
}

// reach is how many members could be backups of a master.
func (m *mover) reach(master view.MemberID) (count int) {
	for _, member := range m.view.Members {
		if m.s.Alive(member.ID) && !m.cut(master, member.ID) {
			count++
		}
	}
	return count
}

// oldest is the first term that is not recovered.
func (m *mover) oldest() uint64 {
	if len(m.p.Formers) > 0 {
		return m.p.Formers[0].Term
	}
	return m.p.Term
}

// knewAll reports whether a member had all that was synced in the terms that are not recovered.
func (m *mover) knewAll(id view.MemberID) bool {
	return !slices.ContainsFunc(m.p.Formers, func(f view.Former) bool { return id != f.Master && !slices.Contains(f.Backups, id) })
}

// reform makes the configuration in which a master recovers from the present one and those before it, with those of some
// backups that are left: fewer than there should be, if it must, while learners fetch the state.
func (m *mover) reform(master view.MemberID, backups []view.MemberID, format string, args ...any) {
	next := view.Partition{Term: m.epoch, Master: master, Formers: append(slices.Clone(m.p.Formers), m.p.Former())}
	for _, former := range next.Formers {
		if former.Master != master && len(former.Witnesses) > 0 && !slices.ContainsFunc(former.Witnesses, m.s.Alive) {
			m.wait("%s, but it could not recover: none of the witnesses %v of term %d is heard; wait for one of them, or for the master %d",
				fmt.Sprintf(format, args...), former.Witnesses, former.Term, m.p.Master)
			return
		}
	}
	faults := m.s.Placement.Faults
	for _, id := range backups {
		if id != master && !m.gone(id) && !m.cut(master, id) && len(next.Backups) < faults {
			next.Backups = append(next.Backups, id)
		}
	}
	next.Learners = m.members(next, faults-len(next.Backups))
	next.Witnesses = m.p.Witnesses // whom to prefer
	next.Witnesses = m.witnesses(next, m.placement.witnesses(len(next.Backups)))
	m.move(next, format, args...)
}

// recover ends a recovery that is done, or has it begin again without a backup that was lost meanwhile: it needs all.
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
	if i := slices.IndexFunc(m.p.Backups, func(id view.MemberID) bool { return m.gone(id) || m.cut(m.p.Master, id) }); i >= 0 {
		m.reform(m.p.Master, m.p.Backups, "its backup %d was lost, or is cut off from it, while member %d recovers it", m.p.Backups[i], m.p.Master)
		return
	}
	m.wait("member %d recovers it", m.p.Master)
}

// tend sees to a partition that serves: backups, learners and witnesses are replaced if they are lost, learners that
// have caught up become backups, and then the master is changed if another one is wanted. The master goes on in its
// new term, once it has synced all that it had.
func (m *mover) tend() {
	if m.yield(); m.moved {
		return
	}
	faults := m.s.Placement.Faults
	want, target := faults, m.target()
	if target != 0 {
		want++ // the master that is to go leaves a gap
	}
	next := view.Partition{Term: m.epoch, Master: m.p.Master, Formers: []view.Former{m.p.Former()}}
	lasting := 0
	for _, id := range m.p.Backups {
		if !m.gone(id) && !m.cut(m.p.Master, id) {
			next.Backups = append(next.Backups, id)
		}
	}
	for _, id := range m.p.Learners {
		switch {
		case m.gone(id) || m.s.drained(id) || m.cut(m.p.Master, id):
		case slices.Contains(m.s.part(m.p.Master, m.i).CaughtUp, id):
			next.Backups = append(next.Backups, id)
		default:
			next.Learners = append(next.Learners, id)
		}
	}
	limit := want
	if target != 0 && !slices.Contains(next.Backups, target) {
		limit = faults // there has to be room for it
	}
	for i := len(next.Backups) - 1; i >= 0; i-- {
		if m.s.drained(next.Backups[i]) && len(next.Backups) > limit {
			next.Backups = slices.Delete(next.Backups, i, i+1)
		}
	}
	for i := len(next.Backups) - 1; i >= 0 && len(next.Backups) > limit; i-- {
		if next.Backups[i] != target {
			next.Backups = slices.Delete(next.Backups, i, i+1)
		}
	}
	for _, id := range next.Backups {
		lasting += 1 - leaving(m.s, id)
	}
	if target != 0 && !slices.Contains(next.Backups, target) && !slices.Contains(next.Learners, target) {
		next.Learners = slices.Insert(next.Learners, 0, target)
	}
	if lacking := want - lasting; lacking < len(next.Learners) {
		next.Learners = next.Learners[:max(0, lacking)]
	} else {
		next.Learners = append(next.Learners, m.members(next, lacking-len(next.Learners))...)
	}
	// Else it hands over or is split next: what completes until then is to be held by all backups.
	if !slices.Contains(next.Backups, target) && !m.splits(next, target) {
		next.Witnesses = m.keepWitnesses(next, m.placement.witnesses(len(next.Backups)))
	}
	switch {
	case !slices.Equal(next.Backups, m.p.Backups):
		m.move(next, "its backups %v become %v, learners %v", m.p.Backups, next.Backups, next.Learners)
	case !slices.Equal(next.Learners, m.p.Learners):
		m.move(next, "its learners %v become %v", m.p.Learners, next.Learners)
	case !slices.Equal(next.Witnesses, m.p.Witnesses):
		m.move(next, "its witnesses %v become %v", m.p.Witnesses, next.Witnesses)
	case slices.Contains(m.p.Backups, target):
		m.handOver(target)
	case m.splits(next, target):
		m.split(next)
	case len(m.p.Learners) > 0:
		m.wait("members %v are fetching its state", m.p.Learners)
	case len(m.p.Backups) < faults || len(m.p.Witnesses) < faults:
		m.wait("it has %d backups and %d witnesses and should have %d of each: nobody is left who could be one",
			len(m.p.Backups), len(m.p.Witnesses), faults)
	}
}

// keepWitnesses are the witnesses that a partition has, without those that are lost; those beside members that leave go once
// others can take their place.
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
	home := m.placement.home(m.view, m.i)
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
		if slices.Contains(m.p.Learners, id) {
			w++
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
	return best
}

// handOver makes a backup the master. The term has no witnesses, so all that completes until the master hears of it is held by all
// backups: the new one replays nothing, and one loss at this time is no more than at any other. The former master executed some that its
// backups don't have, so it is no backup of the new term.
func (m *mover) handOver(target view.MemberID) {
	backups := slices.Clone(m.p.Backups)
	slices.SortStableFunc(backups, func(a, b view.MemberID) int { // rather one that leaves soon than one too few
		return leaving(m.s, a) - leaving(m.s, b)
	})
	m.reform(target, backups, "its master %d hands over to member %d", m.p.Master, target)
}

func leaving(s *Snapshot, id view.MemberID) int {
	if s.drained(id) {
		return 1
	}
	return 0
}
