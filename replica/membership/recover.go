package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/view"
)

// Rescue is what becomes of a cluster with partitions whose quorum was lost for good.
type Rescue struct {
	// View is of those that are left, and makes every partition go on. Its epoch is 0 if Lost keeps it from being made.
	View view.View
	// Lost are the partitions that nobody holds for certain who is left, and whose numbers were not given. Each is in
	// Behind or in Emptied as well, which say what becomes of it with its number.
	Lost []int
	// Behind are the partitions that go on from a member that nobody waited for: they are as they were at some moment
	// before the loss, and the latest writes that were acknowledged may be lost.
	Behind []int
	// Emptied are those that begin again empty: nobody is left with a whole copy.
	Emptied []int
	// Shortened are those of which what only witnesses had is lost: none of a term is left that would have to be
	// recovered from.
	Shortened []int
}

// Costs says what is lost, for people who call partitions so: a part of a sentence each.
func (d *Rescue) Costs(partitions string) (all []string) {
	for _, cost := range []struct {
		of   []int
		says string
	}{
		{d.Behind, "nobody who is left was certain to hold all of %s %s: these go on from the copy of the member " +
			"that followed furthest, and the latest writes that were acknowledged may be lost"},
		{d.Emptied, "nobody who is left had a whole copy of %s %s, which begin again empty"},
		{d.Shortened, "of %s %s what only lost witnesses had saved, the latest writes that were acknowledged, may be " +
			"lost"},
	} {
		if len(cost.of) > 0 {
			all = append(all, fmt.Sprintf(cost.says, partitions, Numbers(cost.of)))
		}
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("none of the %s lost what was acknowledged", partitions))
	}
	return all
}

// Consent says what becomes of the lost partitions once they are named, to be read after "have".
func (d *Rescue) Consent(partitions string) string {
	var all []string
	for _, end := range []struct {
		of   []int
		says string
	}{
		{d.Behind, "%s %s go on from the copy of the member that is left and followed furthest, without the latest " +
			"writes, acknowledged ones too, that it had not heard of"},
		{d.Emptied, "%s %s, of which nobody who is left has a whole copy, begin again empty"},
	} {
		kept := func(i int) bool { return !slices.Contains(d.Lost, i) }
		if lost := slices.DeleteFunc(slices.Clone(end.of), kept); len(lost) > 0 {
			all = append(all, fmt.Sprintf(end.says, partitions, Numbers(lost)))
		}
	}
	return strings.Join(all, ", and ")
}

// Numbers are partitions in a text.
func Numbers(partitions []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(partitions), " ", ", "), "[]")
}

// RecoverPartitions decides how the members that are left go on after a quorum was lost for good: those that the
// snapshot has reports of, with the disks that the view names, and the witnesses of which the same is true. All others
// are given up, and must have been stopped before anybody is told: they may serve what these don't know, and some of
// them may have held what is said here to be lost.
//
// A partition goes on from its master, who has all that it answered for, or else from one that had a part in all
// terms that are not recovered and may have served, with the longest log: it has all that was synced. What was not is
// replayed from one witness of each of these terms, as after a crash.
//
// If nobody is left with that, there is no view unless the partition is named in unheld. Then it goes on from the
// member that has followed furthest, with what that one has and nothing else: what witnesses saved may build on what
// it lacks. If nobody has a whole copy either, it begins again empty. The next views bring newcomers and backups, as
// for any other.
//
// The snapshot's placement is as it is to be; of faults there are no more than the members that are left allow.
func RecoverPartitions(s Snapshot, unheld []int) (Rescue, error) {
	fail := func(format string, args ...any) (Rescue, error) {
		return Rescue{}, fmt.Errorf("recover from the loss of a quorum in epoch %d: %w", s.View.Epoch,
			fmt.Errorf(format, args...))
	}
	left := func(id view.MemberID) bool {
		r := s.report(id)
		return r != nil && r.Disk != "" && !s.lost(id)
	}
	next := view.View{Cluster: s.View.Cluster, Epoch: s.View.Epoch + 1, Issued: s.View.LastIssued(),
		Founded: s.View.Founded, Level: s.View.Level}
	for _, r := range s.Members {
		if r.Epoch > s.View.Epoch {
			return fail("member %d holds the view of epoch %d: rebuild the record first", r.Member, r.Epoch)
		}
	}
	for _, m := range s.View.Members {
		if left(m.ID) {
			m.Joining, m.Leaving = false, false
			next.Members = append(next.Members, m)
		}
	}
	switch {
	case len(s.View.Partitions) == 0:
		return fail("it has no partitions; one member is to be trusted (Recover)")
	case s.View.Quorum(left):
		return fail("a quorum is left, and nothing has to be given up")
	case len(next.Members) == 0:
		return fail("nobody is left")
	}
	for _, w := range s.View.Witnesses {
		answers := slices.ContainsFunc(s.Witnesses, func(r WitnessReport) bool {
			return r.Witness == w.ID && r.Disk == w.Disk
		})
		if answers && (w.Beside == 0 || next.Index(w.Beside) >= 0) {
			next.Witnesses = append(next.Witnesses, w)
		}
	}
	next.Since = next.Epoch
	s.Placement.Faults = min(s.Placement.Faults, next.Faults())
	var d Rescue
	for i, p := range s.View.Partitions {
		c := chooser{view: &next, placement: &s.Placement, able: anyone}
		r := rescuer{chooser: c, s: &s, next: &next, i: i, p: p}
		if best := r.best(); best != 0 {
			part, shortened := r.goOn(best)
			if next.Partitions = append(next.Partitions, part); shortened {
				d.Shortened = append(d.Shortened, i)
			}
			continue
		}
		if id := r.silent(); id != 0 {
			return fail("member %d has not said yet what it has of partition %d, of which nobody holds all; try "+
				"again in a moment", id, i)
		}
		if copied := r.furthest(); copied != 0 {
			next.Partitions = append(next.Partitions, r.follow(copied))
			d.Behind = append(d.Behind, i)
		} else {
			next.Partitions = append(next.Partitions, r.begin())
			d.Emptied = append(d.Emptied, i)
		}
		if !slices.Contains(unheld, i) {
			d.Lost = append(d.Lost, i)
		}
	}
	if len(d.Lost) > 0 {
		return d, nil
	}
	if err := next.Validate(); err != nil {
		return fail("%w", err)
	}
	d.View = next
	return d, nil
}

// Recovered reports whether a view is the one that RecoverPartitions made: no other has members for the first time and
// all its partitions of its own epoch.
func Recovered(v view.View) bool {
	return v.Epoch > 1 && v.Since == v.Epoch && len(v.Partitions) > 0 &&
		!slices.ContainsFunc(v.Partitions, func(p view.Partition) bool { return p.Term != v.Epoch })
}

func anyone(_, _ view.MemberID) bool { return true }

// rescuer decides on one partition.
type rescuer struct {
	chooser
	s    *Snapshot
	next *view.View
	i    int
	p    view.Partition
}

// holds reports whether a member is left that can be the partition's master.
func (r *rescuer) holds(id view.MemberID) bool {
	own := r.s.part(id, r.i)
	terms := append(slices.Clone(r.p.Formers), r.p.Former())
	misses := slices.ContainsFunc(terms, func(f view.Former) bool { return r.s.misses(id, r.i, f) })
	return r.next.Index(id) >= 0 && !own.Lost && !own.Copying && !misses
}

// best is the member that the partition goes on from, or 0.
func (r *rescuer) best() (best view.MemberID) {
	if r.holds(r.p.Master) {
		return r.p.Master
	}
	return r.most(r.holds, func(p Part) uint64 { return p.Term })
}

// silent is a member that is left and has not said what it has, or 0.
func (r *rescuer) silent() view.MemberID {
	for _, m := range r.next.Members {
		if _, told := r.s.said(m.ID, r.i); !told {
			return m.ID
		}
	}
	return 0
}

// copied reports whether a member is left that has a whole copy of the partition, as it was at some moment. Who has
// just come and follows from the beginning of the log, but has nothing of it yet, has none.
func (r *rescuer) copied(id view.MemberID) bool {
	own := r.s.part(id, r.i)
	return !own.Lost && !own.Copying && (own.Length > 0 || own.WholeTerm > 0)
}

// furthest is the member that has followed furthest of those with a copy, or 0: one that has all that was recovered
// when a term began has more than one that has this of earlier terms only, though its log may be shorter.
func (r *rescuer) furthest() view.MemberID {
	return r.most(r.copied, func(p Part) uint64 { return p.WholeTerm })
}

// most is the member that is left with the highest term, and of several the one with the longest log, or 0.
func (r *rescuer) most(able func(view.MemberID) bool, term func(Part) uint64) (best view.MemberID) {
	compare := func(a, b Part) int { return cmp.Or(cmp.Compare(term(a), term(b)), cmp.Compare(a.Length, b.Length)) }
	for _, m := range r.next.Members {
		if able(m.ID) && (best == 0 || compare(r.s.part(m.ID, r.i), r.s.part(best, r.i)) > 0) {
			best = m.ID
		}
	}
	return best
}

// goOn makes the configuration in which a member recovers the partition, and reports whether something is lost for want
// of witnesses.
func (r *rescuer) goOn(master view.MemberID) (next view.Partition, shortened bool) {
	next = view.Partition{Term: r.next.Epoch, Split: r.p.Split, Master: master}
	formers := r.s.needed(r.i)
	if r.s.part(master, r.i).Recovered {
		formers = formers[len(formers)-1:]
	}
	for _, f := range formers {
		had := len(f.Witnesses)
		f.Witnesses = slices.DeleteFunc(slices.Clone(f.Witnesses), func(id view.MemberID) bool {
			_, left := r.next.Witness(id)
			return !left
		})
		remembers := f.Master == master && len(f.Backups) > 0 || // alone, it answers before its disk has it
			f.Term < r.s.part(master, r.i).WholeTerm || r.s.neverServed(r.i, f)
		shortened = shortened || had > 0 && len(f.Witnesses) == 0 && !remembers
		next.Formers = append(next.Formers, f)
	}
	for _, id := range r.p.Backups {
		if id != master && r.next.Index(id) >= 0 && !r.s.part(id, r.i).Lost &&
			len(next.Backups) < r.s.Placement.Faults {
			next.Backups = append(next.Backups, id)
		}
	}
	return r.saved(next, r.p.Witnesses), shortened
}

// follow makes the configuration in which a member goes on with its copy. Its backups have one, too: others would
// have nothing if it was lost before they have followed it.
func (r *rescuer) follow(master view.MemberID) view.Partition {
	next := view.Partition{Term: r.next.Epoch, Split: r.p.Split, Master: master}
	r.able = func(_, id view.MemberID) bool { return r.copied(id) }
	next.Backups = r.members(next, r.s.Placement.Faults)
	r.able = anyone
	return r.saved(next, r.p.Witnesses)
}

// begin makes the configuration in which the partition begins again empty.
func (r *rescuer) begin() view.Partition {
	next := view.Partition{Term: r.next.Epoch, Split: r.p.Split, Empty: true,
		Master: r.next.Members[r.i%r.next.Size()].ID}
	if slices.Contains(r.next.Sites(), r.s.Placement.Home(r.next, r.i)) {
		next.Master = r.master(r.i)
	}
	next.Backups = r.members(next, r.s.Placement.Faults)
	return r.saved(next, nil)
}
